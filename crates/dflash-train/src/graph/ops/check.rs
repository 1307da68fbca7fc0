//! Comparison of an operation with its composition.

use candle_core::{Device, Result, Tensor, Var};

use crate::normal::Normal;

/// A tensor of the standard normal distribution.
pub fn random(shape: &[usize], seed: u64) -> Result<Tensor> {
    let mut normal = Normal::new(seed);
    let values: Vec<f32> = (0..shape.iter().product()).map(|_| normal.draw()).collect();
    Tensor::from_vec(values, shape, &Device::Cpu)
}

/// Both give the same result and, for a random gradient of it, the same gradients of `args`, within rounding.
pub fn assert_same(
    args: &[&Tensor],
    one: impl Fn(&[Var]) -> Result<Tensor>,
    other: impl Fn(&[Var]) -> Result<Tensor>,
) -> Result<()> {
    let args: Vec<Var> = args.iter().map(|arg| Var::from_tensor(arg)).collect::<Result<_>>()?;
    let (one, other) = (one(&args)?, other(&args)?);
    assert_eq!(one.dims(), other.dims());
    assert_close("result", &one, &other)?;
    let grad = random(one.dims(), 99)?;
    let (one, other) = ((one * &grad)?.sum_all()?.backward()?, (other * &grad)?.sum_all()?.backward()?);
    for (index, arg) in args.iter().enumerate() {
        let grads = [&one, &other].map(|grads| grads.get(arg).expect("a gradient of every argument"));
        assert_close(&format!("gradient of argument {index}"), grads[0], grads[1])?;
    }
    Ok(())
}

fn assert_close(what: &str, one: &Tensor, other: &Tensor) -> Result<()> {
    let values = |tensor: &Tensor| tensor.flatten_all()?.to_vec1::<f32>();
    for (place, (one, other)) in values(one)?.into_iter().zip(values(other)?).enumerate() {
        assert!((one - other).abs() <= 2e-5 * (1.0 + other.abs()), "{what} at {place}: {one} and {other}");
    }
    Ok(())
}
