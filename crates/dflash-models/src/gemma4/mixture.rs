use dflash_tensor::{Experts, Pre, Tail, Tensor, Weight};

use crate::ModelError;
use crate::loader::{Loader, NormRule, Wanted};
use crate::moe::{MoeShape, experts};
use crate::pass::Pass;

/// The experts that stand beside the MLP of a layer.
pub(super) struct Mixture {
    /// Gain of the norm before the router: its own scale by `hidden^-0.5`.
    router_gain: Tensor,
    router: Weight,
    input_norm: Tensor,
    experts: Experts,
    /// After the experts.
    output_norm: Tensor,
    /// After the MLP, before both are added.
    mlp_norm: Tensor,
}

impl Mixture {
    /// Reads the mixture of the layer whose tensors begin with `prefix` (without the dot).
    pub(super) fn load(
        loader: &mut Loader<'_, '_>,
        prefix: &str,
        shape: &MoeShape,
    ) -> Result<Self, ModelError> {
        let hidden = shape.hidden;
        let router = Wanted::new(format!("{prefix}.router.proj"), shape.experts, hidden);
        let router = loader.weight(&[router])?;
        let scale = loader.floats(&format!("{prefix}.router.per_expert_scale"), shape.experts)?;
        let experts = Experts { scale: Some(scale), ..experts(loader, &format!("{prefix}.experts"), shape)? };
        let router_gain = router_gain(loader, prefix, hidden)?;
        let mut norm = |name: &str| loader.gain(&format!("{prefix}.{name}.weight"), hidden, NormRule::Plain);
        Ok(Self {
            router_gain,
            router,
            input_norm: norm("pre_feedforward_layernorm_2")?,
            experts,
            output_norm: norm("post_feedforward_layernorm_2")?,
            mlp_norm: norm("post_feedforward_layernorm_1")?,
        })
    }

    /// Joins the experts with the output of the MLP, which `mlp` holds; the residual stream stays as it is.
    pub(super) fn forward(&self, pass: &mut Pass<'_, '_>, eps: f32, mlp: &mut Tensor) {
        let [mut x, mut out] = [0, 1].map(|_| pass.ws.take(mlp.cols()));
        let mut scores = pass.ws.take(self.router.rows());
        let router_norm = Pre::RmsNorm { weight: &self.router_gain, eps };
        pass.backend.linear(&self.router, &pass.ws.h, router_norm, Tail::Store, &mut [&mut scores]);
        pass.backend.rms_norm(&pass.ws.h, &self.input_norm, eps, &mut x);
        pass.backend.experts(&self.experts, &scores, &x, &mut out);
        pass.backend.rms_norm(mlp, &self.mlp_norm, eps, &mut x);
        pass.backend.add(&out, Pre::RmsNorm { weight: &self.output_norm, eps }, &mut x);
        std::mem::swap(mlp, &mut x);
        pass.ws.put([x, out, scores]);
    }
}

fn router_gain(loader: &mut Loader<'_, '_>, prefix: &str, hidden: usize) -> Result<Tensor, ModelError> {
    let mut gain = loader.floats(&format!("{prefix}.router.scale"), hidden)?;
    let root = (hidden as f32).powf(-0.5);
    gain.iter_mut().for_each(|gain| *gain *= root);
    Ok(loader.tensor(hidden, &gain))
}
