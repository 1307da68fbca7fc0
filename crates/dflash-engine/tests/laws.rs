//! The laws of exactness on a whole target: every logit row is a function of its token prefix alone.

mod common;

use common::*;
use dflash_cpu::Isa;
use dflash_models::{Target, Workspace};
use dflash_tensor::{Batch, SeqCache, Shape, argmax};
use dflash_testkit::{Rng, TinyLlama};

/// A target with its scratch.
struct Model {
    target: Box<dyn Target>,
    workspace: Workspace,
}

type Row = Vec<u32>;

impl Model {
    fn new(threads: usize, isa: Isa) -> Self {
        let dir = tiny_llama(&TinyLlama::default());
        let target = target_on(dir.path(), threads, isa);
        let workspace = target.workspace();
        Self { target, workspace }
    }

    fn vocab(&self) -> usize {
        self.target.spec().vocab
    }

    /// Runs spans on their caches; logit rows as bits. The caller settles the caches.
    fn run(&mut self, batch: &Batch, caches: &mut [&mut SeqCache]) -> Vec<Row> {
        for (span, cache) in batch.spans().iter().zip(caches.iter_mut()) {
            cache.begin_verify(span.rows);
        }
        self.target.forward(&mut self.workspace, batch, caches, None);
        let rows: Vec<usize> = (0..batch.rows()).collect();
        let backend = self.target.backend();
        let mut out = backend.tensor(rows.len(), self.target.head().rows());
        self.target.logits(&self.workspace, &rows, &mut out);
        rows.iter().map(|&row| backend.read(&out, row).into_iter().map(f32::to_bits).collect()).collect()
    }

    fn chain(&mut self, cache: &mut SeqCache, ids: &[u32], accept: usize) -> Vec<Row> {
        let mut batch = Batch::new();
        batch.push(ids, cache.len(), Shape::Chain);
        let rows = self.run(&batch, &mut [cache]);
        cache.accept_chain(accept);
        rows
    }

    /// One row at a time: plain decoding.
    fn plain(&mut self, ids: &[u32]) -> Vec<Row> {
        let mut cache = self.target.new_cache();
        ids.iter().flat_map(|&id| self.chain(&mut cache, &[id], 1)).collect()
    }
}

#[test]
fn row_law_any_split_gives_the_same_bits() {
    let mut model = Model::new(2, Isa::detect());
    let ids = prompt(150, model.vocab(), 1);
    let truth = model.plain(&ids);
    let mut rng = Rng::new(4);
    for most in [2, 5, 17, 64, 150] {
        let (mut cache, mut rows) = (model.target.new_cache(), Vec::new());
        while cache.len() < ids.len() {
            let n = (1 + rng.below(most) as usize).min(ids.len() - cache.len());
            let chunk = ids[cache.len()..cache.len() + n].to_vec();
            rows.extend(model.chain(&mut cache, &chunk, n));
        }
        assert!(rows == truth, "splits of up to {most}");
    }
}

#[test]
fn thread_law_and_isa_law() {
    let mut first = Model::new(1, Isa::detect());
    let ids = prompt(70, first.vocab(), 2);
    let mut cache = first.target.new_cache();
    let truth = first.chain(&mut cache, &ids, ids.len());
    for (threads, isa) in [(2, Isa::detect()), (3, Isa::detect()), (7, Isa::detect()), (2, Isa::Scalar)] {
        let mut model = Model::new(threads, isa);
        let mut cache = model.target.new_cache();
        assert!(model.chain(&mut cache, &ids, ids.len()) == truth, "{threads} threads, {isa:?}");
    }
}

#[test]
fn rollback_law_rejected_rows_leave_no_trace() {
    let mut model = Model::new(2, Isa::detect());
    let vocab = model.vocab();
    for prefix in [1, 2, 60, 63, 64, 70] {
        let ids = prompt(prefix + 17, vocab, prefix as u64);
        let truth = model.plain(&ids);
        for n in [2, 5, 16] {
            for k in 0..=n {
                let mut cache = model.target.new_cache();
                model.chain(&mut cache, &ids[..prefix], prefix);
                // The first k drafted rows are right, the rest is noise.
                let mut drafted = ids[prefix..prefix + k].to_vec();
                drafted.extend(prompt(n - k, vocab, 77 + k as u64));
                let rows = model.chain(&mut cache, &drafted, k);
                assert!(rows[..k] == truth[prefix..prefix + k]);
                let rest = ids[prefix + k..].to_vec();
                let rows = model.chain(&mut cache, &rest, rest.len());
                assert!(rows == truth[prefix + k..], "prefix {prefix}, {k} of {n} accepted");
            }
        }
    }
}

#[test]
fn tree_law_a_path_is_a_chain() {
    let mut model = Model::new(2, Isa::detect());
    let vocab = model.vocab();
    let mut rng = Rng::new(9);
    for prefix in (0..=130).step_by(5).chain([63, 64, 127, 128]) {
        let ids = prompt(prefix, vocab, 5);
        let mut cache = model.target.new_cache();
        if prefix > 0 {
            model.chain(&mut cache, &ids, prefix);
        }
        let nodes = prompt(14, vocab, prefix as u64);
        let parents: Vec<Option<usize>> =
            (0..nodes.len()).map(|row| (row > 0).then(|| rng.below(row as u32) as usize)).collect();
        let mut batch = Batch::new();
        batch.push(&nodes, prefix, Shape::Tree(parents.clone()));
        let committed = cache.snapshot();
        let rows = model.run(&batch, &mut [&mut cache]);

        let mut last_path = Vec::new();
        for (row, got) in rows.iter().enumerate() {
            let mut path: Vec<usize> = std::iter::successors(Some(row), |&row| parents[row]).collect();
            path.reverse();
            let chain: Vec<u32> = path.iter().map(|&row| nodes[row]).collect();
            let mut alone = committed.snapshot();
            let truth = model.chain(&mut alone, &chain, 0);
            assert!(*got == truth[path.len() - 1], "prefix {prefix}, row {row}");
            last_path = path;
        }
        // A committed path continues like the chain it is.
        cache.accept_path(&parents, &last_path);
        let chain: Vec<u32> = last_path.iter().map(|&row| nodes[row]).collect();
        let mut alone = committed.snapshot();
        model.chain(&mut alone, &chain, chain.len());
        assert!(model.chain(&mut cache, &[1, 2, 3], 3) == model.chain(&mut alone, &[1, 2, 3], 3));
    }
}

#[test]
fn restore_law_a_snapshot_continues_like_the_original() {
    let mut model = Model::new(2, Isa::detect());
    let ids = prompt(140, model.vocab(), 6);
    let truth = model.plain(&ids);
    for at in [1, 63, 64, 65, 100, 128] {
        let mut cache = model.target.new_cache();
        model.chain(&mut cache, &ids[..at], at);
        let snapshot = cache.snapshot();
        // Whatever the original does afterwards stays out of the snapshot.
        let noise = prompt(30, model.vocab(), 8);
        model.chain(&mut cache, &noise, 30);
        cache.restore(&snapshot);
        for mut copy in [cache, snapshot] {
            assert_eq!(copy.len(), at);
            assert!(model.chain(&mut copy, &ids[at..], ids.len() - at) == truth[at..], "restored at {at}");
        }
    }
}

#[test]
fn batch_law_a_sequence_among_others_is_a_sequence_alone() {
    let mut model = Model::new(2, Isa::detect());
    let lens = [1, 70, 3, 128, 17];
    let sequences: Vec<Vec<u32>> =
        lens.iter().map(|&len| prompt(len + 9, model.vocab(), len as u64)).collect();
    let truths: Vec<Vec<Row>> = sequences.iter().map(|ids| model.plain(ids)).collect();
    let mut caches: Vec<SeqCache> = lens.iter().map(|_| model.target.new_cache()).collect();
    let mut batch = Batch::new();
    for part in 0..2 {
        batch.clear();
        for ((ids, &len), cache) in sequences.iter().zip(&lens).zip(&caches) {
            let range = if part == 0 { 0..len } else { len..ids.len() };
            batch.push(&ids[range], cache.len(), Shape::Chain);
        }
        let rows = model.run(&batch, &mut caches.iter_mut().collect::<Vec<_>>());
        for ((span, cache), truth) in batch.spans().iter().zip(&mut caches).zip(&truths) {
            let got = &rows[span.first_row..span.first_row + span.rows];
            assert!(got == &truth[span.start..span.start + span.rows], "from position {}", span.start);
            cache.accept_chain(span.rows);
        }
    }
}

#[test]
fn the_fused_choice_is_the_argmax_of_the_stored_row() {
    let mut model = Model::new(2, Isa::detect());
    let ids = prompt(33, model.vocab(), 3);
    let mut cache = model.target.new_cache();
    let rows = model.chain(&mut cache, &ids, 33);
    let mut choices = Vec::new();
    model.target.choose(&model.workspace, &(0..33).collect::<Vec<_>>(), &mut choices).unwrap();
    for (row, choice) in rows.iter().zip(&choices) {
        let logits: Vec<f32> = row[..model.vocab()].iter().map(|&bits| f32::from_bits(bits)).collect();
        assert_eq!(argmax(&logits), Ok(choice.id as usize));
        assert_eq!(logits[choice.id as usize].to_bits(), choice.logit.to_bits());
        let sum: f64 = logits.iter().map(|&x| f64::from(x).exp()).sum();
        assert!((f64::from(choice.logsumexp) - sum.ln()).abs() < 1e-5);
    }
}
