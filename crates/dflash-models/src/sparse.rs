use dflash_tensor::Activation;

use crate::ModelError;
use crate::decoder::FfnPlan;
use crate::json::{Keys, MAX_SIZE};
use crate::mlp::MlpShape;
use crate::moe::MoeShape;

/// Which layers of a Qwen decoder have experts, and what kind.
pub(crate) struct SparsePlan {
    experts: MoeShape,
    /// Every layer whose number, counted from one, is a multiple of it has experts...
    step: usize,
    /// ...unless it is among these, counted from zero.
    dense: Vec<u32>,
}

/// Keys that are read here.
pub(crate) const READ: &[&str] = &[
    "num_experts",
    "num_local_experts",
    "num_experts_per_tok",
    "moe_intermediate_size",
    "shared_expert_intermediate_size",
    "norm_topk_prob",
    "decoder_sparse_step",
    "mlp_only_layers",
    "router_aux_loss_coef",
    "output_router_logits",
];

impl SparsePlan {
    /// Reads the keys of a mixture of experts; `None` where there are no experts. `shared` tells whether the
    /// family has a shared expert, `renormalise` what holds where the config does not say.
    pub(crate) fn read(
        config: &Keys<'_>,
        shared: bool,
        renormalise: bool,
    ) -> Result<Option<Self>, ModelError> {
        // transformers 5 writes `num_local_experts` where released files say `num_experts`.
        let count = |key| config.integer(key, MAX_EXPERTS).map(|count| count.filter(|&count| count > 0));
        let Some(experts) = count("num_experts")?.or(count("num_local_experts")?) else { return Ok(None) };
        let top_k = config.required_size("num_experts_per_tok")?;
        if top_k > experts {
            return Err(config.bad("num_experts_per_tok", &format!("at most the {experts} experts")));
        }
        let shared = match shared {
            true => config.integer("shared_expert_intermediate_size", MAX_SIZE)?.filter(|&ffn| ffn > 0),
            false => None,
        };
        let experts = MoeShape {
            hidden: config.required_size("hidden_size")?,
            experts,
            ffn: config.required_size("moe_intermediate_size")?,
            top_k,
            renormalise: config.flag("norm_topk_prob")?.unwrap_or(renormalise),
            activation: Activation::Silu,
            shared,
        };
        let step = config.size("decoder_sparse_step")?.unwrap_or(1);
        Ok(Some(Self { experts, step, dense: config.ids("mlp_only_layers")?.unwrap_or_default() }))
    }

    /// What works on each position in layer `layer`; `mlp` where it has no experts.
    pub(crate) fn ffn(&self, layer: usize, mlp: impl FnOnce() -> Result<MlpShape, ModelError>) -> Planned {
        let sparse = (layer + 1).is_multiple_of(self.step) && !self.dense.contains(&(layer as u32));
        if sparse { Ok(FfnPlan::Sparse(self.experts)) } else { mlp().map(FfnPlan::Dense) }
    }
}

type Planned = Result<FfnPlan, ModelError>;

/// More than any model has.
const MAX_EXPERTS: usize = 1 << 16;
