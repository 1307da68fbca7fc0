//! Own elementary functions: fixed polynomials in f32 with fused multiply-add, so that every machine and
//! every instruction set gives the same bits. The `avx2` twins follow these operation by operation; where
//! code over plain lanes is compiled for an instruction set, these are compiled with it.

use dflash_tensor::Activation;

/// Arguments below give 0: the result would be within a factor of two of the smallest normal number.
pub(crate) const EXP_FLOOR: f32 = -86.6;
/// Arguments above give infinity, as this one does.
pub(crate) const EXP_CEILING: f32 = 89.0;
pub(crate) const LOG2_E: f32 = std::f32::consts::LOG2_E;
/// Upper and lower part of ln 2; a product of the upper part with an exponent is exact.
pub(crate) const LN_2_HIGH: f32 = 0.693_145_75;
pub(crate) const LN_2_LOW: f32 = 1.428_606_8e-6;
/// Added to a small number it leaves the nearest integer in the low bits.
pub(crate) const ROUND: f32 = 12_582_912.0;
/// Twice the coefficients of `e^r` on `|r| <= ln 2 / 2`, highest power first; the last ones are 2, 2.
pub(crate) const EXP: [f32; 7] =
    [2.785_265_2e-3, 1.672_658_5e-2, 8.333_310_5e-2, 3.333_315_3e-1, 1.0, 2.0, 2.0];
/// Exponent bias less one, since [`EXP`] is doubled.
pub(crate) const EXP_BIAS: i32 = 126;

/// Below this `tanh` is a polynomial, above it comes from [`exp`].
pub(crate) const TANH_SMALL: f32 = 0.625;
/// Coefficients of `(tanh(x) / x - 1) / x^2` in `x^2`, highest power first.
pub(crate) const TANH: [f32; 5] =
    [-6.075_166_6e-3, 2.098_229_7e-2, -5.384_775_6e-2, 1.333_274_8e-1, -3.333_332_8e-1];

/// Coefficients of `(ln(1+f) - f + f^2/2) / f^3` on `sqrt(1/2)-1 ..= sqrt(2)-1`, highest power first.
const LN: [f32; 8] = [
    -7.902_744e-2,
    1.262_231_9e-1,
    -1.299_818_3e-1,
    1.421_449_6e-1,
    -1.664_128_2e-1,
    2.000_104_5e-1,
    -2.500_030_7e-1,
    3.333_333e-1,
];

#[inline(always)]
fn horner<const N: usize>(coefficients: &[f32; N], x: f32) -> f32 {
    coefficients[1..].iter().fold(coefficients[0], |sum, &c| sum.mul_add(x, c))
}

/// `e^x` within 2 ulp; exactly 1 at 0, exactly 0 at -inf and wherever the result would not be a normal
/// number; inf from 88.73 on; NaN stays NaN.
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    if x < EXP_FLOOR {
        return 0.0;
    }
    #[allow(clippy::manual_clamp)] // NaN passes
    let x = if EXP_CEILING < x { EXP_CEILING } else { x };
    let shifted = x.mul_add(LOG2_E, ROUND);
    let n = shifted - ROUND;
    let r = n.mul_add(-LN_2_LOW, n.mul_add(-LN_2_HIGH, x));
    let scale = (shifted.to_bits() as i32).wrapping_add(EXP_BIAS) << 23;
    horner(&EXP, r) * f32::from_bits(scale as u32)
}

/// `x / (1 + e^-x)`.
#[inline(always)]
pub(crate) fn silu(x: f32) -> f32 {
    x / (1.0 + exp(-x))
}

/// `1 / (1 + e^-x)`.
#[inline(always)]
pub(crate) fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

/// `sqrt(2/pi)`, and its product with 0.044715.
pub(crate) const GELU: (f32, f32) = (0.797_884_6, 0.035_677_407);

/// Gaussian error linear unit in its hyperbolic form.
pub(crate) fn gelu_tanh(x: f32) -> f32 {
    let inner = x * (x * x).mul_add(GELU.1, GELU.0);
    0.5 * x * (1.0 + tanh(inner))
}

/// The function of a gate.
pub(crate) fn activate(activation: Activation, x: f32) -> f32 {
    match activation {
        Activation::Silu => silu(x),
        Activation::GeluTanh => gelu_tanh(x),
        Activation::Sigmoid => sigmoid(x),
    }
}

/// `cap * tanh(x / cap)`.
pub(crate) fn softcap(cap: f32, x: f32) -> f32 {
    cap * tanh(x / cap)
}

/// `ln(1 + e^x)`; `x` itself above 20, where the difference is below half a unit of its last place.
#[inline(always)]
pub(crate) fn softplus(x: f32) -> f32 {
    if x > 20.0 { x } else { ln_1p(exp(x)) }
}

/// `ln(1 + y)` for `y >= 0`: the rounding of `1 + y` is put right by the ratio of its error.
#[inline(always)]
fn ln_1p(y: f32) -> f32 {
    let sum = 1.0 + y;
    if sum == 1.0 { y } else { ln(sum) * (y / (sum - 1.0)) }
}

/// Hyperbolic tangent within 2 ulp.
pub(crate) fn tanh(x: f32) -> f32 {
    let size = x.abs();
    if size < TANH_SMALL {
        let square = x * x;
        return (square * horner(&TANH, square)).mul_add(x, x);
    }
    (1.0 - 2.0 / (exp(size + size) + 1.0)).copysign(x)
}

/// Natural logarithm within 2 ulp; -inf at 0, NaN below.
#[inline(always)]
pub(crate) fn ln(x: f32) -> f32 {
    if x.is_nan() || x < 0.0 {
        return f32::NAN;
    }
    if x == 0.0 {
        return f32::NEG_INFINITY;
    }
    if x == f32::INFINITY {
        return x;
    }
    let (exponent, mantissa) = split(x);
    let f = mantissa - 1.0;
    let square = f * f;
    let tail = (square * f).mul_add(horner(&LN, f), exponent * LN_2_LOW);
    exponent.mul_add(LN_2_HIGH, square.mul_add(-0.5, tail) + f)
}

/// `(e, m)` with `x = m * 2^e` and `m` between the roots of 1/2 and 2.
#[inline(always)]
fn split(x: f32) -> (f32, f32) {
    let (x, shift) = if x < f32::MIN_POSITIVE { (x * 8_388_608.0, 23) } else { (x, 0) };
    let offset = x.to_bits().wrapping_sub(std::f32::consts::FRAC_1_SQRT_2.to_bits());
    let exponent = (offset as i32) >> 23;
    let mantissa = f32::from_bits(x.to_bits().wrapping_sub((exponent << 23) as u32));
    ((exponent - shift) as f32, mantissa)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Distance of `value` from `exact` in units of the last place of `exact`.
    fn ulps(value: f32, exact: f64) -> f64 {
        let rounded = (exact as f32).abs();
        let unit = f64::from(f32::from_bits(rounded.to_bits() + 1)) - f64::from(rounded);
        (f64::from(value) - exact).abs() / unit
    }

    /// Every 1009th float between the two, which have the same sign.
    fn floats(from: f32, to: f32) -> impl Iterator<Item = f32> {
        (from.to_bits()..=to.to_bits()).step_by(1009).map(f32::from_bits)
    }

    #[test]
    fn exp_is_accurate_and_exact_where_promised() {
        let worst = floats(0.0, 88.722)
            .chain(floats(-0.0, -86.5))
            .map(|x| ulps(exp(x), f64::from(x).exp()))
            .fold(0.0, f64::max);
        assert!(worst <= 1.5, "{worst} ulp");
        assert_eq!(exp(0.0).to_bits(), 1.0_f32.to_bits());
        assert_eq!(exp(-0.0).to_bits(), 1.0_f32.to_bits());
        for x in [f32::NEG_INFINITY, -1e30, -200.0, -88.0, f32::MIN] {
            assert_eq!(exp(x).to_bits(), 0, "{x}");
        }
        for x in [f32::INFINITY, 1e30, 88.73, 200.0, f32::MAX] {
            assert_eq!(exp(x), f32::INFINITY, "{x}");
        }
        assert!(exp(f32::NAN).is_nan() && exp(-f32::NAN).is_nan());
    }

    #[test]
    fn silu_and_tanh_are_accurate() {
        let mut worst = (0.0, 0.0);
        for x in floats(1e-30, 80.0).chain(floats(-1e-30, -80.0)) {
            let exact = f64::from(x);
            worst.0 = ulps(silu(x), exact / (1.0 + (-exact).exp())).max(worst.0);
            worst.1 = ulps(tanh(x), exact.tanh()).max(worst.1);
        }
        assert!(worst.0 <= 3.0 && worst.1 <= 2.0, "{worst:?} ulp");
        assert_eq!((silu(0.0), silu(100.0), silu(-100.0)), (0.0, 100.0, 0.0));
        assert_eq!((tanh(0.0), tanh(f32::INFINITY), tanh(f32::NEG_INFINITY)), (0.0, 1.0, -1.0));
        assert!(tanh(f32::NAN).is_nan() && silu(f32::NAN).is_nan());
    }

    #[test]
    fn functions_of_gates_are_accurate() {
        let mut worst = [0.0_f64; 3];
        for x in floats(1e-30, 80.0).chain(floats(-1e-30, -20.0)) {
            let exact = f64::from(x);
            worst[0] = worst[0].max(ulps(sigmoid(x), 1.0 / (1.0 + (-exact).exp())));
            worst[1] = worst[1].max(ulps(softplus(x), exact.exp().ln_1p()));
            let root = (2.0 / std::f64::consts::PI).sqrt();
            let gelu = 0.5 * exact * (1.0 + (root * (exact + 0.044715 * exact.powi(3))).tanh());
            // Far below zero `1 + tanh` cancels; the difference is small beside x.
            worst[2] = worst[2].max((f64::from(gelu_tanh(x)) - gelu).abs() / exact.abs());
        }
        assert!(worst[0] <= 3.0 && worst[1] <= 4.0 && worst[2] <= 3e-7, "{worst:?}");
        assert_eq!((sigmoid(0.0), softplus(-200.0), gelu_tanh(0.0)), (0.5, 0.0, 0.0));
        assert_eq!((softcap(30.0, 0.0), softcap(30.0, 1e9), softcap(30.0, -1e9)), (0.0, 30.0, -30.0));
        assert!(sigmoid(f32::NAN).is_nan() && softplus(f32::NAN).is_nan() && gelu_tanh(f32::NAN).is_nan());
    }

    #[test]
    fn ln_is_accurate() {
        let worst = floats(f32::from_bits(1), f32::MAX)
            .filter(|&x| x != 1.0)
            .map(|x| ulps(ln(x), f64::from(x).ln()))
            .fold(0.0, f64::max);
        assert!(worst <= 1.5, "{worst} ulp");
        assert_eq!(ln(1.0).to_bits(), 0);
        assert_eq!((ln(0.0), ln(f32::INFINITY)), (f32::NEG_INFINITY, f32::INFINITY));
        assert!(ln(-1.0).is_nan() && ln(f32::NAN).is_nan());
    }
}
