use dflash_tensor::{Activation, Experts, Pre, Tail, Tensor, Weight};

use crate::ModelError;
use crate::checkpoint::Matrix;
use crate::loader::{BiasRule, Loader, Wanted};
use crate::mlp::{Mlp, MlpShape};
use crate::pass::Pass;

/// Sizes and habits of a mixture of experts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MoeShape {
    pub(crate) hidden: usize,
    pub(crate) experts: usize,
    /// Width of an expert.
    pub(crate) ffn: usize,
    pub(crate) top_k: usize,
    /// Whether the weights of a row's experts are divided by their sum.
    pub(crate) renormalise: bool,
    pub(crate) activation: Activation,
    /// Width of the expert that every row takes, behind a gate of its own.
    pub(crate) shared: Option<usize>,
}

/// A router, its experts, and the expert that all rows share.
pub(crate) struct Moe {
    router: Weight,
    experts: Experts,
    shared: Option<Shared>,
}

struct Shared {
    mlp: Mlp,
    /// `[1, hidden]`
    gate: Weight,
}

impl Moe {
    /// Reads the mixture whose tensors begin with `prefix` (without the dot): `gate`, `experts.*` and
    /// `shared_expert.*`.
    pub(crate) fn load(
        loader: &mut Loader<'_, '_>,
        prefix: &str,
        shape: &MoeShape,
    ) -> Result<Self, ModelError> {
        let router = Wanted::new(format!("{prefix}.gate"), shape.experts, shape.hidden);
        let router = loader.weight(&[router])?;
        let experts = experts(loader, &format!("{prefix}.experts"), shape)?;
        let shared = shape.shared.map(|ffn| Shared::load(loader, prefix, shape, ffn)).transpose()?;
        Ok(Self { router, experts, shared })
    }

    /// Adds the mixture of the normalised residual stream to it.
    pub(crate) fn forward(&self, pass: &mut Pass<'_, '_>, norm: &Tensor, eps: f32) {
        let hidden = pass.ws.h.cols();
        let [mut x, mut out] = [0, 1].map(|_| pass.ws.take(hidden));
        let mut scores = pass.ws.take(self.router.rows());
        pass.backend.rms_norm(&pass.ws.h, norm, eps, &mut x);
        pass.backend.linear(&self.router, &x, Pre::None, Tail::Store, &mut [&mut scores]);
        pass.backend.experts(&self.experts, &scores, &x, &mut out);
        pass.backend.add(&out, Pre::None, &mut pass.ws.h);
        if let Some(shared) = &self.shared {
            shared.apply(pass, &x, &mut out);
            pass.backend.add(&out, Pre::None, &mut pass.ws.h);
        }
        pass.ws.put([x, out, scores]);
    }
}

impl Shared {
    fn load(
        loader: &mut Loader<'_, '_>,
        prefix: &str,
        shape: &MoeShape,
        ffn: usize,
    ) -> Result<Self, ModelError> {
        let MoeShape { hidden, activation, .. } = *shape;
        let mlp = MlpShape { hidden, ffn, activation, bias: BiasRule::Never };
        let mlp = Mlp::load(loader, &format!("{prefix}.shared_expert"), &mlp)?;
        let gate = loader.weight(&[Wanted::new(format!("{prefix}.shared_expert_gate"), 1, hidden)])?;
        Ok(Self { mlp, gate })
    }

    fn apply(&self, pass: &mut Pass<'_, '_>, x: &Tensor, out: &mut Tensor) {
        let mut gate = pass.ws.take(1);
        self.mlp.apply(pass, x, out);
        pass.backend.linear(&self.gate, x, Pre::None, Tail::Store, &mut [&mut gate]);
        pass.backend.gate(Activation::Sigmoid, &gate, out);
        pass.ws.put([gate]);
    }
}

/// Reads experts: fused (`gate_up_proj`, gate rows first), stacked, or with tensors of their own.
pub(crate) fn experts(
    loader: &mut Loader<'_, '_>,
    prefix: &str,
    shape: &MoeShape,
) -> Result<Experts, ModelError> {
    let MoeShape { hidden, experts, ffn, .. } = *shape;
    let gate_up = gate_up(loader, prefix, shape)?;
    let down = stack(loader, prefix, "down_proj", [experts, hidden, ffn])?;
    let down = down.into_iter().map(|matrix| loader.pack_matrices(prefix, &[matrix]));
    let down = down.collect::<Result<_, _>>()?;
    // Reading an expert brings back a few pages of those before it.
    for name in ["gate_up_proj", "gate_proj", "up_proj", "down_proj"] {
        loader.checkpoint().release(&format!("{prefix}.{name}"));
    }
    Ok(Experts {
        gate_up,
        down,
        activation: shape.activation,
        top_k: shape.top_k,
        renormalise: shape.renormalise,
        scale: None,
    })
}

fn gate_up(loader: &mut Loader<'_, '_>, prefix: &str, shape: &MoeShape) -> Result<Vec<Weight>, ModelError> {
    let MoeShape { hidden, experts, ffn, .. } = *shape;
    let fused = format!("{prefix}.gate_up_proj");
    let pairs: Vec<[Matrix<'_>; 2]> = if loader.checkpoint().has_module(&fused) {
        let both = stack(loader, prefix, "gate_up_proj", [experts, 2 * ffn, hidden])?;
        both.into_iter().map(|both| [both.rows(0..ffn), both.rows(ffn..2 * ffn)]).collect()
    } else {
        let gates = stack(loader, prefix, "gate_proj", [experts, ffn, hidden])?;
        let ups = stack(loader, prefix, "up_proj", [experts, ffn, hidden])?;
        gates.into_iter().zip(ups).map(|(gate, up)| [gate, up]).collect()
    };
    pairs.iter().map(|pair| loader.pack_matrices(prefix, pair)).collect()
}

fn stack<'a>(
    loader: &Loader<'a, '_>,
    prefix: &str,
    name: &str,
    shape: [usize; 3],
) -> Result<Vec<Matrix<'a>>, ModelError> {
    let separate = |expert: usize| format!("{prefix}.{expert}.{name}");
    loader.checkpoint().stack(&format!("{prefix}.{name}"), shape, separate)
}
