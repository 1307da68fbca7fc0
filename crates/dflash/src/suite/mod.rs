//! Prompts to measure with: the built-in ones, published datasets of the Hub, long contexts, or the user's own.
//!
//! Which prompts a request selects, and in which order, is the same on every machine.

pub mod aime;
mod args;
mod category;
mod dataset;
mod lines;
mod long_context;
mod order;
mod parquet;
mod prompt;
mod random;
mod request;
mod source;

pub use args::SuiteArgs;
pub use category::Category;
pub use dataset::Dataset;
pub use prompt::Prompt;
pub use request::SuiteRequest;
pub use source::Source;

use crate::env::Environment;
use crate::options::Options;
use crate::progress::Progress;
use crate::report::Outcome;

/// The prompts of a request, at least one. Only a dataset that is not in the Hub's cache reaches the network, and not
/// where `options` forbid it.
pub fn prompts(
    request: &SuiteRequest,
    options: &Options,
    env: &Environment,
    progress: Progress,
) -> Outcome<Vec<Prompt>> {
    let all = match request.source() {
        Source::Smoke => category::first_of_each(),
        Source::Builtin => category::round_robin(),
        Source::Category(category) => category.prompts(),
        Source::Dataset(dataset) => dataset.prompts(options, env, progress)?,
        Source::LongContext { tokens } => long_context::prompts(*tokens),
        Source::Text(text) => vec![Prompt::plain("prompt", "prompt", text)],
        Source::File(path) => lines::read_file(path)?,
    };
    Ok(order::select(all, request.limit(), request.seed()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{PairArgs, RuntimeArgs};

    fn ids(args: SuiteArgs) -> Vec<String> {
        let env = Environment::default();
        let options = Options::resolve(&PairArgs::default(), &RuntimeArgs::default(), &env).unwrap();
        let request = SuiteRequest::read(&args, &env).unwrap();
        let prompts = prompts(&request, &options, &env, Progress::Silent).unwrap();
        prompts.into_iter().map(|prompt| prompt.id).collect()
    }

    fn suite(name: &str) -> SuiteArgs {
        SuiteArgs { suite: Some(name.to_owned()), ..SuiteArgs::default() }
    }

    #[test]
    fn smoke_is_the_first_of_every_category_and_how_builtin_begins() {
        let smoke = ids(SuiteArgs::default());
        let firsts = Category::ALL.map(|category| format!("{}-1", category.name()));
        assert_eq!(smoke, firsts);
        let limit = SuiteArgs { limit: Some("8".to_owned()), ..suite("builtin") };
        assert_eq!(ids(limit), smoke);
    }

    #[test]
    fn a_category_is_a_suite_and_builtin_has_all_of_them() {
        let mut all = ids(suite("builtin"));
        let mut each: Vec<String> =
            Category::ALL.iter().flat_map(|category| ids(suite(category.name()))).collect();
        all.sort();
        each.sort();
        assert_eq!(all, each);
    }

    #[test]
    fn a_seed_gives_one_order() {
        let shuffled =
            |seed: &str| ids(SuiteArgs { shuffle: true, seed: Some(seed.to_owned()), ..suite("builtin") });
        let (first, second) = (shuffled("1"), shuffled("2"));
        assert_eq!(first, shuffled("1"));
        assert_ne!(first, second);
        assert_ne!(first, ids(suite("builtin")));
    }

    #[test]
    fn a_text_is_a_suite_of_one() {
        assert_eq!(ids(SuiteArgs { prompt: Some("Hello".to_owned()), ..SuiteArgs::default() }), ["prompt"]);
    }

    #[test]
    fn a_long_context_is_one_prompt_unless_more_are_asked_for() {
        assert_eq!(ids(suite("longctx")), ["longctx-0"]);
        let more = SuiteArgs { limit: Some("3".to_owned()), ..suite("longctx") };
        assert_eq!(ids(more), ["longctx-0", "longctx-1", "longctx-2"]);
    }
}
