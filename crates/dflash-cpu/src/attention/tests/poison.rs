use dflash_tensor::{BLOCK_POSITIONS, Keep, KvStore, Mask, Shape};

use super::*;
use crate::kv::KvBlock;

fn poisoned(spec: &AttentionSpec) -> Box<dyn KvStore> {
    let mut block = KvBlock::new(spec.kv);
    let row = vec![f32::NAN; spec.kv.heads * spec.kv.dim];
    (0..BLOCK_POSITIONS).for_each(|slot| block.write(slot, &row, &row));
    Box::new(block)
}

/// Makes the blocks that will be used, full of NaN.
fn poison_unused(spec: &AttentionSpec, cache: &mut SeqCache, blocks: usize) {
    let cache = cache.layer_mut(0).kv_mut();
    for block in 0..blocks {
        cache.block_mut(block, || poisoned(spec));
    }
    for block in 0..2 {
        cache.tree_block_mut(block, || poisoned(spec));
    }
}

/// Overwrites committed positions that no row sees.
fn poison_hidden(spec: &AttentionSpec, cache: &mut SeqCache, hidden: impl Iterator<Item = usize>) {
    let row = vec![f32::NAN; spec.kv.heads * spec.kv.dim];
    for position in hidden {
        let cache = cache.layer_mut(0).kv_mut();
        let store = cache.block_mut(position / BLOCK_POSITIONS, || poisoned(spec));
        KvBlock::of_mut(store).write(position % BLOCK_POSITIONS, &row, &row);
    }
}

fn clean(rows: &[Bits]) -> bool {
    rows.iter().flatten().all(|&bits| f32::from_bits(bits).is_finite())
}

#[test]
fn unused_slots_never_matter() {
    let mut random = Random(20);
    for backend in [backend(2), CpuBackend::new(1, Isa::Scalar)] {
        for (heads, kv_heads) in [(9, 3), (2, 2), (8, 1)] {
            for prefix in [0, 1, 50, 64, 100] {
                let spec = spec(heads, kv_heads, 16, Mask::CAUSAL);
                let (prefix, ids, parents) = (random.ids(prefix), random.ids(20), random.tree(20));
                let run = |mut cache: SeqCache| {
                    let mut out = match prefix.is_empty() {
                        true => Vec::new(),
                        false => chain(&backend, &spec, &prefix, &mut cache),
                    };
                    let tree = Shape::Tree(parents.clone());
                    out.extend(span(&backend, &spec, &ids, tree, &mut cache.snapshot()));
                    out.extend(chain(&backend, &spec, &ids, &mut cache));
                    out
                };
                let mut unused = cache(&spec);
                poison_unused(&spec, &mut unused, 3);
                let out = run(unused);
                assert!(clean(&out) && out == run(cache(&spec)));
            }
        }
    }
}

#[test]
fn hidden_keys_never_matter() {
    let (backend, mut random) = (backend(2), Random(21));
    let keep = Some(Keep { sink: 5, tail: 70 });
    let masks = [
        (window(16), 0..200 - 15),
        (window(100), 0..200 - 99),
        (Mask { keep, ..Mask::CAUSAL }, 5..200 - 70),
        (Mask { keep, causal: false, window: None }, 5..200 - 70),
    ];
    for (mask, hidden) in masks {
        let spec = spec(4, 2, 24, mask);
        let (prefix, ids) = (random.ids(200), random.ids(16));
        let mut cache = cache(&spec);
        chain(&backend, &spec, &prefix, &mut cache);
        let mut other = cache.snapshot();
        poison_hidden(&spec, &mut other, hidden);
        let out = chain(&backend, &spec, &ids, &mut other);
        assert!(clean(&out) && out == chain(&backend, &spec, &ids, &mut cache));
    }
}

/// A later row that overflows must not reach an earlier one of the same call.
#[test]
fn a_broken_row_harms_itself_and_later_ones_only() {
    let backend = backend(2);
    let mut spec = spec(6, 2, 16, Mask::CAUSAL);
    spec.k_norm = None;
    let ids: Vec<u32> = (0..40).collect();
    let mut cache = cache(&spec);
    chain(&backend, &spec, &ids, &mut cache);
    let expected = chain(&backend, &spec, &[1, 2, 3], &mut cache.snapshot());
    // Row 3 is replaced after the fact: slot 43 holds NaN while rows 0..3 attend among six.
    let mut batch = Batch::new();
    batch.push(&[1, 2, 3, BROKEN, 5, 6], 40, Shape::Chain);
    let out = step(&backend, &spec, &batch, &mut [&mut cache]);
    assert!(out[..3] == expected[..] && clean(&out[..3]));
    assert!((3..6).all(|row| out[row].iter().all(|&bits| f32::from_bits(bits).is_nan())));
}

#[test]
fn a_column_of_zeros_in_the_sum_is_harmless() {
    let backend = backend(1);
    let spec = spec(1, 1, 8, Mask::CAUSAL);
    let out = chain(&backend, &spec, &[7], &mut cache(&spec));
    // A single key has probability 1 whatever its score: the value comes back, rounded once.
    let value = row(7, 8, 3).into_iter().map(|x| half::f16::from_f32(x).to_f32().to_bits());
    assert!(out[0].iter().copied().eq(value));
}
