//! Row invariance: the same rows give the same bits however they are split into calls, whatever else is in
//! the call, as a chain or as a path of a tree, after a rollback and from a snapshot.

use super::attention::{Layer, append, attend, chain, parents, span};
use super::data::{Random, all, assert_bits, bits, filled};
use super::decode::{FORMATS, Matrix, whole};
use crate::{Activation, Backend, Batch, Keep, Mask, Pre, SeqCache, Shape, Tail, Tensor, Weight};

/// Splits of the rows of a product, and rows of a choice alone and together.
///
/// # Panics
/// When the backend breaks its contract.
pub fn linear_laws(backend: &dyn Backend) {
    let mut random = Random(10);
    for format in FORMATS {
        for (outputs, cols) in [(48, 128), (37, 640)] {
            let cols = whole(format, cols);
            let pair = [0, 1].map(|_| Matrix::random(format, outputs, cols, &mut random));
            let weight = backend.pack(&[pair[0].part(), pair[1].part()]).expect("a format of the suite");
            let gain = filled(backend, cols, &random.floats(cols));
            let pre = Pre::RmsNorm { weight: &gain, eps: 1e-5 };
            for rows in [7, 33] {
                let x = random.floats(rows * cols);
                for tail in [Tail::Store, Tail::Glu(Activation::Silu)] {
                    let whole = product(backend, &weight, &x, pre, tail);
                    for longest in [1, 12] {
                        let (mut split, mut done) = (vec![Vec::new(); whole.len()], 0);
                        for count in random.split(rows, longest) {
                            let part =
                                product(backend, &weight, &x[done * cols..][..count * cols], pre, tail);
                            split.iter_mut().zip(part).for_each(|(all, part)| all.extend(part));
                            done += count;
                        }
                        let what = format!("{rows} rows by {format} in calls of up to {longest}");
                        whole.iter().zip(&split).for_each(|(whole, split)| assert_bits(split, whole, &what));
                    }
                }
            }
        }
        choice_law(backend, &Matrix::random(format, 700, whole(format, 128), &mut random), &mut random);
    }
}

fn product(backend: &dyn Backend, weight: &Weight, x: &[f32], pre: Pre<'_>, tail: Tail) -> Vec<Vec<f32>> {
    let x = filled(backend, weight.cols(), x);
    let outputs = if tail == Tail::Store { weight.parts().len() } else { 1 };
    let tensor = |part: usize| backend.tensor(x.rows(), weight.parts()[part].rows);
    let mut outs: Vec<Tensor> = (0..outputs).map(tensor).collect();
    backend.linear(weight, &x, pre, tail, &mut outs.iter_mut().collect::<Vec<_>>());
    outs.iter().map(|out| all(backend, out)).collect()
}

fn choice_law(backend: &dyn Backend, matrix: &Matrix, random: &mut Random) {
    let weight = backend.pack(&[matrix.part()]).expect("a format of the suite");
    let x = filled(backend, matrix.cols, &random.floats(16 * matrix.cols));
    let choose = |rows: &[usize]| {
        let mut out = Vec::new();
        backend
            .choose(&weight, &x, rows, Pre::None, crate::Among::first(matrix.rows), &mut out)
            .expect("finite logits");
        out
    };
    let all: Vec<usize> = (0..16).collect();
    let alone: Vec<_> = all.iter().flat_map(|&row| choose(&[row])).collect();
    assert_eq!(choose(&all), alone, "choices alone and together");
}

fn layers() -> [Layer; 5] {
    let window = |window| Mask { window: Some(window), ..Mask::CAUSAL };
    [
        Layer::new(6, 2, 32, Mask::CAUSAL),
        Layer::new(3, 3, 16, window(16)),
        Layer::new(8, 1, 64, window(100)).elaborate(),
        Layer::new(10, 2, 40, Mask::CAUSAL).elaborate(),
        Layer::new(4, 4, 8, window(64)),
    ]
}

fn ids(count: usize, random: &mut Random) -> Vec<u32> {
    (0..count).map(|_| random.below(1000) as u32).collect()
}

/// All laws of attention.
///
/// # Panics
/// When the backend breaks its contract.
pub fn attention_laws(backend: &dyn Backend) {
    let mut random = Random(11);
    for layer in layers() {
        row_law(backend, &layer, &mut random);
        tree_law(backend, &layer, &mut random);
        rollback_law(backend, &layer, &mut random);
        snapshot_law(backend, &layer, &mut random);
        batch_law(backend, &layer, &mut random);
    }
}

fn row_law(backend: &dyn Backend, layer: &Layer, random: &mut Random) {
    let spec = layer.spec(backend);
    for len in [1, 63, 65, 200] {
        let ids = ids(len, random);
        let whole = chain(backend, &spec, &ids, &mut layer.cache());
        for longest in [1, 9, 100] {
            let (mut cache, mut split) = (layer.cache(), Vec::new());
            for count in random.split(len, longest) {
                split.extend(chain(backend, &spec, &ids[cache.len()..][..count], &mut cache));
            }
            assert_bits(&split, &whole, &format!("{layer:?}: {len} rows in calls of up to {longest}"));
        }
    }
}

fn path(parents: &[Option<usize>], row: usize) -> Vec<usize> {
    let mut path: Vec<usize> = std::iter::successors(Some(row), |&row| parents[row]).collect();
    path.reverse();
    path
}

fn tree_law(backend: &dyn Backend, layer: &Layer, random: &mut Random) {
    let spec = layer.spec(backend);
    let cols = spec.heads * spec.kv.dim;
    for prefix in (0..=130).step_by(10).chain([63, 64, 65, 127, 128, 129]) {
        let (prefix, rows) = (ids(prefix, random), 1 + random.below(16));
        let (ids, parents) = (ids(rows, random), parents(rows, random));
        let mut cache = layer.cache();
        append(backend, &spec, &prefix, &mut cache);
        let mut tree = cache.snapshot();
        let out = span(backend, &spec, &ids, Shape::Tree(parents.clone()), &mut tree);
        let last = path(&parents, rows - 1);
        let chained: Vec<u32> = last.iter().map(|&row| ids[row]).collect();
        let expected = chain(backend, &spec, &chained, &mut cache);
        for (&row, expected) in last.iter().zip(expected.chunks(cols)) {
            assert_bits(&out[row * cols..][..cols], expected, "a path of a tree");
        }
        tree.accept_path(&parents, &last);
        let next = [1, 2, 3];
        let after = (chain(backend, &spec, &next, &mut tree), chain(backend, &spec, &next, &mut cache));
        assert_bits(&after.0, &after.1, "after a path was accepted");
    }
}

fn rollback_law(backend: &dyn Backend, layer: &Layer, random: &mut Random) {
    let spec = layer.spec(backend);
    let cols = spec.heads * spec.kv.dim;
    let right = ids(150, random);
    let whole = chain(backend, &spec, &right, &mut layer.cache());
    let mut cache = layer.cache();
    while cache.len() < right.len() {
        let done = cache.len();
        let good = random.below(9).min(right.len() - done);
        let mut drafted = right[done..][..good].to_vec();
        drafted.extend(ids(1 + random.below(12), random));
        let out = span(backend, &spec, &drafted, Shape::Chain, &mut cache);
        cache.accept_chain(good);
        assert_bits(&out[..good * cols], &whole[done * cols..][..good * cols], "after rejected rows");
    }
}

fn snapshot_law(backend: &dyn Backend, layer: &Layer, random: &mut Random) {
    let spec = layer.spec(backend);
    for len in [1, 64, 100] {
        let (prefix, one, other) = (ids(len, random), ids(20, random), ids(20, random));
        let mut cache = layer.cache();
        append(backend, &spec, &prefix, &mut cache);
        let fresh = chain(backend, &spec, &other, &mut cache);
        let mut cache = layer.cache();
        append(backend, &spec, &prefix, &mut cache);
        let snapshot = cache.snapshot();
        chain(backend, &spec, &one, &mut cache);
        cache.restore(&snapshot);
        assert_bits(&chain(backend, &spec, &other, &mut cache), &fresh, "from a snapshot");
    }
}

fn batch_law(backend: &dyn Backend, layer: &Layer, random: &mut Random) {
    // A span that keeps or looks ahead is tried in the same batch as the layer's own mask allows.
    let keep = Mask { causal: false, window: None, keep: Some(Keep { sink: 2, tail: 50 }) };
    for layer in [*layer, Layer { mask: keep, ..*layer }] {
        let spec = layer.spec(backend);
        let mut caches: Vec<SeqCache> = Vec::new();
        let (mut batch, mut alone) = (Batch::new(), Vec::new());
        for (prefix, rows) in [(0, 30), (64, 1), (130, 16), (7, 5)] {
            let mut cache = layer.cache();
            if prefix > 0 {
                append(backend, &spec, &ids(prefix, random), &mut cache);
            }
            let tree = layer.mask.causal && rows == 16;
            let shape = if tree { Shape::Tree(parents(rows, random)) } else { Shape::Chain };
            let ids = ids(rows, random);
            batch.push(&ids, prefix, shape.clone());
            alone.extend(span(backend, &spec, &ids, shape, &mut cache.snapshot()));
            caches.push(cache);
        }
        let together = attend(backend, &spec, &batch, &mut caches.iter_mut().collect::<Vec<_>>());
        assert_eq!(bits(&together), bits(&alone), "{layer:?}: spans of a batch");
    }
}
