use crate::{Activation, Weight};

/// A mixture of experts behind its router: gated MLPs of which each row takes the `top_k` with the highest
/// scores, the lower expert on a tie.
pub struct Experts {
    /// Gate and up of every expert, two parts `[ffn, hidden]` each.
    pub gate_up: Vec<Weight>,
    /// Down of every expert, `[hidden, ffn]`.
    pub down: Vec<Weight>,
    /// Gate function.
    pub activation: Activation,
    /// Experts of a row.
    pub top_k: usize,
    /// Whether the weights of a row's experts are divided by their sum. They are the softmax over the
    /// scores of all experts.
    pub renormalise: bool,
    /// Multiplies the weight of every expert.
    pub scale: Option<Vec<f32>>,
}
