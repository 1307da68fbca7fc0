use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use super::source::LONG_CONTEXT;
use super::{Source, SuiteArgs};
use crate::env::Environment;
use crate::report::{Failure, Outcome};
use crate::setting::{Names, whole_number};

/// Which prompts are wanted, validated: made by [`SuiteRequest::read`] only. As JSON it is what a report says of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SuiteRequest {
    source: Source,
    limit: Option<usize>,
    seed: Option<u64>,
}

const SUITE: Names = Names::flag("--suite");
const LIMIT: Names = Names::flag("--limit");
const CONTEXT: Names = Names::flag("--ctx-tokens");
const SEED: Names = Names::flag("--seed");
/// Room for a text and its task.
const SHORTEST_CONTEXT: usize = 256;
/// More than any published model takes.
const LONGEST_CONTEXT: usize = 1 << 24;

impl SuiteRequest {
    /// Validates the arguments. No file is opened yet.
    pub fn read(args: &SuiteArgs, env: &Environment) -> Outcome<Self> {
        let source = source(args, env)?;
        let limit = source.limit();
        Ok(Self {
            limit: LIMIT
                .resolve(args.limit.as_deref(), env, limit, |text| whole_number(1)(text).map(Some))?
                .value,
            seed: args.shuffle.then(|| seed(args, env)).transpose()?,
            source,
        })
    }

    /// What the suite is called in reports and in the names of their folders.
    pub fn name(&self) -> &'static str {
        self.source.name()
    }

    /// Where the prompts come from.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// Most prompts; `None` is all.
    pub fn limit(&self) -> Option<usize> {
        self.limit
    }

    /// What decides their order; `None` is the suite's own order.
    pub fn seed(&self) -> Option<u64> {
        self.seed
    }

    /// Tokens that an answer may have, unless more or fewer are asked for.
    pub fn default_max_tokens(&self) -> usize {
        self.source.max_tokens()
    }
}

impl Serialize for SuiteRequest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("SuiteRequest", 7)?;
        fields.serialize_field("suite", self.name())?;
        fields.serialize_field("limit", &self.limit)?;
        fields.serialize_field("shuffle", &self.seed.is_some())?;
        fields.serialize_field("seed", &self.seed)?;
        let (mut dataset, mut tokens, mut file) = (None, None, None);
        match &self.source {
            Source::Dataset(published) => dataset = Some(published.repo()),
            Source::LongContext { tokens: length } => tokens = Some(*length),
            // A path need not be UTF-8, and a report must not fail for that.
            Source::File(path) => file = Some(path.to_string_lossy()),
            _ => {}
        }
        fields.serialize_field("dataset", &dataset)?;
        fields.serialize_field("ctx_tokens", &tokens)?;
        fields.serialize_field("prompt_file", &file)?;
        fields.end()
    }
}

fn source(args: &SuiteArgs, env: &Environment) -> Outcome<Source> {
    let SuiteArgs { suite, ctx_tokens, prompt, prompt_file, .. } = args;
    match (prompt, prompt_file) {
        (Some(text), _) if text.trim().is_empty() => {
            Err(Failure::usage("the prompt is empty").hint("give --prompt TEXT, or leave it out for a suite"))
        }
        (Some(text), _) => Ok(Source::Text(text.clone())),
        (None, Some(path)) => Ok(Source::File(path.clone())),
        (None, None) => named(suite.as_deref(), ctx_tokens.as_deref(), env),
    }
}

/// A suite; a length chooses the one that has lengths.
fn named(suite: Option<&str>, ctx_tokens: Option<&str>, env: &Environment) -> Outcome<Source> {
    let default = if ctx_tokens.is_some() { LONG_CONTEXT } else { "smoke" };
    let parse = |name: &str| Source::named(name).ok_or_else(one_of);
    let source = SUITE.resolve(Some(suite.unwrap_or(default)), env, Source::Smoke, parse)?.value;
    match (source, ctx_tokens) {
        (Source::LongContext { tokens }, typed) => {
            Ok(Source::LongContext { tokens: CONTEXT.resolve(typed, env, tokens, length)?.value })
        }
        (source, None) => Ok(source),
        (source, Some(_)) => Err(Failure::usage(format!(
            "--ctx-tokens is for the suite {LONG_CONTEXT}, not for {}",
            source.name()
        ))
        .hint(format!("leave it out, or take --suite {LONG_CONTEXT}"))),
    }
}

fn one_of() -> String {
    format!("one of {}", Source::names().collect::<Vec<_>>().join(", "))
}

fn length(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(tokens @ SHORTEST_CONTEXT..=LONGEST_CONTEXT) => Ok(tokens),
        _ => Err(format!("a whole number from {SHORTEST_CONTEXT} to {LONGEST_CONTEXT}")),
    }
}

fn seed(args: &SuiteArgs, env: &Environment) -> Outcome<u64> {
    let parse = |text: &str| text.parse().map_err(|_| "a whole number, 0 or more".to_owned());
    Ok(SEED.resolve(args.seed.as_deref(), env, 0, parse)?.value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(args: &[(&str, &str)]) -> Outcome<SuiteRequest> {
        let text =
            |name: &str| args.iter().find(|(flag, _)| *flag == name).map(|(_, value)| (*value).to_owned());
        let args = SuiteArgs {
            suite: text("suite"),
            limit: text("limit"),
            ctx_tokens: text("ctx-tokens"),
            prompt_file: text("prompt-file").map(Into::into),
            prompt: text("prompt"),
            shuffle: text("seed").is_some(),
            seed: text("seed"),
        };
        SuiteRequest::read(&args, &Environment::default())
    }

    #[test]
    fn defaults_follow_the_suite() {
        for (args, name, limit, max_tokens) in [
            (&[][..], "smoke", None, 64),
            (&[("suite", "builtin")], "builtin", None, 64),
            (&[("suite", "copy"), ("limit", "3")], "copy", Some(3), 64),
            (&[("suite", "longctx")], "longctx", Some(1), 64),
            (&[("suite", "humaneval")], "humaneval", Some(10), 64),
            (&[("suite", "aime25")], "aime25", Some(30), 65_536),
            (&[("ctx-tokens", "4096")], "longctx", Some(1), 64),
            (&[("prompt", "Hi")], "prompt", None, 64),
            (&[("prompt-file", "p.jsonl")], "prompt-file", None, 64),
        ] {
            let request = read(args).unwrap();
            assert_eq!(
                (request.name(), request.limit(), request.default_max_tokens()),
                (name, limit, max_tokens)
            );
        }
    }

    #[test]
    fn lengths_reach_the_suite_that_has_them() {
        let tokens = |args: &[(&str, &str)]| match read(args).unwrap().source {
            Source::LongContext { tokens } => tokens,
            other => panic!("{other:?}"),
        };
        assert_eq!(tokens(&[("suite", "longctx")]), 8192);
        assert_eq!(tokens(&[("suite", "longctx"), ("ctx-tokens", "300")]), 300);
        assert_eq!(tokens(&[("ctx-tokens", "300")]), 300);
    }

    #[test]
    fn what_cannot_be_obeyed_is_a_usage_error() {
        for (args, message) in [
            (&[("suite", "all")][..], "invalid value 'all' for --suite"),
            (&[("limit", "0")], "invalid value '0' for --limit"),
            (&[("limit", "-1")], "invalid value '-1' for --limit"),
            (&[("ctx-tokens", "255")], "invalid value '255' for --ctx-tokens"),
            (&[("ctx-tokens", "99999999999")], "invalid value '99999999999' for --ctx-tokens"),
            (&[("seed", "x")], "invalid value 'x' for --seed"),
            (
                &[("suite", "code"), ("ctx-tokens", "512")],
                "--ctx-tokens is for the suite longctx, not for code",
            ),
            (&[("prompt", " ")], "the prompt is empty"),
        ] {
            let failure = read(args).unwrap_err();
            assert_eq!((failure.message(), failure.exit_code()), (message, 2));
        }
    }

    #[test]
    fn the_report_says_what_was_asked_for() {
        let json = |args: &[(&str, &str)]| serde_json::to_value(read(args).unwrap()).unwrap();
        let expected = json!({"suite": "longctx", "limit": 1, "shuffle": true, "seed": 7, "dataset": null, "ctx_tokens": 512, "prompt_file": null});
        assert_eq!(json(&[("ctx-tokens", "512"), ("seed", "7")]), expected);
        let expected = json!({"suite": "prompt-file", "limit": null, "shuffle": false, "seed": null, "dataset": null, "ctx_tokens": null, "prompt_file": "p"});
        assert_eq!(json(&[("prompt-file", "p")]), expected);
        assert_eq!(json(&[("suite", "gsm8k")])["dataset"], "openai/gsm8k");
    }
}
