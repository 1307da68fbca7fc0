use dflash_tensor::KvGeometry;
use serde_json::Value;

use crate::ModelError;
use crate::json::{Keys, shown};
use crate::loader::BiasRule;
use crate::refuse::require_silu;
use crate::rope::{RopeConfig, RopeRules};

/// Attention of one draft layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LayerKind {
    /// Window of a sliding layer.
    pub(super) window: Option<usize>,
    /// Whether a block row sees only earlier block rows.
    pub(super) causal: bool,
}

impl LayerKind {
    /// Sliding layers are causal inside the block and full ones are not, unless the file says otherwise.
    pub(super) fn of(window: Option<usize>, causality: Causality) -> Self {
        let said = causality.all.or(window.and(causality.sliding));
        Self { window, causal: said.unwrap_or(window.is_some()) }
    }
}

/// The decoder stack of a draft.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Body {
    pub(super) hidden: usize,
    pub(super) ffn: usize,
    pub(super) heads: usize,
    pub(super) kv: KvGeometry,
    pub(super) eps: f32,
    /// The target's vocabulary as the file states it.
    pub(super) vocab: Option<usize>,
    pub(super) rope: RopeConfig,
    pub(super) attention_bias: BiasRule,
    /// Cap of the logits as the config states it.
    pub(super) softcap: Option<f32>,
    pub(super) layers: Vec<LayerKind>,
}

/// What a config says about causality inside the block.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Causality {
    /// For all layers.
    pub(super) all: Option<bool>,
    /// For sliding layers, where `all` says nothing.
    pub(super) sliding: Option<bool>,
}

/// Keys of the stack that are read here.
pub(super) const READ: &[&str] = &[
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "hidden_act",
    "rms_norm_eps",
    "vocab_size",
    "max_position_embeddings",
    "rope_theta",
    "rope_scaling",
    "rope_parameters",
    "attention_bias",
    "layer_types",
    "sliding_window",
    "sliding_window_pattern",
    "tie_word_embeddings",
    "final_logit_softcapping",
];

impl Body {
    /// Reads the stack from the object that holds its keys.
    pub(super) fn read(config: &Keys<'_>, causality: Causality) -> Result<Self, ModelError> {
        require_silu(config)?;
        let gemma = has_gemma_defaults(config)?;
        let types = layer_types(config, gemma)?;
        let context = config.required_size("max_position_embeddings")?;
        let used = used(&types);
        let rules = RopeRules {
            kinds: &["linear", "llama3", "yarn"],
            base: None,
            context,
            layer_types: &used,
            partial: false,
            multimodal: false,
        };
        Ok(Self {
            hidden: config.required_size("hidden_size")?,
            ffn: config.required_size("intermediate_size")?,
            heads: config.required_size("num_attention_heads")?,
            kv: geometry(config)?,
            eps: config.epsilon("rms_norm_eps")?,
            vocab: Some(config.required_size("vocab_size")?),
            rope: RopeConfig::read(config, &rules)?,
            attention_bias: match config.flag("attention_bias")? {
                Some(true) => BiasRule::Always,
                _ => BiasRule::Never,
            },
            softcap: config.number("final_logit_softcapping")?.filter(|&cap| cap != 0.0),
            layers: types
                .iter()
                .map(|&sliding| kind(config, sliding, gemma, causality))
                .collect::<Result<_, _>>()?,
        })
    }

    /// The longest window of its sliding layers.
    pub(super) fn window(&self) -> usize {
        self.layers.iter().filter_map(|layer| layer.window).max().unwrap_or(0)
    }
}

/// Sliding layers where a Gemma 4 draft does not name its layer types: `(pattern - 1)` of them before a full one.
const GEMMA_PATTERN: usize = 5;
/// Their window.
const GEMMA_WINDOW: usize = 512;

/// Whether layer types and window are those that Gemma 4 has by default. Other Gemmas have others.
fn has_gemma_defaults(config: &Keys<'_>) -> Result<bool, ModelError> {
    let kind = config.text("model_type")?.filter(|_| config.get("layer_types").is_none());
    match kind {
        Some(kind) if kind.starts_with("gemma4") => Ok(true),
        Some(kind) if kind.starts_with("gemma") => {
            Err(config.refused("model_type", "a Gemma draft must name its layer_types"))
        }
        _ => Ok(false),
    }
}

fn gemma_layers(config: &Keys<'_>, layers: usize) -> Result<Vec<bool>, ModelError> {
    let pattern = config.size("sliding_window_pattern")?.unwrap_or(GEMMA_PATTERN);
    Ok((1..=layers).map(|layer| !layer.is_multiple_of(pattern)).collect())
}

/// Per layer whether it is a sliding one.
fn layer_types(config: &Keys<'_>, gemma: bool) -> Result<Vec<bool>, ModelError> {
    let layers = config.layers()?;
    let key = "layer_types";
    let list = match config.get(key) {
        None if gemma => return gemma_layers(config, layers),
        None => return Ok(vec![false; layers]),
        Some(Value::Array(list)) if list.is_empty() => return Ok(vec![false; layers]),
        Some(Value::Array(list)) if list.len() == layers => list,
        Some(_) => return Err(config.bad(key, &format!("a list of {layers} names, one per layer"))),
    };
    list.iter().map(|name| is_sliding(config, name)).collect()
}

fn is_sliding(config: &Keys<'_>, name: &Value) -> Result<bool, ModelError> {
    match name.as_str() {
        Some("full_attention") => Ok(false),
        Some("sliding_attention") => Ok(true),
        _ => Err(ModelError::Refused {
            path: config.path().to_owned(),
            key: config.name("layer_types"),
            value: shown(name),
            reason: "full_attention and sliding_attention are",
        }),
    }
}

fn used(types: &[bool]) -> Vec<&'static str> {
    let mut used = Vec::new();
    if types.contains(&true) {
        used.push("sliding_attention");
    }
    if types.contains(&false) {
        used.push("full_attention");
    }
    used
}

fn kind(
    config: &Keys<'_>,
    sliding: bool,
    gemma: bool,
    causality: Causality,
) -> Result<LayerKind, ModelError> {
    if !sliding {
        return Ok(LayerKind::of(None, causality));
    }
    let window = match config.size("sliding_window")? {
        None if gemma => GEMMA_WINDOW,
        window => window.ok_or_else(|| config.missing("sliding_window"))?,
    };
    Ok(LayerKind::of(Some(window), causality))
}

fn geometry(config: &Keys<'_>) -> Result<KvGeometry, ModelError> {
    let heads = config.required_size("num_attention_heads")?;
    let kv_heads = config.required_size("num_key_value_heads")?;
    let dim = config.required_size("head_dim")?;
    if !heads.is_multiple_of(kv_heads) {
        return Err(config.bad("num_key_value_heads", "a divisor of num_attention_heads"));
    }
    if !dim.is_multiple_of(2) {
        return Err(config.bad("head_dim", "an even number"));
    }
    Ok(KvGeometry { heads: kv_heads, dim })
}
