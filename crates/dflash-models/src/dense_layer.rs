use dflash_tensor::{Backend, Tensor, Weight};

/// A decoder layer of grouped-query attention and a gated MLP (SiLU) in numbers: what a draft of the same shape may
/// begin with. Matrices are `[outputs, inputs]`, row after row, as they are served; biases are left out.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DenseLayer {
    /// Query heads.
    pub heads: usize,
    /// Key and value heads.
    pub kv_heads: usize,
    /// Width of a head.
    pub head_dim: usize,
    /// Width of the MLP.
    pub ffn: usize,
    /// Of all its RMS norms.
    pub rms_norm_eps: f32,
    /// Base of the rotary embedding, which turns whole heads in two halves.
    pub rope_theta: f32,
    /// Gain before attention.
    pub input_norm: Vec<f32>,
    /// Queries.
    pub q: Vec<f32>,
    /// Keys.
    pub k: Vec<f32>,
    /// Values.
    pub v: Vec<f32>,
    /// Output of attention.
    pub o: Vec<f32>,
    /// Gain of every query head, where there is one.
    pub q_norm: Option<Vec<f32>>,
    /// Gain of every key head, where there is one.
    pub k_norm: Option<Vec<f32>>,
    /// Gain before the MLP.
    pub post_norm: Vec<f32>,
    /// Gate of the MLP.
    pub gate: Vec<f32>,
    /// What is gated.
    pub up: Vec<f32>,
    /// Output of the MLP.
    pub down: Vec<f32>,
}

/// The matrices of a packed weight.
pub(crate) fn unpacked<const N: usize>(backend: &dyn Backend, weight: &Weight) -> [Vec<f32>; N] {
    let parts = weight.parts();
    assert_eq!(parts.len(), N, "parts of the weight");
    let mut first = 0;
    std::array::from_fn(|part| {
        let rows = parts[part].rows as u32;
        let mut out = backend.tensor(rows as usize, weight.cols());
        backend.embed(weight, &(first..first + rows).collect::<Vec<_>>(), 1.0, &mut out);
        first += rows;
        (0..rows as usize).flat_map(|row| backend.read(&out, row)).collect()
    })
}

/// The numbers of a gain `[1, len]`.
pub(crate) fn gain(backend: &dyn Backend, tensor: &Tensor) -> Vec<f32> {
    backend.read(tensor, 0)
}
