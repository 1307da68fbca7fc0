use dflash_engine::EngineHandle;
use dflash_grammar::Grammars;
use dflash_text::{ChatFormat, Tokenizer};

/// The pair that is served.
pub struct ServedModel {
    /// The name that answers carry.
    pub id: String,
    /// Other names that requests may use.
    pub aliases: Vec<String>,
    /// Seconds since 1970 when it was loaded.
    pub created: u64,
    /// Decodes.
    pub engine: EngineHandle,
    /// Text to ids and back.
    pub tokenizer: Tokenizer,
    /// Conversation to prompt.
    pub format: ChatFormat,
    /// Answers that must fit.
    pub grammars: Grammars,
    /// Ids that end an answer.
    pub stop_ids: Vec<u32>,
    /// What is told of it.
    pub facts: ModelFacts,
}

/// Facts of a served pair, for reports.
#[derive(Debug, Clone, Default)]
pub struct ModelFacts {
    /// File or directory of the target.
    pub target: String,
    /// File or directory of the draft, `none` or `ngram`.
    pub draft: String,
    /// How the draft was quantised at load, and who asked.
    pub draft_quant: Option<(String, String)>,
    /// Positions of the target.
    pub context: usize,
    /// Further names that requests may use, and that no list tells: paths and repositories.
    pub other_names: Vec<String>,
    /// Valid ids are below.
    pub vocab: usize,
    /// Why the paired draft is not in use, where it was wished for.
    pub draft_fallback: Option<String>,
    /// Why nothing is drafted, where that is so.
    pub drafting_off: Option<String>,
    /// Name of the backend.
    pub backend: String,
    /// Most sequences in one step.
    pub max_batch: usize,
    /// Most prompt rows in one pass.
    pub prefill_step_size: usize,
    /// What is kept of prompts and answers at most.
    pub prefix: Option<dflash_engine::PrefixOptions>,
}

impl ServedModel {
    /// Whether a request that names `model` means this one.
    pub fn answers_to(&self, model: &str) -> bool {
        let mut names = self.aliases.iter().chain(&self.facts.other_names);
        model == self.id || names.any(|name| name == model)
    }
}
