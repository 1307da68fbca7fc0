use crate::pack::BLOCK;

/// 32 activations in eight bits: `x = scale * q`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct QuantBlock {
    /// -127..=127.
    pub(crate) q: [i8; BLOCK],
    /// Largest magnitude over 127.
    pub(crate) scale: f32,
    /// `scale` times the sum of `q`: the factor of a weight's minimum.
    pub(crate) sum: f32,
    /// Sums of `q` of the first and of the last sixteen.
    pub(crate) totals: [i16; 2],
}

/// A [`QuantBlock`] in sixteen bits, as weights of eight bits take it: of every four elements the even ones,
/// then the odd ones.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct WideBlock {
    /// Elements 0, 2, 1, 3, 4, 6, 5, 7, ...
    pub(crate) q: [i16; BLOCK],
    /// [`QuantBlock::scale`].
    pub(crate) scale: f32,
    /// [`QuantBlock::sum`].
    pub(crate) sum: f32,
    /// [`QuantBlock::totals`].
    pub(crate) totals: [i16; 2],
}

impl WideBlock {
    /// The same block, wider.
    pub(crate) fn of(block: &QuantBlock) -> Self {
        let mut q = [0; BLOCK];
        for (wide, narrow) in q.as_chunks_mut::<4>().0.iter_mut().zip(block.q.as_chunks::<4>().0) {
            *wide = [narrow[0], narrow[2], narrow[1], narrow[3]].map(i16::from);
        }
        Self { q, scale: block.scale, sum: block.sum, totals: block.totals }
    }
}

/// Blocks whose magnitudes stay below count as zero, since their reciprocal would overflow.
pub(crate) const TINY: f32 = 1e-30;

impl QuantBlock {
    /// What a NaN or an infinity makes of its block, so that every output is NaN.
    pub(crate) const BROKEN: Self = Self { q: [0; BLOCK], scale: f32::NAN, sum: f32::NAN, totals: [0; 2] };
}

/// Quantises one block.
pub(crate) fn quantize(x: &[f32; BLOCK]) -> QuantBlock {
    // Magnitudes order like their bits, NaN above all.
    let magnitude = |x: &f32| (x.to_bits() & 0x7fff_ffff) as i32;
    let largest = f32::from_bits(x.iter().map(magnitude).fold(0, i32::max) as u32);
    if !largest.is_finite() {
        return QuantBlock::BROKEN;
    }
    if largest < TINY {
        return QuantBlock::default();
    }
    let (scale, inverse) = (largest / 127.0, 127.0 / largest);
    let q = x.map(|x| (x * inverse).round_ties_even() as i8);
    let total = |half: usize| q[16 * half..][..16].iter().map(|&q| i16::from(q)).sum::<i16>();
    let totals = [total(0), total(1)];
    QuantBlock { q, scale, sum: scale * f32::from(totals[0] + totals[1]), totals }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(f: impl Fn(usize) -> f32) -> QuantBlock {
        quantize(&std::array::from_fn(f))
    }

    #[test]
    fn values_come_back_within_half_a_step() {
        let x = |i: usize| (i as f32 - 11.3) * 0.37;
        let block = block(x);
        for (i, &q) in block.q.iter().enumerate() {
            assert!((f32::from(q) * block.scale - x(i)).abs() <= block.scale * 0.501);
        }
        assert_eq!(block.q[31], 127);
        for (half, total) in block.q.chunks(16).zip(block.totals) {
            assert_eq!(total, half.iter().map(|&q| i16::from(q)).sum::<i16>());
        }
    }

    #[test]
    fn ties_go_to_even() {
        let block = block(|i| if i == 0 { 127.0 } else { i as f32 + 0.5 });
        assert_eq!(block.q[1..5], [2, 2, 4, 4]);
    }

    #[test]
    fn zeros_and_tiny_values_are_zero() {
        assert_eq!(block(|_| 0.0), QuantBlock::default());
        assert_eq!(block(|_| -1e-38), QuantBlock::default());
    }

    #[test]
    fn what_is_not_finite_spreads() {
        assert!(block(|i| if i == 3 { f32::NAN } else { 1.0 }).scale.is_nan());
        assert!(block(|i| if i == 3 { f32::NEG_INFINITY } else { 1.0 }).sum.is_nan());
    }
}
