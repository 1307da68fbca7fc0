//! From what the user named to the files of a target and its draft.

mod locator;
mod refusal;

use std::path::PathBuf;

use crate::draft_quant::DraftQuant;
use crate::registry::DEFAULT_PAIR;
use crate::report::{Failure, Outcome};

pub use locator::Locator;

/// Which target and which draft the user asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PairChoice {
    /// A path, a name, or a repository of the Hub.
    pub model: String,
    /// Which draft.
    pub draft: DraftChoice,
}

/// Which draft the user asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DraftChoice {
    /// The one that the registry pairs with the target.
    Paired,
    /// That one if it can be had, else copy from the context.
    Auto,
    /// Plain decoding.
    None,
    /// Copy from the context.
    Ngram,
    /// A path, or a repository of the Hub.
    Named(String),
}

/// A target that is on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// A GGUF file or a model directory.
    pub path: PathBuf,
    /// What it may be called, the best name first.
    pub names: Vec<String>,
}

/// What drafts for the target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Draft {
    /// Nothing: plain decoding.
    None,
    /// Copy from the context.
    Ngram,
    /// A draft model that is on this machine.
    Model {
        /// Its directory or file.
        path: PathBuf,
        /// How the registry quantises it; `None` for a draft that is not the registry's.
        registry_quant: Option<DraftQuant>,
    },
}

impl PairChoice {
    /// What `--model` and `--draft` mean.
    pub fn of(model: Option<&str>, draft: Option<&str>) -> Outcome<Self> {
        let model = not_empty("--model", model)?.unwrap_or(DEFAULT_PAIR).to_owned();
        let draft = match not_empty("--draft", draft)? {
            None => DraftChoice::Paired,
            Some(word) if word.eq_ignore_ascii_case("auto") => DraftChoice::Auto,
            Some(word) if word.eq_ignore_ascii_case("none") => DraftChoice::None,
            Some(word) if word.eq_ignore_ascii_case("ngram") => DraftChoice::Ngram,
            Some(name) => DraftChoice::Named(name.to_owned()),
        };
        Ok(Self { model, draft })
    }
}

fn not_empty<'a>(flag: &str, value: Option<&'a str>) -> Outcome<Option<&'a str>> {
    match value {
        Some("") => Err(Failure::usage(format!("invalid value '' for {flag}"))),
        other => Ok(other),
    }
}
