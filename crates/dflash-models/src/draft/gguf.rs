use dflash_tensor::{KvGeometry, RopeScaling};

use super::body::{Body, Causality, LayerKind};
use super::config::{DraftConfig, Layout, MAX_BLOCK};
use super::kind::{GGUF_ARCH, is_draft_arch};
use crate::ModelError;
use crate::gguf::Metadata;
use crate::loader::BiasRule;
use crate::rope::RopeConfig;

/// Keys below the architecture's name that are read or repeat what tensors say.
const READ: &[&str] = &[
    "attention.causal",
    "attention.head_count",
    "attention.head_count_kv",
    "attention.key_length",
    "attention.layer_norm_rms_epsilon",
    "attention.sliding_window",
    "attention.sliding_window_pattern",
    "attention.value_length",
    "block_count",
    "block_size",
    "context_length",
    "embedding_length",
    "feed_forward_length",
    "mask_token_id",
    "rope.dimension_count",
    "rope.dimension_sections",
    "rope.freq_base",
    "rope.scaling.factor",
    "rope.scaling.finetuned",
    "rope.scaling.original_context_length",
    "rope.scaling.type",
    "rope.scaling.yarn_beta_fast",
    "rope.scaling.yarn_beta_slow",
    "target_hidden_size",
    "target_layers",
    "vocab_size",
];

/// Keys of relatives that share the architecture name, with the value that changes nothing.
const CHANGES: &[(&str, f32)] = &[
    ("attention.clamp_kqv", 0.0),
    ("attention.scale", 0.0),
    ("confidence_head", 0.0),
    ("conv_group_size", 0.0),
    ("conv_kernel_size", 0.0),
    ("embedding_scale", 1.0),
    ("expert_count", 0.0),
    ("expert_used_count", 0.0),
    ("final_logit_softcapping", 0.0),
    ("has_confidence_head", 0.0),
    ("hyper_connection_count", 0.0),
    ("logit_scale", 1.0),
    ("markov_rank", 0.0),
    ("residual_scale", 1.0),
    ("rope.scaling.attn_factor", 1.0),
    ("rope.scaling.yarn_attn_factor", 1.0),
    ("rope.scaling.yarn_ext_factor", 1.0),
    ("rope.scaling.yarn_log_multiplier", 0.0),
    ("sample_from_anchor", 0.0),
    ("selector_rank", 0.0),
    ("selector_top_k", 0.0),
];

impl DraftConfig {
    /// Reads the metadata of a GGUF draft.
    ///
    /// # Errors
    /// Another architecture, missing keys, anything that is not implemented.
    pub(super) fn from_gguf(metadata: &Metadata) -> Result<Self, ModelError> {
        require_arch(metadata)?;
        refuse_changes(metadata)?;
        let keys = Keys(metadata);
        let block = key("block_size");
        let draft = Self {
            layout: Layout::Gguf,
            block: metadata.integer(&block, MAX_BLOCK)?.ok_or_else(|| metadata.missing(&block))?,
            mask_id: mask_id(metadata)?,
            taps: Some(taps(metadata)?),
            target_layers: None,
            target_hidden: metadata.size(&key("target_hidden_size"))?,
            draft_vocab: None,
            markov_rank: None,
            body: keys.body()?,
        };
        draft.check(|name, expected| metadata.bad(&key(name), expected))
    }
}

fn key(name: &str) -> String {
    format!("{GGUF_ARCH}.{name}")
}

fn require_arch(metadata: &Metadata) -> Result<(), ModelError> {
    let key = "general.architecture";
    match metadata.text(key)?.ok_or_else(|| metadata.missing(key))? {
        GGUF_ARCH => Ok(()),
        other if is_draft_arch(other) => {
            Err(metadata.refused(key, "dflash is; convert the draft again with a current llama.cpp"))
        }
        other => {
            let found = format!("its GGUF architecture is {other}");
            Err(ModelError::NotADraft { path: metadata.path().to_owned(), found })
        }
    }
}

/// Keys with other values than the neutral ones, and keys that are not known: what is new here is new
/// mathematics until shown otherwise.
fn refuse_changes(metadata: &Metadata) -> Result<(), ModelError> {
    for (name, full) in metadata.keys().filter_map(|full| Some((below_arch(full)?, full))) {
        if READ.contains(&name) {
            continue;
        }
        match CHANGES.iter().find(|(known, _)| *known == name) {
            None => return Err(metadata.refused(full, "this draft setting is unknown")),
            Some((_, neutral)) if !metadata.is(full, *neutral) => return Err(metadata.refused(full, "")),
            Some(_) => {}
        }
    }
    Ok(())
}

fn below_arch(key: &str) -> Option<&str> {
    key.strip_prefix(GGUF_ARCH)?.strip_prefix('.')
}

/// The mask token stands with the tokenizer or with the draft's own keys.
fn mask_id(metadata: &Metadata) -> Result<u32, ModelError> {
    let (first, second) = ("tokenizer.ggml.mask_token_id", key("mask_token_id"));
    match (metadata.id(first)?, metadata.id(&second)?) {
        (Some(a), Some(b)) if a != b => Err(ModelError::Conflict {
            path: metadata.path().to_owned(),
            first: first.into(),
            first_value: a.to_string(),
            second,
            second_value: b.to_string(),
        }),
        (a, b) => a.or(b).ok_or_else(|| metadata.missing(first)),
    }
}

/// Layers are named by their input, so that 1 is the output of the first one.
fn taps(metadata: &Metadata) -> Result<Vec<usize>, ModelError> {
    let key = key("target_layers");
    let list = metadata.integers(&key)?.ok_or_else(|| metadata.missing(&key))?;
    let output = |&input: &i64| usize::try_from(input).ok()?.checked_sub(1);
    let taps = list.iter().map(output).collect::<Option<Vec<_>>>();
    taps.ok_or_else(|| metadata.refused(&key, "0 is the embedding, which is no decoder layer"))
}

/// The keys of the decoder stack.
struct Keys<'a>(&'a Metadata);

impl Keys<'_> {
    fn body(&self) -> Result<Body, ModelError> {
        let size = |name| self.0.required_size(&key(name));
        let eps = key("attention.layer_norm_rms_epsilon");
        Ok(Body {
            hidden: size("embedding_length")?,
            ffn: size("feed_forward_length")?,
            heads: size("attention.head_count")?,
            kv: self.geometry()?,
            eps: self.0.epsilon(&eps)?,
            vocab: self.vocab()?,
            rope: RopeConfig {
                base: self.required("rope.freq_base")?,
                scaling: self.scaling()?,
                partial: None,
            },
            attention_bias: BiasRule::IfPresent,
            softcap: None,
            layers: self.layers()?,
        })
    }

    fn vocab(&self) -> Result<Option<usize>, ModelError> {
        let stated = self.0.size(&key("vocab_size"))?;
        Ok(stated.or(self.0.texts("tokenizer.ggml.tokens")?.map(<[String]>::len)))
    }

    fn geometry(&self) -> Result<KvGeometry, ModelError> {
        let [count, kv, length] =
            ["attention.head_count", "attention.head_count_kv", "attention.key_length"].map(key);
        let heads = self.0.required_size(&count)?;
        let kv_heads = self.0.required_size(&kv)?;
        let dim = self.0.required_size(&length)?;
        for name in ["attention.value_length", "rope.dimension_count"].map(key) {
            if self.0.size(&name)?.is_some_and(|other| other != dim) {
                return Err(self.0.refused(&name, "keys, values and rotary dimensions have one length"));
            }
        }
        if !heads.is_multiple_of(kv_heads) {
            return Err(self.0.bad(&kv, "a divisor of the head count"));
        }
        if !dim.is_multiple_of(2) {
            return Err(self.0.bad(&length, "an even number"));
        }
        self.refuse_sections(dim)?;
        Ok(KvGeometry { heads: kv_heads, dim })
    }

    /// Drafts of targets with several position axes carry sections that use the first axis alone.
    fn refuse_sections(&self, dim: usize) -> Result<(), ModelError> {
        let key = key("rope.dimension_sections");
        match self.0.integers(&key)? {
            Some([first, rest @ ..]) if *first != dim as i64 / 2 || rest.iter().any(|&n| n != 0) => {
                Err(self.0.refused(&key, "one position axis is"))
            }
            _ => Ok(()),
        }
    }

    fn scaling(&self) -> Result<RopeScaling, ModelError> {
        let kind = key("rope.scaling.type");
        match self.0.text(&kind)? {
            None | Some("none") => Ok(RopeScaling::Default),
            Some("linear") => Ok(RopeScaling::Linear { factor: self.required("rope.scaling.factor")? }),
            Some("yarn") => self.yarn(),
            Some(_) => Err(self.0.refused(&kind, "none, linear and yarn are")),
        }
    }

    fn yarn(&self) -> Result<RopeScaling, ModelError> {
        let factor = self.required("rope.scaling.factor")?;
        let original = match self.positive("rope.scaling.original_context_length")? {
            Some(original) => original,
            None => self.required("context_length")?,
        };
        Ok(RopeScaling::Yarn {
            factor,
            beta_fast: self.positive("rope.scaling.yarn_beta_fast")?.unwrap_or(32.0),
            beta_slow: self.positive("rope.scaling.yarn_beta_slow")?.unwrap_or(1.0),
            original_context: original,
            attention_factor: if factor <= 1.0 { 1.0 } else { 0.1 * factor.ln() + 1.0 },
        })
    }

    fn positive(&self, name: &str) -> Result<Option<f32>, ModelError> {
        let key = key(name);
        match self.0.number(&key)? {
            Some(value) if value <= 0.0 => Err(self.0.bad(&key, "a positive number")),
            value => Ok(value),
        }
    }

    fn required(&self, name: &str) -> Result<f32, ModelError> {
        self.positive(name)?.ok_or_else(|| self.0.missing(&key(name)))
    }

    fn layers(&self) -> Result<Vec<LayerKind>, ModelError> {
        let layers = self.0.layers(&key("block_count"))?;
        let causality = Causality { all: self.0.flag(&key("attention.causal"))?, sliding: None };
        let windows = self.windows(layers)?;
        Ok(windows.into_iter().map(|window| LayerKind::of(window, causality)).collect())
    }

    /// The window of every sliding layer.
    fn windows(&self, layers: usize) -> Result<Vec<Option<usize>>, ModelError> {
        let [window, pattern] = ["attention.sliding_window", "attention.sliding_window_pattern"].map(key);
        let Some(window) = self.0.integer(&window, crate::json::MAX_SIZE)?.filter(|&window| window > 0)
        else {
            return Ok(vec![None; layers]);
        };
        let sliding = self.0.flags(&pattern)?.ok_or_else(|| self.0.missing(&pattern))?;
        if sliding.len() != layers {
            return Err(self.0.bad(&pattern, &format!("{layers} truth values, one per layer")));
        }
        Ok(sliding.iter().map(|&sliding| sliding.then_some(window)).collect())
    }
}
