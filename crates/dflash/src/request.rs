//! What a command was asked to do, validated: these are made by their `read` only.

use std::path::PathBuf;
use std::time::Duration;

use crate::cli::{BenchmarkArgs, DoctorArgs, GenerateArgs, PairArgs, RuntimeArgs};
use crate::env::Environment;
use crate::options::{self, Options, VerifyMode};
use crate::pair::{DraftChoice, PairChoice};
use crate::prefix::PrefixChoice;
use crate::prompt;
use crate::report::{Failure, Outcome};
use crate::sampling::SamplingChoice;
use crate::suite::SuiteRequest;

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
        let max_tokens = options::max_tokens(args.max_tokens.as_deref(), env, 2048)?.value;
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

/// A valid `dflash benchmark`.
#[derive(Debug, Clone, PartialEq)]
pub enum BenchmarkRequest {
    /// `--curve`
    Curve(CurveRequest),
    /// Prompts with and without the draft.
    Comparison(ComparisonRequest),
}

/// A valid `dflash benchmark --curve`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CurveRequest {
    /// Which models.
    pub pair: PairChoice,
    /// Whether to print one JSON object instead of tables.
    pub json: bool,
    /// The shared settings.
    pub options: Options,
}

/// A valid `dflash benchmark` of prompts.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ComparisonRequest {
    /// Which models.
    pub pair: PairChoice,
    /// Which prompts.
    pub suite: SuiteRequest,
    /// Most tokens to generate; at least 1.
    pub max_tokens: usize,
    /// Answers per prompt and leg; at least 1.
    pub repeat: usize,
    /// Pause before every answer but the first.
    pub cooldown: Duration,
    /// Whether the memory is looked at.
    pub memory: bool,
    /// Whether prompts go through the model's chat template.
    pub chat_template: bool,
    /// Whether ids that end an answer do so.
    pub eos: bool,
    /// Whether plain decoding is left out.
    pub only_dflash: bool,
    /// With which probability an oracle in the draft's place is right.
    pub oracle: Option<f64>,
    /// Where the files go.
    pub out: Option<PathBuf>,
    /// Whether to print one JSON object instead of tables.
    pub json: bool,
    /// The shared settings.
    pub options: Options,
}

impl BenchmarkRequest {
    /// Validates the arguments.
    pub fn read(args: &BenchmarkArgs, env: &Environment) -> Outcome<Self> {
        if args.curve {
            let (pair, options) = pair(&args.pair, &args.runtime, env)?;
            return Ok(Self::Curve(CurveRequest { pair, json: args.json, options }));
        }
        ComparisonRequest::read(args, env).map(Self::Comparison)
    }
}

impl ComparisonRequest {
    fn read(args: &BenchmarkArgs, env: &Environment) -> Outcome<Self> {
        let typed = &args.comparison;
        let (pair, options) = pair(&args.pair, &args.runtime, env)?;
        let suite = SuiteRequest::read(&args.suite, env)?;
        let max_tokens = suite.default_max_tokens();
        if typed.only_dflash && pair.draft == DraftChoice::None {
            return Err(Failure::usage("--only-dflash with --draft none leaves nothing to measure")
                .hint("leave one of them out"));
        }
        let drafting = [("--only-dflash", typed.only_dflash), ("--oracle", typed.oracle.is_some())];
        if let Some((flag, _)) = drafting.iter().find(|(_, typed)| *typed)
            && options.verify_mode.value == VerifyMode::Off
        {
            return Err(Failure::usage(format!("{flag} with --verify-mode off leaves nothing to measure"))
                .cause("off is plain decoding: nothing is drafted")
                .hint("leave one of them out; DFLASH_VERIFY_MODE sets the mode too"));
        }
        Ok(Self {
            max_tokens: options::max_tokens(typed.max_tokens.as_deref(), env, max_tokens)?.value,
            repeat: options::repeat(typed.repeat.as_deref(), env)?.value,
            cooldown: options::cooldown(typed.cooldown.as_deref(), env)?.value,
            memory: !typed.no_memory,
            chat_template: !typed.no_chat_template,
            eos: !typed.no_eos,
            only_dflash: typed.only_dflash,
            oracle: options::oracle(typed.oracle.as_deref(), env)?.value,
            out: typed.out.clone(),
            json: args.json,
            pair,
            suite,
            options,
        })
    }
}

fn pair(pair: &PairArgs, runtime: &RuntimeArgs, env: &Environment) -> Outcome<(PairChoice, Options)> {
    let options = Options::resolve(pair, runtime, env)?;
    Ok((PairChoice::of(pair.model.as_deref(), pair.draft.as_deref())?, options))
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
    /// What a server keeps of prompts and answers, or what is wrong with that.
    pub prefix: Outcome<PrefixChoice>,
}

impl DoctorRequest {
    /// Validates the arguments.
    pub fn read(args: &DoctorArgs, env: &Environment) -> Outcome<Self> {
        Ok(Self {
            pair: PairChoice::of(args.pair.model.as_deref(), args.pair.draft.as_deref())?,
            json: args.json,
            strict: args.strict,
            options: Options::resolve(&args.pair, &args.runtime, env),
            prefix: PrefixChoice::read(&args.prefix, env),
        })
    }
}
