//! What a command was asked to do, validated: these are made by their `read` only.

use crate::cli::{BenchmarkArgs, DoctorArgs, GenerateArgs};
use crate::env::Environment;
use crate::options::{self, Options};
use crate::pair::PairChoice;
use crate::prompt;
use crate::report::{Failure, Outcome};
use crate::sampling::SamplingChoice;

/// A valid `dflash generate`.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct GenerateRequest {
    /// Which models.
    pub pair: PairChoice,
    /// The prompt; not empty.
    pub prompt: String,
    /// The system message.
    pub system: Option<String>,
    /// Whether the prompt goes through the model's chat template.
    pub chat_template: bool,
    /// Most tokens to generate; at least 1.
    pub max_tokens: usize,
    /// Texts to stop before; none is empty.
    pub stop: Vec<String>,
    /// How tokens are chosen.
    pub sampling: SamplingChoice,
    /// Whether to decode again without the draft and compare.
    pub check: bool,
    /// Whether to print one JSON object instead of text.
    pub json: bool,
    /// The shared settings.
    pub options: Options,
}

impl GenerateRequest {
    /// Validates the arguments. The prompt is read last: a wrong flag must not wait for a pipe.
    pub fn read(args: &GenerateArgs, env: &Environment) -> Outcome<Self> {
        let options = Options::resolve(&args.pair, &args.runtime, env)?;
        let pair = PairChoice::of(args.pair.model.as_deref(), args.pair.draft.as_deref())?;
        let max_tokens = options::max_tokens(args.max_tokens.as_deref(), env)?.value;
        let stop = options::stop_strings(&args.stop)?;
        let sampling = SamplingChoice::read(&args.sampling, args.json, env)?;
        let prompt = prompt::read(args.prompt.as_deref(), args.prompt_file.as_deref())?;
        Ok(Self {
            pair,
            prompt,
            system: args.system.clone(),
            chat_template: !args.no_chat_template,
            max_tokens,
            stop,
            sampling,
            check: args.check,
            json: args.json,
            options,
        })
    }
}

/// A valid `dflash benchmark --curve`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct BenchmarkRequest {
    /// Which models.
    pub pair: PairChoice,
    /// Whether to print one JSON object instead of tables.
    pub json: bool,
    /// The shared settings.
    pub options: Options,
}

impl BenchmarkRequest {
    /// Validates the arguments.
    pub fn read(args: &BenchmarkArgs, env: &Environment) -> Outcome<Self> {
        if !args.curve {
            return Err(Failure::usage("only the curve of step times is built so far")
                .hint("pass it: `dflash benchmark --curve`"));
        }
        Ok(Self {
            options: Options::resolve(&args.pair, &args.runtime, env)?,
            pair: PairChoice::of(args.pair.model.as_deref(), args.pair.draft.as_deref())?,
            json: args.json,
        })
    }
}

/// A valid `dflash doctor`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DoctorRequest {
    /// Which models.
    pub pair: PairChoice,
    /// Whether to print one JSON object instead of text.
    pub json: bool,
    /// Whether a warning counts as a failure.
    pub strict: bool,
    /// The shared settings, or what is wrong with them: that is a finding of the doctor's, and the
    /// other checks still run.
    pub options: Outcome<Options>,
}

impl DoctorRequest {
    /// Validates the arguments.
    pub fn read(args: &DoctorArgs, env: &Environment) -> Outcome<Self> {
        Ok(Self {
            pair: PairChoice::of(args.pair.model.as_deref(), args.pair.draft.as_deref())?,
            json: args.json,
            strict: args.strict,
            options: Options::resolve(&args.pair, &args.runtime, env),
        })
    }
}
