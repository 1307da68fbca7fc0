use half::f16;

use super::Noise;
use crate::Isa;
use crate::attention::kernel::{self, KEYS, KvHead, Query, Scoring, State, Visit};

/// Vectors in fours, and one more.
const DIM: usize = 80;
/// Queries of a call: tiles of every height.
const QUERIES: [usize; 7] = [1, 2, 3, 4, 5, 6, 13];

/// Whether attention with the kernels of `isa` has the bits of the oracle.
pub(super) fn passes(isa: Isa) -> bool {
    let mut noise = Noise(99);
    let keys: Vec<f16> = (0..KEYS * DIM).map(|_| f16::from_f32(noise.number())).collect();
    let values: Vec<f16> = (0..KEYS * DIM).map(|_| f16::from_f32(noise.number())).collect();
    let q: Vec<f32> = (0..13 * DIM).map(|_| noise.number()).collect();
    let head = KvHead { keys: &keys, values: &values };
    QUERIES
        .into_iter()
        .all(|count| bits(Isa::Scalar, head, &q[..count * DIM]) == bits(isa, head, &q[..count * DIM]))
}

/// Bits of the running softmax of all queries after a whole block, one of which each sees its own part, and one
/// with a soft cap.
fn bits(isa: Isa, head: KvHead<'_>, q: &[f32]) -> Vec<u32> {
    let count = q.len() / DIM;
    let (mut max, mut sum, mut out) = (vec![f32::NEG_INFINITY; count], vec![0.0; count], vec![0.0; q.len()]);
    let mut state = State { max: &mut max, sum: &mut sum, out: &mut out };
    for block in 0..3 {
        let mask = |slot: usize| match block {
            0 => u64::MAX,
            1 => u64::MAX >> (17 + slot),
            _ => 0x00ff_f000_1234_0001 << slot,
        };
        let queries: Vec<Query> =
            (0..count).map(|slot| Query { input: slot * DIM, slot, mask: mask(slot) }).collect();
        let how = Scoring { dim: DIM, scale: 0.3, softcap: (block == 2).then_some(2.5) };
        let visit = Visit { how, kv: head, next: head, q, queries: &queries };
        kernel::block(isa, visit, &mut state);
    }
    [max, sum, out].concat().into_iter().map(f32::to_bits).collect()
}
