//! Which draft belongs to which target: the pairs that are known by name.

mod source;

use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use crate::draft_quant::DraftQuant;

pub use source::{DraftFormat, DraftSource, TargetSource};

/// The known pairs.
#[derive(Debug, Clone, Deserialize)]
#[serde(transparent)]
pub struct Registry(Vec<Entry>);

/// One known pair.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// The target's base name, without organisation and variant.
    pub name: String,
    /// Other base names of the same target.
    #[serde(default)]
    pub aliases: Vec<String>,
    /// `model_type` of the target's checkpoint.
    pub model_type: String,
    /// What kind of layers the target has.
    pub family: Family,
    /// Where the target's weights come from.
    pub target: TargetSource,
    /// Where the draft's weights come from.
    pub draft: DraftSource,
    /// How this draft is quantised unless the user says otherwise.
    #[serde(default)]
    pub draft_quant: Option<DraftQuant>,
    /// Other drafts of the same target, for whoever names them.
    #[serde(default)]
    pub other_drafts: Vec<String>,
}

/// The structural kind of a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Family {
    /// Attention in every layer.
    PureAttention,
    /// Recurrent layers (gated delta rule) between attention layers.
    HybridGdn,
    /// Attention, windowed in most layers.
    #[serde(rename = "gemma4_swa")]
    Gemma4Swa,
}

impl Entry {
    /// Whether this build computes targets of that type.
    pub fn target_is_built(&self) -> bool {
        dflash_models::supported_model_types().any(|name| name == self.model_type)
    }

    /// What keeps this build from running the pair.
    pub fn obstacle(&self) -> Option<String> {
        let target = || format!("model type {} is not built yet", self.model_type);
        let draft = self.draft.obstacle().map(str::to_owned);
        draft.or_else(|| (!self.target_is_built()).then(target))
    }

    fn bases(&self) -> impl Iterator<Item = &str> {
        [&self.name].into_iter().chain(&self.aliases).map(String::as_str)
    }
}

/// The name of the pair that is used when no model is named.
pub const DEFAULT_PAIR: &str = "smollm2-135m";

static BUILT_IN: LazyLock<Registry> = LazyLock::new(|| {
    // A fault in the file is a fault of the build; a test parses it.
    serde_json::from_str(include_str!("../../registry.json")).expect("registry.json is well formed")
});

impl Registry {
    /// The registry that is part of the binary.
    pub fn built_in() -> &'static Self {
        &BUILT_IN
    }

    /// The pair that is used when no model is named.
    pub fn default_pair(&self) -> Option<&Entry> {
        self.find(DEFAULT_PAIR)
    }

    /// Every pair, in the order of the file.
    pub fn entries(&self) -> &[Entry] {
        &self.0
    }

    /// The pair whose draft is `repo`, where this build cannot run that draft.
    pub fn unbuilt_draft(&self, repo: &str) -> Option<&Entry> {
        self.0.iter().find(|entry| entry.draft.is_called(repo) && entry.draft.obstacle().is_some())
    }

    /// The names of every pair.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|entry| entry.name.as_str())
    }

    /// The pair of a target called `name`: a repository, a directory, a GGUF file or its
    /// `general.name`. The whole name, else the longest base that is followed by `-` or `_`.
    pub fn find(&self, name: &str) -> Option<&Entry> {
        let name = normalised(name);
        let bases_of = |entry| Entry::bases(entry).map(move |base| (entry, base.to_lowercase()));
        let bases = || self.0.iter().flat_map(bases_of);
        let exact = bases().find(|(_, base)| *base == name);
        let longest =
            || bases().filter(|(_, base)| is_variant(&name, base)).max_by_key(|(_, base)| base.len());
        exact.or_else(longest).map(|(entry, _)| entry)
    }
}

fn is_variant(name: &str, base: &str) -> bool {
    name.strip_prefix(base).is_some_and(|rest| rest.starts_with(['-', '_']))
}

/// Organisation, letter case, file extension and quantisation tag are not part of a model's name;
/// a GGUF `general.name` has spaces where other names have dashes.
fn normalised(name: &str) -> String {
    let name = name.trim().trim_end_matches(['/', '\\']);
    let last = name.rsplit(['/', '\\']).next().unwrap_or(name);
    let lower = last.to_lowercase().replace(' ', "-");
    let stem = lower.strip_suffix(".gguf").unwrap_or(&lower);
    without_quant_tag(stem).to_owned()
}

/// `name.Q4_1` is a variant of `name`; `qwen3.5-4b` is not one of `qwen3`.
fn without_quant_tag(stem: &str) -> &str {
    match stem.rsplit_once('.') {
        Some((base, tag)) if is_quant_tag(tag) => base,
        _ => stem,
    }
}

fn is_quant_tag(tag: &str) -> bool {
    let digit_after = |prefix: &str| {
        tag.strip_prefix(prefix).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    matches!(tag, "f16" | "bf16" | "f32")
        || ["q", "iq", "tq", "mxfp"].iter().any(|prefix| digit_after(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(name: &str) -> Option<&'static str> {
        Registry::built_in().find(name).map(|entry| entry.name.as_str())
    }

    #[test]
    fn names_as_they_occur() {
        for (name, base) in [
            ("smollm2-135m", "smollm2-135m"),
            ("SmolLM2-135M-Instruct", "smollm2-135m"),
            ("SmolLM2-135M-Instruct.Q4_1.gguf", "smollm2-135m"),
            ("models/SmolLM2-135M.f16.gguf", "smollm2-135m"),
            (r"C:\models\SmolLM2-135M.IQ4_NL.gguf", "smollm2-135m"),
            ("Smollm2 135M 8k Lc100K Mix1 Ep2", "smollm2-135m"),
            ("mlx-community/Qwen3.5-9B-4bit", "Qwen3.5-9B"),
            ("Qwen/Qwen3-4B", "Qwen3-4B"),
            ("qwen3-4b_q8", "Qwen3-4B"),
            ("Qwen3-8B/", "Qwen3-8B"),
            ("Qwen3.5-35B-A3B-8bit", "Qwen3.5-35B-A3B"),
            ("google/gemma-4-31B-it", "gemma-4-31b-it"),
            ("gemma-4-26B-A4B-it-qat-4bit", "gemma-4-26b-a4b-it"),
            ("Qwen/Qwen3-8B-GGUF", "Qwen3-8B"),
            ("lmstudio-community/Qwen3-Coder-30B-A3B-Instruct-MLX-4bit", "Qwen3-Coder-30B-A3B"),
            ("unsloth/Qwen3-Coder-Next-GGUF", "Qwen3-Coder-Next"),
            ("mlx-community/Meta-Llama-3.1-8B-Instruct-4bit", "Llama-3.1-8B-Instruct"),
            ("Llama-3.1-8B-Instruct.Q4_0.gguf", "Llama-3.1-8B-Instruct"),
        ] {
            assert_eq!(found(name), Some(base), "{name}");
        }
    }

    #[test]
    fn names_that_only_look_alike() {
        for name in
            ["", "Qwen3-4", "Qwen3-4Bx", "Qwen3-40B", "Qwen3.5", "my-Qwen3-4B", "SmolLM2-1.7B", "gemma-4-31b"]
        {
            assert_eq!(found(name), None, "{name}");
        }
    }

    #[test]
    fn the_longest_base_wins() {
        let entry = |name: &str| Entry { name: name.to_owned(), ..Registry::built_in().entries()[1].clone() };
        let registry = Registry(vec![entry("a-b"), entry("A"), entry("a-b-c")]);
        let found = |name| registry.find(name).map(|entry| entry.name.as_str());
        assert_eq!(found("a-b-d"), Some("a-b"));
        assert_eq!(found("a-b-c-d"), Some("a-b-c"));
        assert_eq!(found("a-b-c"), Some("a-b-c"));
        assert_eq!(found("a_x"), Some("A"));
    }

    #[test]
    fn the_starred_pairs_quantise_their_draft() {
        let starred = Registry::built_in().entries().iter().filter(|entry| entry.draft_quant.is_some());
        assert_eq!(starred.count(), 8);
        assert_eq!(Registry::built_in().entries().len(), 16);
        assert!(Registry::built_in().default_pair().is_some());
    }

    #[test]
    fn a_draft_of_another_kind_is_listed_and_known_not_to_run() {
        let entry = Registry::built_in().find("Qwen3.8-27B-8bit").unwrap();
        assert!(entry.draft.obstacle().is_some_and(|why| why.contains("DFlash2")));
        assert!(entry.obstacle().is_some());
        assert_eq!(Registry::built_in().unbuilt_draft("z-lab/qwen3.8-27b-dflash2"), Some(entry));
        assert_eq!(Registry::built_in().unbuilt_draft("z-lab/Qwen3-4B-DFlash-b16"), None);
    }
}
