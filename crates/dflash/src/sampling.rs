//! The sampling flags of `generate` as meant.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};

use dflash_engine::sampling::{Field, MOST_ALTERNATIVES};
use dflash_engine::{Sampling, SamplingParams};

use crate::cli::SamplingArgs;
use crate::env::Environment;
use crate::report::{Failure, Outcome};
use crate::setting::{Names, whole_number};

/// How ids are chosen, and what is told of it.
#[derive(Debug, Clone, PartialEq)]
pub struct SamplingChoice {
    /// Valid parameters; where something is drawn and no seed was given, with one drawn by lot.
    pub params: SamplingParams,
    /// Alternatives to tell with every token, with its log-probability; `None` tells nothing.
    pub logprobs: Option<usize>,
}

impl SamplingChoice {
    /// Validates the flags; `json` is where log-probabilities can be told.
    pub fn read(args: &SamplingArgs, json: bool, env: &Environment) -> Outcome<Self> {
        let float = |flag, typed, field, default| read(flag, typed, env, default, number(field));
        let default = Sampling::default();
        let sampling = Sampling {
            temperature: float("--temp", &args.temp, Field::Temperature, default.temperature)?,
            top_k: read("--top-k", &args.top_k, env, default.top_k, whole_number(0))?,
            top_p: float("--top-p", &args.top_p, Field::TopP, default.top_p)?,
            min_p: float("--min-p", &args.min_p, Field::MinP, default.min_p)?,
            repetition_penalty: float(
                "--repetition-penalty",
                &args.repetition_penalty,
                Field::RepetitionPenalty,
                default.repetition_penalty,
            )?,
            presence_penalty: float(
                "--presence-penalty",
                &args.presence_penalty,
                Field::PresencePenalty,
                default.presence_penalty,
            )?,
            frequency_penalty: float(
                "--frequency-penalty",
                &args.frequency_penalty,
                Field::FrequencyPenalty,
                default.frequency_penalty,
            )?,
            logit_bias: logit_bias(&args.logit_bias, env)?,
            seed: read("--seed", &args.seed, env, None, seed)?.unwrap_or_else(any_seed),
        };
        refuse_what_does_nothing(args, &sampling)?;
        let logprobs = read("--logprobs", &args.logprobs, env, None, alternatives)?;
        if logprobs.is_some() && !json {
            return Err(Failure::usage("--logprobs needs --json")
                .cause("standard output is the text alone")
                .hint("pass --json too, or leave --logprobs out"));
        }
        // Every field was checked by the rule that is applied here.
        let params = SamplingParams::new(sampling).map_err(|error| Failure::usage(error.to_string()))?;
        Ok(Self { params, logprobs })
    }

    /// The seed, where the answer depends on it.
    pub fn seed(&self) -> Option<u64> {
        (!self.params.is_greedy()).then_some(self.params.seed)
    }
}

fn read<T>(
    flag: &'static str,
    typed: &Option<String>,
    env: &Environment,
    default: T,
    parse: impl Fn(&str) -> Result<T, String>,
) -> Outcome<T> {
    Names::flag(flag).resolve(typed.as_deref(), env, default, parse).map(|setting| setting.value)
}

/// A flag that is taken and has no effect is a mistake; one who asks for temperature 0 by name knows.
fn refuse_what_does_nothing(args: &SamplingArgs, sampling: &Sampling) -> Outcome<()> {
    let idle = [
        ("--top-p", sampling.top_p < 1.0),
        ("--top-k", sampling.top_k > 1),
        ("--min-p", sampling.min_p > 0.0),
        ("--seed", args.seed.is_some()),
    ];
    match idle.iter().find(|(_, set)| *set && args.temp.is_none()) {
        Some((flag, _)) => Err(Failure::usage(format!("{flag} needs --temp"))
            .cause("at temperature 0, the default, the most probable token is taken and nothing is drawn")
            .hint(format!("pass a temperature, as in --temp 0.7, or leave {flag} out"))),
        None => Ok(()),
    }
}

fn number(field: Field) -> impl Fn(&str) -> Result<f64, String> {
    move |text| match text.parse::<f64>() {
        Ok(value) if field.accepts(value) => Ok(value),
        _ => Err(field.valid().to_owned()),
    }
}

fn seed(text: &str) -> Result<Option<u64>, String> {
    text.parse().map(Some).map_err(|_| format!("a whole number from 0 to {}", u64::MAX))
}

fn alternatives(text: &str) -> Result<Option<usize>, String> {
    match text.parse() {
        Ok(count @ 0..=MOST_ALTERNATIVES) => Ok(Some(count)),
        _ => Err(format!("a whole number from 0 to {MOST_ALTERNATIVES}")),
    }
}

/// Short enough to be typed again.
fn any_seed() -> u64 {
    RandomState::new().hash_one(0) & u64::from(u32::MAX)
}

fn logit_bias(typed: &[String], env: &Environment) -> Outcome<BTreeMap<u32, f64>> {
    let mut biases = BTreeMap::new();
    for text in typed {
        let read = Names::flag("--logit-bias").resolve(Some(text), env, None, |text| bias(text).map(Some))?;
        if let Some((id, bias)) = read.value
            && biases.insert(id, bias).is_some()
        {
            return Err(Failure::usage(format!("--logit-bias names token {id} twice"))
                .hint("give each token one bias"));
        }
    }
    Ok(biases)
}

fn bias(text: &str) -> Result<(u32, f64), String> {
    let parts = text
        .split_once('=')
        .and_then(|(id, bias)| Some((id.trim().parse().ok()?, number(Field::LogitBias)(bias.trim()).ok()?)));
    parts.ok_or_else(|| format!("ID=BIAS: a token id and {}", Field::LogitBias.valid()))
}
