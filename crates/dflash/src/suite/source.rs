use std::path::PathBuf;

use super::{Category, Dataset};

/// Where prompts come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// The first built-in prompt of every category.
    Smoke,
    /// Every built-in prompt.
    Builtin,
    /// The built-in prompts of one category.
    Category(Category),
    /// Problems of the Hub.
    Dataset(Dataset),
    /// Made prompts of a length.
    LongContext {
        /// Tokens of four characters.
        tokens: usize,
    },
    /// What was typed.
    Text(String),
    /// The user's file.
    File(PathBuf),
}

/// Name of the suite of made prompts.
pub(super) const LONG_CONTEXT: &str = "longctx";
/// Tokens of its prompts, unless more or fewer are asked for.
pub(super) const CTX_TOKENS: usize = 8192;
const SMOKE: &str = "smoke";
const BUILTIN: &str = "builtin";

impl Source {
    /// The suite called `name`.
    pub(super) fn named(name: &str) -> Option<Self> {
        match name {
            SMOKE => Some(Self::Smoke),
            BUILTIN => Some(Self::Builtin),
            LONG_CONTEXT => Some(Self::LongContext { tokens: CTX_TOKENS }),
            _ => category_named(name).map(Self::Category).or_else(|| dataset_named(name).map(Self::Dataset)),
        }
    }

    /// The names of all suites.
    pub(super) fn names() -> impl Iterator<Item = &'static str> {
        let published = Dataset::ALL.map(Dataset::name);
        [SMOKE, BUILTIN]
            .into_iter()
            .chain(Category::ALL.map(Category::name))
            .chain(published)
            .chain([LONG_CONTEXT])
    }

    /// What it is called in reports and in the names of their folders.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Smoke => SMOKE,
            Self::Builtin => BUILTIN,
            Self::Category(category) => category.name(),
            Self::Dataset(dataset) => dataset.name(),
            Self::LongContext { .. } => LONG_CONTEXT,
            Self::Text(_) => "prompt",
            Self::File(_) => "prompt-file",
        }
    }

    /// Most prompts, unless more or fewer are asked for; `None` is all.
    pub(super) fn limit(&self) -> Option<usize> {
        match self {
            Self::LongContext { .. } => Some(1),
            Self::Dataset(dataset) => Some(dataset.limit()),
            _ => None,
        }
    }

    /// Tokens that an answer may have, unless more or fewer are asked for.
    pub(super) fn max_tokens(&self) -> usize {
        match self {
            Self::Dataset(dataset) => dataset.max_tokens(),
            _ => 64,
        }
    }
}

fn category_named(name: &str) -> Option<Category> {
    Category::ALL.into_iter().find(|category| category.name() == name)
}

fn dataset_named(name: &str) -> Option<Dataset> {
    Dataset::ALL.into_iter().find(|dataset| dataset.name() == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_that_of_its_suite() {
        for name in Source::names() {
            assert_eq!(Source::named(name).unwrap().name(), name);
        }
        assert_eq!(Source::named("none"), None);
    }
}
