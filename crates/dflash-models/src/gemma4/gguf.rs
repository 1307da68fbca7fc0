use dflash_tensor::{Activation, KvGeometry, RopeScaling};

use super::config::{Config, Habits, LayerPlan, Reach, cache_layer};
use crate::ModelError;
use crate::attention::ValueSource;
use crate::checkpoint::Checkpoint;
use crate::gguf::Metadata;
use crate::loader::BiasRule;
use crate::moe::MoeShape;
use crate::rope::RopeConfig;

/// Reads GGUF metadata, and what only the tensors say; `vocab` is the number of tokens.
pub(super) fn read(
    metadata: &Metadata,
    checkpoint: &Checkpoint,
    vocab: usize,
    notes: &mut Vec<String>,
) -> Result<Config, ModelError> {
    let reader = Reader { metadata, checkpoint };
    reader.refuse()?;
    notes.extend(reader.note_unread());
    let reaches = reader.reaches()?;
    Ok(Config {
        hidden: reader.size("embedding_length")?,
        eps: reader.number("attention.layer_norm_rms_epsilon")?,
        vocab,
        context: reader.size("context_length")?,
        heads: reader.size("attention.head_count")?,
        bias: BiasRule::IfPresent,
        softcap: reader.softcap()?,
        tied: None,
        layer_inputs: reader.count("embedding_length_per_layer_input")?,
        experts: reader.experts()?,
        sliding: reader.habits(&reaches, Reach::Sliding)?,
        full: reader.habits(&reaches, Reach::Full)?,
        layers: reader.layers(&reaches)?,
    })
}

const ROPE_FREQS: &str = "rope_freqs.weight";

struct Reader<'a> {
    metadata: &'a Metadata,
    checkpoint: &'a Checkpoint,
}

fn key(name: &str) -> String {
    format!("gemma4.{name}")
}

impl Reader<'_> {
    fn size(&self, name: &str) -> Result<usize, ModelError> {
        self.metadata.required_size(&key(name))
    }

    /// A count that may be absent; zero counts as none.
    fn count(&self, name: &str) -> Result<Option<usize>, ModelError> {
        Ok(self.metadata.count(&key(name))?.filter(|&count| count > 0))
    }

    fn number(&self, name: &str) -> Result<f32, ModelError> {
        let key = key(name);
        match self.metadata.number(&key)? {
            Some(number) if number > 0.0 => Ok(number),
            Some(_) => Err(self.metadata.bad(&key, "a positive number")),
            None => Err(self.metadata.missing(&key)),
        }
    }

    fn softcap(&self) -> Result<Option<f32>, ModelError> {
        let name = "final_logit_softcapping";
        match self.metadata.number(&key(name))? {
            None | Some(0.0) => Ok(None),
            Some(_) => self.number(name).map(Some),
        }
    }

    fn experts(&self) -> Result<Option<MoeShape>, ModelError> {
        let Some(experts) = self.count("expert_count")? else { return Ok(None) };
        let top_k = self.size("expert_used_count")?;
        if top_k > experts {
            return Err(self.metadata.bad(&key("expert_used_count"), "at most expert_count"));
        }
        Ok(Some(MoeShape {
            hidden: self.size("embedding_length")?,
            experts,
            ffn: self.size("expert_feed_forward_length")?,
            top_k,
            renormalise: true,
            activation: Activation::GeluTanh,
            shared: None,
        }))
    }

    fn reaches(&self) -> Result<Vec<Reach>, ModelError> {
        let (layers, key) =
            (self.metadata.layers(&key("block_count"))?, key("attention.sliding_window_pattern"));
        let flags = self.metadata.flags(&key)?.ok_or_else(|| self.metadata.missing(&key))?;
        if flags.len() != layers {
            return Err(self.metadata.bad(&key, &format!("{layers} truth values, one per layer")));
        }
        Ok(flags.iter().map(|&sliding| if sliding { Reach::Sliding } else { Reach::Full }).collect())
    }

    fn habits(&self, reaches: &[Reach], reach: Reach) -> Result<Option<Habits>, ModelError> {
        let Some(kv) = self.geometry(reaches, reach)? else { return Ok(None) };
        Ok(Some(match reach {
            Reach::Sliding => Habits {
                window: Some(self.size("attention.sliding_window")?),
                kv,
                rope: RopeConfig::new(self.number("rope.freq_base_swa")?, RopeScaling::Default),
            },
            Reach::Full => Habits {
                window: None,
                kv,
                rope: RopeConfig::new(
                    self.number("rope.freq_base")?,
                    RopeScaling::Proportional { rotated: self.rotated(kv.dim)?, factor: 1.0 },
                ),
            },
        }))
    }

    fn geometry(&self, reaches: &[Reach], reach: Reach) -> Result<Option<KvGeometry>, ModelError> {
        let count = "attention.head_count_kv";
        let heads = self.metadata.sizes(&key(count), reaches.len())?;
        let mut of = reaches.iter().zip(heads).filter(|(other, _)| **other == reach).map(|(_, heads)| heads);
        let Some(heads) = of.next() else { return Ok(None) };
        if of.any(|other| other != heads) {
            return Err(self.metadata.refused(&key(count), "layers of one kind have one shape"));
        }
        if !self.size("attention.head_count")?.is_multiple_of(heads) {
            return Err(self.metadata.bad(&key(count), "divisors of the head count"));
        }
        Ok(Some(KvGeometry { heads, dim: self.head_width(reach)? }))
    }

    fn head_width(&self, reach: Reach) -> Result<usize, ModelError> {
        let tail = if reach == Reach::Sliding { "_swa" } else { "" };
        let name = format!("attention.key_length{tail}");
        let dim = self.size(&name)?;
        for other in [format!("attention.value_length{tail}"), format!("rope.dimension_count{tail}")] {
            if self.metadata.size(&key(&other))?.is_some_and(|other| other != dim) {
                let why = "keys, values and rotary dimensions have one length";
                return Err(self.metadata.refused(&key(&other), why));
            }
        }
        match dim.is_multiple_of(2) {
            true => Ok(dim),
            false => Err(self.metadata.bad(&key(&name), "an even number")),
        }
    }

    /// Pairs of a full layer's head that turn. The file divides the frequencies of the others by so much that
    /// they stand still.
    fn rotated(&self, dim: usize) -> Result<usize, ModelError> {
        let divisors = self.checkpoint.floats(ROPE_FREQS, dim / 2)?;
        let rotated = divisors.iter().take_while(|&&divisor| divisor == 1.0).count();
        match divisors[rotated..].iter().all(|&divisor| divisor >= 1e20) {
            true => Ok(rotated),
            false => Err(self.checkpoint.bad_tensor(ROPE_FREQS, "divisors other than 1 and 1e30 after it")),
        }
    }

    fn layers(&self, reaches: &[Reach]) -> Result<Vec<LayerPlan>, ModelError> {
        let name = "attention.shared_kv_layers";
        let shared = self.count(name)?.unwrap_or(0);
        let none = || self.metadata.refused(&key(name), "no layer of the same kind has keys of its own");
        if shared > reaches.len() {
            return Err(none());
        }
        let ffn = self.metadata.sizes(&key("feed_forward_length"), reaches.len())?;
        let layer = |(index, (&reach, ffn)): (usize, (&Reach, usize))| {
            let cache = cache_layer(reaches, shared, index).ok_or_else(none)?;
            Ok(LayerPlan { reach, values: self.values(reach, index, cache), cache, ffn })
        };
        reaches.iter().zip(ffn).enumerate().map(layer).collect()
    }

    /// A full layer without a value projection takes its keys for values.
    fn values(&self, reach: Reach, index: usize, cache: usize) -> ValueSource {
        let projection = format!("model.layers.{index}.self_attn.v_proj.weight");
        match reach {
            _ if cache != index => ValueSource::Shared,
            Reach::Full if !self.checkpoint.contains(&projection) => ValueSource::Keys,
            _ => ValueSource::Projection,
        }
    }

    fn note_unread(&self) -> Option<String> {
        let known = |key: &str| {
            let name = key.strip_prefix("gemma4.");
            name.is_none_or(|name| READ.contains(&name) || CHANGES.iter().any(|(change, _)| *change == name))
        };
        let unread = self.metadata.keys().filter(|key| !known(key)).collect::<Vec<_>>();
        (!unread.is_empty()).then(|| format!("GGUF keys that are not read: {}", unread.join(", ")))
    }

    fn refuse(&self) -> Result<(), ModelError> {
        for (name, neutral) in CHANGES {
            if self.metadata.number(&key(name))?.is_some_and(|value| value != neutral) {
                return Err(self.metadata.refused(&key(name), ""));
            }
        }
        let scaling = key("rope.scaling.type");
        match self.metadata.text(&scaling)? {
            None | Some("none") => Ok(()),
            Some(_) => Err(self.metadata.refused(&scaling, "none is")),
        }
    }
}

/// Keys that are read, or that repeat what tensors say.
const READ: &[&str] = &[
    "attention.head_count",
    "attention.head_count_kv",
    "attention.key_length",
    "attention.key_length_swa",
    "attention.layer_norm_rms_epsilon",
    "attention.shared_kv_layers",
    "attention.sliding_window",
    "attention.sliding_window_pattern",
    "attention.value_length",
    "attention.value_length_swa",
    "block_count",
    "context_length",
    "embedding_length",
    "embedding_length_per_layer_input",
    "expert_count",
    "expert_feed_forward_length",
    "expert_used_count",
    "feed_forward_length",
    "final_logit_softcapping",
    "rope.dimension_count",
    "rope.dimension_count_swa",
    "rope.freq_base",
    "rope.freq_base_swa",
    "rope.scaling.type",
    "vocab_size",
];

/// Keys of relatives, with the value that changes nothing.
const CHANGES: [(&str, f32); 8] = [
    ("attention.clamp_kqv", 0.0),
    ("attn_logit_softcapping", 0.0),
    ("embedding_scale", 1.0),
    ("expert_shared_count", 0.0),
    ("expert_weights_scale", 1.0),
    ("logit_scale", 1.0),
    ("residual_scale", 1.0),
    ("rope.scaling.factor", 1.0),
];
