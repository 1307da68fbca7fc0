//! Laws of recurrent layers: the same rows give the same bits however they are split into calls, whatever
//! else is in the call, as a chain or as a path of a tree, after a rollback and from a snapshot.

use super::attention::{parents, tokens};
use super::data::{Random, all, assert_bits};
use super::recurrent::{Layer, Spec, layers, pass};
use crate::{Backend, Batch, SeqCache, Shape, Tensor};

/// A layer of the suite on a backend.
struct Bench<'a> {
    backend: &'a dyn Backend,
    layer: Layer,
    spec: Spec,
}

impl Bench<'_> {
    fn cache(&self) -> SeqCache {
        self.spec.cache(self.backend)
    }

    /// A span through the cache, not settled.
    fn span(&self, ids: &[u32], shape: Shape, cache: &mut SeqCache) -> Vec<f32> {
        let mut batch = Batch::new();
        batch.push(ids, cache.len(), shape);
        cache.begin_verify(ids.len());
        pass(self.backend, &self.layer, &self.spec, &batch, &mut [cache])
    }

    /// A chain through the cache, all accepted.
    fn chain(&self, ids: &[u32], cache: &mut SeqCache) -> Vec<f32> {
        let out = self.span(ids, Shape::Chain, cache);
        cache.accept_chain(ids.len());
        out
    }

    /// [`Bench::chain`] without a tape.
    fn prefill(&self, ids: &[u32], cache: &mut SeqCache) -> Vec<f32> {
        let mut batch = Batch::new();
        batch.push(ids, cache.len(), Shape::Chain);
        cache.begin_prefill(ids.len());
        let out = pass(self.backend, &self.layer, &self.spec, &batch, &mut [cache]);
        cache.accept_chain(ids.len());
        out
    }

    fn cols(&self) -> usize {
        self.layer.cols()
    }

    fn what(&self, what: &str) -> String {
        format!("{:?}: {what}", self.layer)
    }
}

fn ids(count: usize, random: &mut Random) -> Vec<u32> {
    (0..count).map(|_| random.below(1000) as u32).collect()
}

/// All laws of [`Backend::gated_delta`] and [`Backend::short_conv`].
///
/// # Panics
/// When the backend breaks its contract.
pub fn recurrent_laws(backend: &dyn Backend) {
    let mut random = Random(42);
    for layer in layers() {
        let bench = Bench { backend, layer, spec: layer.spec(backend) };
        row_law(&bench, &mut random);
        rollback_law(&bench, &mut random);
        refusal_law(&bench, &mut random);
        tree_law(&bench, &mut random);
        long_law(&bench, &mut random);
        batch_law(&bench, &mut random);
        snapshot_law(&bench, &mut random);
        poison_law(&bench, &mut random);
    }
}

fn row_law(bench: &Bench<'_>, random: &mut Random) {
    for len in [1, 2, 5, 60] {
        let ids = ids(len, random);
        let whole = bench.chain(&ids, &mut bench.cache());
        assert_bits(&bench.prefill(&ids, &mut bench.cache()), &whole, &bench.what("without a tape"));
        for longest in [1, 3, 20] {
            let (mut cache, mut split) = (bench.cache(), Vec::new());
            for count in random.split(len, longest) {
                let part = &ids[cache.len()..][..count];
                split.extend(match random.below(2) {
                    0 => bench.chain(part, &mut cache),
                    _ => bench.prefill(part, &mut cache),
                });
            }
            assert_bits(&split, &whole, &bench.what("in several calls"));
        }
    }
}

/// Of a pass any number of rows is accepted; the state is that of the accepted rows alone.
fn rollback_law(bench: &Bench<'_>, random: &mut Random) {
    let cols = bench.cols();
    for prefix in [0, 1, 2, 3, 11] {
        let right = ids(prefix + 24, random);
        let whole = bench.chain(&right, &mut bench.cache());
        let mut before = bench.cache();
        bench.prefill(&right[..prefix], &mut before);
        for rows in [1, 2, 5, 16] {
            for accepted in 0..=rows {
                let mut cache = before.snapshot();
                let mut drafted = right[prefix..][..accepted].to_vec();
                drafted.extend(ids(rows - accepted, random));
                let out = bench.span(&drafted, Shape::Chain, &mut cache);
                assert!(rows == 1 || cache.layer(0).recurrent().tape_bytes() > 0, "a pass has a tape");
                cache.accept_chain(accepted);
                let what = bench.what(&format!("{accepted} of {rows} rows after {prefix}"));
                assert_bits(&out[..accepted * cols], &whole[prefix * cols..][..accepted * cols], &what);
                let done = prefix + accepted;
                // One call that fills the window of the convolution in part, then more.
                let mut after = bench.chain(&right[done..][..1], &mut cache);
                after.extend(bench.chain(&right[done + 1..][..7], &mut cache));
                assert_bits(&after, &whole[done * cols..][..8 * cols], &what);
            }
        }
    }
}

/// Nothing of a pass is accepted, also when it is a prompt's.
fn refusal_law(bench: &Bench<'_>, random: &mut Random) {
    let (prefix, next) = (ids(5, random), ids(4, random));
    let mut cache = bench.cache();
    bench.prefill(&prefix, &mut cache);
    let expected = bench.chain(&next, &mut cache.snapshot());
    for rows in [1, 2, 9] {
        let mut batch = Batch::new();
        batch.push(&ids(rows, random), cache.len(), Shape::Chain);
        cache.begin_prefill(rows);
        pass(bench.backend, &bench.layer, &bench.spec, &batch, &mut [&mut cache]);
        cache.accept_chain(0);
        let found = bench.chain(&next, &mut cache.snapshot());
        assert_bits(&found, &expected, &bench.what("after a refused pass"));
    }
}

fn path(parents: &[Option<usize>], row: usize) -> Vec<usize> {
    let mut path: Vec<usize> = std::iter::successors(Some(row), |&row| parents[row]).collect();
    path.reverse();
    path
}

fn tree_law(bench: &Bench<'_>, random: &mut Random) {
    let cols = bench.cols();
    for prefix in [0, 1, 2, 3, 9] {
        let (prefix, rows) = (ids(prefix, random), 2 + random.below(15));
        let (ids, parents) = (ids(rows, random), parents(rows, random));
        let mut before = bench.cache();
        bench.prefill(&prefix, &mut before);
        let mut tree = before.snapshot();
        let out = bench.span(&ids, Shape::Tree(parents.clone()), &mut tree);
        tree.accept_path(&parents, &[]);
        for row in 0..rows {
            let path = path(&parents, row);
            let chained: Vec<u32> = path.iter().map(|&row| ids[row]).collect();
            let mut chain = before.snapshot();
            let expected = bench.chain(&chained, &mut chain);
            let last = &expected[expected.len() - cols..];
            assert_bits(&out[row * cols..][..cols], last, &bench.what("a row of a tree"));
            let again = bench.span(&ids, Shape::Tree(parents.clone()), &mut tree);
            assert_bits(&again, &out, &bench.what("a tree after a tree"));
            let mut after = before.snapshot();
            bench.span(&ids, Shape::Tree(parents.clone()), &mut after);
            after.accept_path(&parents, &path);
            tree.accept_path(&parents, &[]);
            let next = [1, 2, 3];
            let found = bench.chain(&next, &mut after);
            assert_bits(&found, &bench.chain(&next, &mut chain), &bench.what("after a path"));
        }
    }
}

/// Of a long pass, a chain or a tree, a short or a long path is accepted. No snapshot shares the state, unlike in
/// the laws above.
fn long_law(bench: &Bench<'_>, random: &mut Random) {
    const ROWS: usize = 60;
    let cols = bench.cols();
    let (prefix, ids) = (ids(5, random), ids(ROWS, random));
    // Every third row of the tree is a leaf beside the trunk.
    let trunk: Vec<usize> = (0..ROWS).filter(|row| row % 3 != 2).collect();
    let parents: Vec<_> = (0..ROWS).map(|row| trunk.iter().copied().rfind(|&before| before < row)).collect();
    for accepted in [1, 15, 16, 17, 32, 33, 40] {
        for tree in [false, true] {
            let [mut cache, mut alone] = [(); 2].map(|()| {
                let mut cache = bench.cache();
                bench.prefill(&prefix, &mut cache);
                cache
            });
            let (path, out) = if tree {
                let out = bench.span(&ids, Shape::Tree(parents.clone()), &mut cache);
                cache.accept_path(&parents, &trunk[..accepted]);
                (trunk[..accepted].to_vec(), out)
            } else {
                let out = bench.span(&ids[..40], Shape::Chain, &mut cache);
                cache.accept_chain(accepted);
                ((0..accepted).collect(), out)
            };
            let what = bench.what(&format!("{accepted} rows of a long pass, a tree: {tree}"));
            let chained: Vec<u32> = path.iter().map(|&row| ids[row]).collect();
            let expected = bench.chain(&chained, &mut alone);
            let found: Vec<f32> = path.iter().flat_map(|row| &out[row * cols..][..cols]).copied().collect();
            assert_bits(&found, &expected, &what);
            let next = [1, 2, 3];
            let expected = bench.chain(&next, &mut alone);
            assert_bits(&bench.chain(&next, &mut cache), &expected, &what);
        }
    }
}

/// Sequences side by side, each with a prefix and a shape of its own, and what becomes of them.
fn batch_law(bench: &Bench<'_>, random: &mut Random) {
    let (mut batch, mut alone) = (Batch::new(), Vec::new());
    let (mut caches, mut twins) = (Vec::new(), Vec::new());
    let tree = parents(7, random);
    for (prefix, rows) in [(0, 3), (1, 1), (12, 16), (4, 7)] {
        let mut cache = bench.cache();
        bench.prefill(&ids(prefix, random), &mut cache);
        let shape = if rows == 7 { Shape::Tree(tree.clone()) } else { Shape::Chain };
        let (ids, mut twin) = (ids(rows, random), cache.snapshot());
        batch.push(&ids, prefix, shape.clone());
        alone.extend(bench.span(&ids, shape, &mut twin));
        cache.begin_verify(rows);
        caches.push(cache);
        twins.push(twin);
    }
    let mut borrowed: Vec<&mut SeqCache> = caches.iter_mut().collect();
    let together = pass(bench.backend, &bench.layer, &bench.spec, &batch, &mut borrowed);
    assert_bits(&together, &alone, &bench.what("spans of a batch"));
    for ((span, cache), twin) in batch.spans().iter().zip(&mut caches).zip(&mut twins) {
        let after = [cache, twin].map(|cache| {
            match &span.shape {
                Shape::Chain => cache.accept_chain(span.rows.div_ceil(2)),
                Shape::Tree(parents) => cache.accept_path(parents, &path(parents, 6)),
            }
            bench.chain(&[5, 6], cache)
        });
        assert_bits(&after[0], &after[1], &bench.what("after a batch"));
    }
}

/// A snapshot is what it was whatever becomes of the sequence, and the other way round.
fn snapshot_law(bench: &Bench<'_>, random: &mut Random) {
    for len in [0, 1, 2, 10] {
        let (prefix, one, other) = (ids(len, random), ids(9, random), ids(9, random));
        let mut cache = bench.cache();
        bench.prefill(&prefix, &mut cache);
        let mut fresh = bench.cache();
        bench.prefill(&prefix, &mut fresh);
        let expected = bench.chain(&other, &mut fresh);
        let mut snapshot = cache.snapshot();
        for part in [&one[..1], &one[1..5], &one[5..]] {
            bench.chain(part, &mut cache);
        }
        let kept = snapshot.snapshot();
        assert_bits(&bench.chain(&other, &mut snapshot), &expected, &bench.what("a snapshot goes on"));
        cache.restore(&kept);
        assert_eq!(cache.len(), len, "length of a snapshot");
        bench.span(&one, Shape::Chain, &mut cache);
        cache.accept_chain(0);
        assert_bits(&bench.chain(&other, &mut cache), &expected, &bench.what("from a snapshot"));
    }
}

/// What is not a number spreads to its row, whichever input it is in, and to no other sequence.
fn poison_law(bench: &Bench<'_>, random: &mut Random) {
    let (layer, backend, cols) = (&bench.layer, bench.backend, bench.cols());
    let mut batch = Batch::new();
    (0..2).for_each(|_| batch.push(&ids(6, random), 0, Shape::Chain));
    let clean = {
        let (mut one, mut other) = (bench.cache(), bench.cache());
        pass(backend, layer, &bench.spec, &batch, &mut [&mut one, &mut other])
    };
    assert!(clean.iter().all(|x| x.is_finite()), "{layer:?}: rows of numbers");
    for (poisoned, width) in layer.inputs().into_iter().enumerate() {
        for col in [0, width / 2, width - 1] {
            let input = |(salt, cols)| tokens(backend, batch.ids(), cols, salt);
            let mut inputs: Vec<Tensor> = (1..).zip(layer.inputs()).map(input).collect();
            let mut row = backend.read(&inputs[poisoned], 2);
            row[col] = f32::NAN;
            backend.write(&mut inputs[poisoned], 2, &row);
            let (mut one, mut other) = (bench.cache(), bench.cache());
            let mut out = backend.tensor(batch.rows(), cols);
            bench.spec.apply(backend, &batch, &mut [&mut one, &mut other], &inputs, &mut out);
            let found = all(backend, &out);
            let what = bench.what(&format!("column {col} of input {poisoned} is no number"));
            assert_bits(&found[..2 * cols], &clean[..2 * cols], &what);
            assert!(found[2 * cols..3 * cols].iter().any(|x| x.is_nan()), "{what}");
            assert_bits(&found[6 * cols..], &clean[6 * cols..], &what);
        }
    }
}
