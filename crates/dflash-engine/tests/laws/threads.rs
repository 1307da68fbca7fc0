use dflash_cpu::Isa;
use dflash_tensor::{Batch, SeqCache, Shape};

use crate::common::cases::Case;
use crate::common::model::{Model, Row};

/// A prompt, a rollback, a tree, and a batch that is large enough for threads to share every operation.
fn everything(model: &mut Model) -> Vec<Row> {
    let ids = model.prompt(90, 2);
    let mut cache = model.target.new_cache();
    let mut rows = model.prefill(&mut cache, &ids[..50]);
    rows.extend(model.chain(&mut cache, &ids[50..66], 11));
    let parents = [None, Some(0), Some(0), Some(2), None, Some(3)];
    rows.extend(model.tree(&mut cache, &ids[66..72], &parents, &[0, 2, 3]));
    rows.extend(model.chain(&mut cache, &ids[72..], 9));

    let mut caches = [0; 9].map(|_| cache.snapshot());
    let mut batch = Batch::new();
    for (index, cache) in caches.iter_mut().enumerate() {
        batch.push(&ids[index..index + 20], cache.len(), Shape::Chain);
        cache.begin_verify(20);
    }
    rows.extend(model.run(&batch, &mut caches.iter_mut().collect::<Vec<&mut SeqCache>>()));
    caches.iter_mut().for_each(|cache| cache.accept_chain(13));
    rows.extend(caches.iter_mut().flat_map(|cache| model.chain(cache, &ids[..3], 3)));
    rows
}

#[test]
fn thread_law_and_isa_law() {
    for case in Case::all() {
        let truth = everything(&mut Model::load_on(&case, 1, Isa::detect()));
        for (threads, isa) in [(2, Isa::detect()), (3, Isa::detect()), (7, Isa::detect()), (2, Isa::Scalar)] {
            let rows = everything(&mut Model::load_on(&case, threads, isa));
            assert!(rows == truth, "{}: {threads} threads, {isa:?}", case.name);
        }
    }
}
