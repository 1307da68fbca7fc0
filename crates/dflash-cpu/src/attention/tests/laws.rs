use dflash_tensor::{Batch, Keep, Mask, Shape};

use super::*;

/// Shapes and masks that the laws are tried on.
fn specs() -> Vec<AttentionSpec> {
    vec![
        spec(9, 3, 64, Mask::CAUSAL),
        spec(4, 4, 32, Mask::CAUSAL),
        spec(14, 2, 16, window(16)),
        spec(5, 1, 40, window(100)),
        elaborate(spec(4, 2, 24, Mask::CAUSAL)),
        elaborate(spec(8, 1, 80, window(70))),
    ]
}

#[test]
fn rows_do_not_depend_on_the_calls_they_come_in() {
    let (backend, mut random) = (backend(2), Random(1));
    for spec in specs() {
        for _ in 0..6 {
            let len = 1 + random.below(300);
            let ids = random.ids(len);
            let whole = chain(&backend, &spec, &ids, &mut cache(&spec));
            for longest in [1, 17, 130] {
                assert!(whole == in_calls(&backend, &spec, &ids, longest, &mut random), "{len} rows");
            }
        }
    }
}

#[test]
fn threads_change_nothing() {
    let mut random = Random(2);
    for spec in specs() {
        let ids = random.ids(700);
        let run = |threads| {
            let (backend, mut cache) = (backend(threads), cache(&spec));
            let mut out = chain(&backend, &spec, &ids[..600], &mut cache);
            for part in [&ids[600..601], &ids[601..617], &ids[617..]] {
                out.extend(chain(&backend, &spec, part, &mut cache));
            }
            out
        };
        let alone = run(1);
        assert!([2, 3, 7].into_iter().all(|threads| run(threads) == alone));
    }
}

#[test]
fn instruction_sets_give_the_same_bits() {
    let mut random = Random(3);
    let shapes =
        [(1, 8), (2, 16), (3, 32), (4, 64), (5, 80), (6, 96), (7, 128), (8, 256), (9, 24), (5, 40), (3, 20)];
    // Query counts of all tiles, with vectors of eight and of sixteen.
    let counts = (1..=17).flat_map(|group| [(group, 24), (group, 48)]);
    for (group, dim) in shapes.into_iter().chain(counts) {
        for spec in [spec(group, 1, dim, window(40)), elaborate(spec(2 * group, 2, dim, Mask::CAUSAL))] {
            let ids = random.ids(70);
            let run = |isa| {
                let (backend, mut cache) = (CpuBackend::new(1, isa), cache(&spec));
                [&ids[..61], &ids[61..62], &ids[62..]].map(|part| chain(&backend, &spec, part, &mut cache))
            };
            let expected = run(Isa::Scalar);
            assert!(Isa::available().all(|isa| run(isa) == expected), "{group} {dim}");
        }
    }
}

/// The ids on the path to `row`, root first, and their rows.
fn path(parents: &[Option<usize>], row: usize) -> Vec<usize> {
    let mut path: Vec<usize> = std::iter::successors(Some(row), |&row| parents[row]).collect();
    path.reverse();
    path
}

fn try_tree(spec: &AttentionSpec, prefix: usize, rows: usize, random: &mut Random) {
    let backend = backend(2);
    let mut cache = cache(spec);
    if prefix > 0 {
        chain(&backend, spec, &random.ids(prefix), &mut cache);
    }
    let (ids, parents) = (random.ids(rows), random.tree(rows));
    let mut tree = cache.snapshot();
    let out = span(&backend, spec, &ids, Shape::Tree(parents.clone()), &mut tree);
    for row in (0..rows).rev().take(6) {
        let rows = path(&parents, row);
        let ids: Vec<u32> = rows.iter().map(|&row| ids[row]).collect();
        let expected = chain(&backend, spec, &ids, &mut cache.snapshot());
        assert!(rows.iter().zip(expected).all(|(&row, bits)| out[row] == bits), "prefix {prefix}");
    }
    let accepted = path(&parents, rows - 1);
    tree.accept_path(&parents, &accepted);
    let ids: Vec<u32> = accepted.iter().map(|&row| ids[row]).collect();
    chain(&backend, spec, &ids, &mut cache);
    let next = random.ids(3);
    assert!(chain(&backend, spec, &next, &mut tree) == chain(&backend, spec, &next, &mut cache));
}

#[test]
fn a_path_of_a_tree_equals_the_chain() {
    let mut random = Random(4);
    for prefix in 0..=130 {
        for spec in [spec(3, 1, 16, Mask::CAUSAL), elaborate(spec(4, 2, 8, window(16)))] {
            let rows = 1 + random.below(14);
            try_tree(&spec, prefix, rows, &mut random);
        }
    }
}

#[test]
fn a_deep_tree_crosses_blocks() {
    let mut random = Random(5);
    for prefix in [0, 1, 60, 64, 127] {
        for spec in [spec(6, 2, 64, Mask::CAUSAL), spec(2, 2, 16, window(30))] {
            try_tree(&spec, prefix, 150, &mut random);
        }
    }
}

#[test]
fn rejected_rows_leave_nothing_behind() {
    let (backend, mut random) = (backend(2), Random(6));
    for spec in specs() {
        let ids = random.ids(260);
        let whole = chain(&backend, &spec, &ids, &mut cache(&spec));
        let (mut cache, mut done) = (cache(&spec), 0);
        while done < ids.len() {
            let right = (random.below(17)).min(ids.len() - done);
            let wrong = random.below(16) + usize::from(right == 0);
            let mut drafted = ids[done..done + right].to_vec();
            drafted.extend(random.ids(wrong));
            let out = span(&backend, &spec, &drafted, Shape::Chain, &mut cache);
            assert!(out[..right] == whole[done..done + right], "at {done}");
            cache.accept_chain(right);
            done += right;
        }
    }
}

#[test]
fn a_snapshot_keeps_what_it_had() {
    let (backend, mut random) = (backend(2), Random(7));
    for spec in specs() {
        for len in [1, 63, 64, 65, 140] {
            let (prefix, one, other) = (random.ids(len), random.ids(30), random.ids(30));
            let fresh = |ids: &[u32]| {
                let mut cache = cache(&spec);
                chain(&backend, &spec, &prefix, &mut cache);
                chain(&backend, &spec, ids, &mut cache)
            };
            let mut cache = cache(&spec);
            chain(&backend, &spec, &prefix, &mut cache);
            let snapshot = cache.snapshot();
            assert!(chain(&backend, &spec, &one, &mut cache) == fresh(&one));
            assert!(chain(&backend, &spec, &other, &mut snapshot.snapshot()) == fresh(&other));
            cache.restore(&snapshot);
            assert!(chain(&backend, &spec, &other, &mut cache) == fresh(&other));
        }
    }
}

#[test]
fn spans_of_a_batch_do_not_touch_each_other() {
    let (backend, mut random) = (backend(3), Random(8));
    for spec in specs() {
        let prefixes = [0, 5, 64, 300].map(|len| random.ids(len));
        let ids = [70, 1, 16, 9].map(|len| random.ids(len));
        let shapes =
            [None, None, Some(random.tree(16)), None].map(|tree| tree.map_or(Shape::Chain, Shape::Tree));
        let mut caches: Vec<SeqCache> = prefixes.iter().map(|_| cache(&spec)).collect();
        for (prefix, cache) in prefixes.iter().zip(&mut caches).filter(|(prefix, _)| !prefix.is_empty()) {
            chain(&backend, &spec, prefix, cache);
        }
        let mut batch = Batch::new();
        let mut alone = Vec::new();
        for ((ids, cache), shape) in ids.iter().zip(&caches).zip(shapes) {
            batch.push(ids, cache.len(), shape.clone());
            alone.extend(span(&backend, &spec, ids, shape, &mut cache.snapshot()));
        }
        let mut caches: Vec<&mut SeqCache> = caches.iter_mut().collect();
        assert!(step(&backend, &spec, &batch, &mut caches) == alone);
    }
}

#[test]
fn rows_of_a_span_that_keeps_or_looks_ahead_do_not_depend_on_threads() {
    let mut random = Random(9);
    let keep = Some(Keep { sink: 4, tail: 100 });
    for (causal, keep, window) in [(false, None, None), (false, keep, None), (true, keep, Some(300))] {
        let spec = spec(6, 2, 32, Mask { causal, window, keep });
        let (prefix, ids) = (random.ids(600), random.ids(16));
        let run = |threads| {
            let (backend, mut cache) = (backend(threads), cache(&spec));
            chain(&backend, &spec, &prefix, &mut cache);
            chain(&backend, &spec, &ids, &mut cache)
        };
        assert!([2, 3, 7].into_iter().all(|threads| run(threads) == run(1)));
    }
}

#[test]
fn appending_is_what_attention_appends() {
    let (backend, mut random) = (backend(2), Random(10));
    let spec = elaborate(spec(4, 2, 16, Mask::CAUSAL));
    let (ids, next) = (random.ids(90), random.ids(5));
    let (mut appended, mut attended) = (cache(&spec), cache(&spec));
    chain(&backend, &spec, &ids, &mut attended);
    let mut batch = Batch::new();
    batch.push(&ids, 0, Shape::Chain);
    let (mut k, mut v) = (host::tensor(90, 32), host::tensor(90, 32));
    for (tensor, salt) in [(&mut k, 2), (&mut v, 3)] {
        let rows = ids.iter().flat_map(|&id| row(id, 32, salt));
        host::rows_mut(tensor).iter_mut().zip(rows).for_each(|(x, value)| *x = value);
    }
    appended.begin_verify(90);
    attention::append(&backend, &spec, 0, &batch, &mut [&mut appended], &mut k, &v);
    appended.accept_chain(90);
    assert!(chain(&backend, &spec, &next, &mut appended) == chain(&backend, &spec, &next, &mut attended));
}
