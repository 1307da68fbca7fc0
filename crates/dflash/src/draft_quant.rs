//! Quantisation of the draft's linear layers: the grammar of `--draft-quant`.
//!
//! `w(2|4|8)`, then `a16` or `a32` (default 16), then `:gs(32|64|128)` (default 64), in any case;
//! `none` switches it off.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// What is done to the draft's linear layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DraftQuant {
    /// The checkpoint's own numbers.
    Off,
    /// Affine quantisation in groups.
    Affine {
        /// Bits per weight: 2, 4 or 8.
        bits: u8,
        /// Bits of the floats that stay: 16 or 32.
        activation_bits: u8,
        /// Weights that share one scale: 32, 64 or 128.
        group_size: u16,
    },
}

/// Who asked for the quantisation in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DraftQuantSource {
    /// The user.
    Explicit,
    /// The registry entry of the pair.
    ModelDefault,
    /// Nobody.
    None,
}

impl DraftQuantSource {
    /// As reports write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Explicit => "explicit",
            Self::ModelDefault => "model_default",
            Self::None => "none",
        }
    }
}

/// What a spec may look like; shown when one does not.
pub const GRAMMAR: &str =
    "none, or w(2|4|8) with optional a16|a32 and :gs(32|64|128), as in w4 or w8a32:gs128";

impl DraftQuant {
    /// The quantisation in force: the user's, else the registry's, which only holds for the draft
    /// that the registry names.
    pub fn effective(asked: Option<Self>, of_registry: Option<Self>) -> (Self, DraftQuantSource) {
        match (asked, of_registry) {
            (Some(quant), _) => (quant, DraftQuantSource::Explicit),
            (None, Some(quant)) => (quant, DraftQuantSource::ModelDefault),
            (None, None) => (Self::Off, DraftQuantSource::None),
        }
    }
}

impl FromStr for DraftQuant {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        parse(&text.to_ascii_lowercase()).ok_or_else(|| GRAMMAR.to_owned())
    }
}

fn parse(text: &str) -> Option<DraftQuant> {
    if text == "none" {
        return Some(DraftQuant::Off);
    }
    let (weights, group) = text.split_once(':').unwrap_or((text, "gs64"));
    let weights = weights.strip_prefix('w')?;
    let (bits, activation) = weights.split_once('a').unwrap_or((weights, "16"));
    Some(DraftQuant::Affine {
        bits: one_of(bits, &["2", "4", "8"])?,
        activation_bits: one_of(activation, &["16", "32"])?,
        group_size: one_of(group.strip_prefix("gs")?, &["32", "64", "128"])?,
    })
}

/// Compares as text: `04` or `+4` are not in the grammar.
fn one_of<T: FromStr>(text: &str, allowed: &[&str]) -> Option<T> {
    allowed.contains(&text).then(|| text.parse().ok()).flatten()
}

impl fmt::Display for DraftQuant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("none"),
            Self::Affine { bits, activation_bits, group_size } => {
                write!(f, "w{bits}a{activation_bits}:gs{group_size}")
            }
        }
    }
}

impl Serialize for DraftQuant {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for DraftQuant {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_grammar_and_its_defaults() {
        for (text, canonical) in [
            ("none", "none"),
            ("NONE", "none"),
            ("w2", "w2a16:gs64"),
            ("w4", "w4a16:gs64"),
            ("W8A32", "w8a32:gs64"),
            ("w8:gs32", "w8a16:gs32"),
            ("w4a16:GS128", "w4a16:gs128"),
        ] {
            assert_eq!(text.parse::<DraftQuant>().unwrap().to_string(), canonical, "{text}");
        }
    }

    #[test]
    fn what_is_not_in_the_grammar() {
        for text in [
            "",
            "w",
            "w3",
            "w16",
            "w04",
            "4",
            "w4a",
            "w4a8",
            "w4:",
            "w4:64",
            "w4:gs16",
            "w4a16a32",
            "w4:gs64:gs64",
            "w4 ",
        ] {
            assert!(text.parse::<DraftQuant>().is_err(), "{text}");
        }
    }

    #[test]
    fn the_user_wins_over_the_registry() {
        let w4 = "w4".parse().unwrap();
        assert_eq!(
            DraftQuant::effective(Some(DraftQuant::Off), Some(w4)),
            (DraftQuant::Off, DraftQuantSource::Explicit)
        );
        assert_eq!(DraftQuant::effective(None, Some(w4)), (w4, DraftQuantSource::ModelDefault));
        assert_eq!(DraftQuant::effective(None, None), (DraftQuant::Off, DraftQuantSource::None));
    }
}
