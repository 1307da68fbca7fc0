use dflash_cpu::Isa;
use dflash_tensor::{Batch, SeqCache, Shape};

use crate::common::cases::Case;
use crate::common::model::{Model, Row};

/// A prompt, a rollback, a tree and batches of so many sequences.
fn everything(model: &mut Model, sequences: usize) -> Vec<Row> {
    let ids = model.prompt(90, 2);
    let mut cache = model.target.new_cache();
    let mut rows = model.prefill(&mut cache, &ids[..50]);
    rows.extend(model.chain(&mut cache, &ids[50..66], 11));
    let parents = [None, Some(0), Some(0), Some(2), None, Some(3)];
    rows.extend(model.tree(&mut cache, &ids[66..72], &parents, &[0, 2, 3]));
    rows.extend(model.chain(&mut cache, &ids[72..], 9));

    let mut caches = (0..sequences).map(|_| cache.snapshot()).collect::<Vec<_>>();
    rows.extend(together(model, &mut caches, &ids, 8));
    caches.iter_mut().enumerate().for_each(|(index, cache)| cache.accept_chain(index % 9));
    rows.extend(together(model, &mut caches, &ids, 2));
    rows
}

/// A pass over `rows` rows of every sequence, each with ids of its own.
fn together(model: &mut Model, caches: &mut [SeqCache], ids: &[u32], rows: usize) -> Vec<Row> {
    let mut batch = Batch::new();
    for (index, cache) in caches.iter_mut().enumerate() {
        batch.push(&ids[index..index + rows], cache.len(), Shape::Chain);
        cache.begin_verify(rows);
    }
    model.run(&batch, &mut caches.iter_mut().collect::<Vec<_>>())
}

/// With so many sequences, threads share every operation, the recurrence of a few small heads too.
#[test]
fn thread_law() {
    for case in Case::kinds() {
        let truth = everything(&mut Model::load_on(&case, 1, Isa::detect()), 48);
        for threads in [2, 3, 7] {
            let rows = everything(&mut Model::load_on(&case, threads, Isa::detect()), 48);
            assert!(rows == truth, "{}: {threads} threads", case.name);
        }
    }
}

#[test]
fn isa_law() {
    for case in Case::all() {
        let [scalar, detected] =
            [Isa::Scalar, Isa::detect()].map(|isa| everything(&mut Model::load_on(&case, 2, isa), 3));
        assert!(scalar == detected, "{}: {:?}", case.name, Isa::detect());
    }
}
