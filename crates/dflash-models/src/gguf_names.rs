/// How the tensor names of a GGUF architecture become canonical ones, where it differs from other decoders.
pub(crate) struct GgufNames {
    /// Before canonical names of layers and of what stands around them, with the dot.
    pub(crate) root: &'static str,
    /// Whole names outside of layers, without the root.
    pub(crate) outside: &'static [(&'static str, &'static str)],
    /// Whole names of tensors in a layer, without its prefix.
    pub(crate) tensors: &'static [(&'static str, &'static str)],
    /// Modules in a layer.
    pub(crate) modules: &'static [(&'static str, &'static str)],
}

/// Those of Llama.
pub(crate) const PLAIN: GgufNames = GgufNames { root: "model.", outside: &[], tensors: &[], modules: &[] };

const OUTSIDE: &[(&str, &str)] =
    &[("token_embd.weight", "embed_tokens.weight"), ("output_norm.weight", "norm.weight")];

const MODULES: &[(&str, &str)] = &[
    ("attn_norm", "input_layernorm"),
    ("attn_q", "self_attn.q_proj"),
    ("attn_k", "self_attn.k_proj"),
    ("attn_v", "self_attn.v_proj"),
    ("attn_output", "self_attn.o_proj"),
    ("attn_q_norm", "self_attn.q_norm"),
    ("attn_k_norm", "self_attn.k_norm"),
    ("ffn_norm", "post_attention_layernorm"),
    ("ffn_gate", "mlp.gate_proj"),
    ("ffn_up", "mlp.up_proj"),
    ("ffn_down", "mlp.down_proj"),
    ("ffn_gate_inp", "mlp.gate"),
    ("ffn_gate_exps", "mlp.experts.gate_proj"),
    ("ffn_up_exps", "mlp.experts.up_proj"),
    ("ffn_gate_up_exps", "mlp.experts.gate_up_proj"),
    ("ffn_down_exps", "mlp.experts.down_proj"),
    ("ffn_gate_inp_shexp", "mlp.shared_expert_gate"),
    ("ffn_gate_shexp", "mlp.shared_expert.gate_proj"),
    ("ffn_up_shexp", "mlp.shared_expert.up_proj"),
    ("ffn_down_shexp", "mlp.shared_expert.down_proj"),
];

impl GgufNames {
    /// The canonical name of a tensor; unknown names stay as they are and end up unused.
    pub(crate) fn canonical(&self, name: &str) -> String {
        if name == "output.weight" {
            return "lm_head.weight".to_owned();
        }
        let outside = find(self.outside, name).or(find(OUTSIDE, name));
        let known = outside.map(|known| format!("{}{known}", self.root));
        known.or_else(|| self.in_layer(name)).unwrap_or_else(|| name.to_owned())
    }

    fn in_layer(&self, name: &str) -> Option<String> {
        let (layer, rest) = name.strip_prefix("blk.")?.split_once('.')?;
        let known = match find(self.tensors, rest) {
            Some(tensor) => tensor.to_owned(),
            None => self.of_module(rest)?,
        };
        Some(format!("{}layers.{layer}.{known}", self.root))
    }

    fn of_module(&self, rest: &str) -> Option<String> {
        let (module, kind) = rest.rsplit_once('.')?;
        let module = find(self.modules, module).or(find(MODULES, module))?;
        matches!(kind, "weight" | "bias").then(|| format!("{module}.{kind}"))
    }
}

fn find(table: &[(&str, &'static str)], name: &str) -> Option<&'static str> {
    table.iter().find(|(from, _)| *from == name).map(|(_, to)| *to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_mapped_and_others_kept() {
        for (name, canonical) in [
            ("output_norm.weight", "model.norm.weight"),
            ("output.weight", "lm_head.weight"),
            ("blk.12.ffn_norm.weight", "model.layers.12.post_attention_layernorm.weight"),
            ("blk.0.attn_q.bias", "model.layers.0.self_attn.q_proj.bias"),
            ("blk.0.ffn_gate_exps.weight", "model.layers.0.mlp.experts.gate_proj.weight"),
            ("blk.0.what.weight", "blk.0.what.weight"),
            ("rope_freqs.weight", "rope_freqs.weight"),
        ] {
            assert_eq!(PLAIN.canonical(name), canonical);
        }
    }

    #[test]
    fn what_an_architecture_says_itself_comes_first() {
        let names = GgufNames {
            root: "",
            outside: &[("output_norm.weight", "last.weight")],
            tensors: &[("ssm_a", "rate")],
            modules: &[("ffn_norm", "norm")],
        };
        assert_eq!(names.canonical("output_norm.weight"), "last.weight");
        assert_eq!(names.canonical("blk.3.ssm_a"), "layers.3.rate");
        assert_eq!(names.canonical("blk.3.ffn_norm.weight"), "layers.3.norm.weight");
        assert_eq!(names.canonical("blk.3.ffn_up.weight"), "layers.3.mlp.up_proj.weight");
    }
}
