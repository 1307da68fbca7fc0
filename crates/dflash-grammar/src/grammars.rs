use std::fmt;
use std::sync::{Arc, OnceLock};

use dflash_text::Tokenizer;
use llguidance::earley::SlicedBiasComputer;
use llguidance::{Matcher, ParserFactory};
use toktrie::{InferenceCapabilities, TokEnv};

use crate::compile::{compile, limits, refused};
use crate::vocabulary::Vocabulary;
use crate::{Constraint, GrammarError, GrammarGuard, Reasoning};

/// What all constrained requests to a model share: the trie of its vocabulary, built for the first of them.
///
/// A clone shares it too.
#[derive(Clone)]
pub struct Grammars {
    shared: Arc<Shared>,
}

struct Shared {
    tokenizer: Tokenizer,
    stop_ids: Arc<[u32]>,
    factory: OnceLock<Result<ParserFactory, GrammarError>>,
}

impl Grammars {
    /// For a model with `tokenizer`, whose answers end with any of `stop_ids`. Costs nothing yet.
    pub fn new(tokenizer: &Tokenizer, stop_ids: &[u32]) -> Self {
        let shared =
            Shared { tokenizer: tokenizer.clone(), stop_ids: stop_ids.into(), factory: OnceLock::new() };
        Self { shared: Arc::new(shared) }
    }

    /// A guard at the beginning of an answer that must fit `constraint`, after `reasoning` where there may be some.
    ///
    /// It takes from under a millisecond to a second, so do not call it where ids are decoded.
    ///
    /// # Errors
    ///
    /// Where the constraint cannot be honoured or would take more time or memory than a request may.
    pub fn guard(
        &self,
        constraint: &Constraint,
        reasoning: Option<&Reasoning>,
    ) -> Result<GrammarGuard, GrammarError> {
        let factory = self.factory()?;
        let parser = compile(factory, &self.shared.tokenizer, constraint, reasoning)?;
        let guard = GrammarGuard::new(Matcher::new(Ok(parser)), Arc::clone(&self.shared.stop_ids));
        guard.map_err(|words| refused(constraint, &words))
    }

    fn factory(&self) -> Result<&ParserFactory, GrammarError> {
        let Shared { tokenizer, stop_ids, factory } = &*self.shared;
        factory.get_or_init(|| build(tokenizer, stop_ids)).as_ref().map_err(Clone::clone)
    }
}

fn build(tokenizer: &Tokenizer, stop_ids: &[u32]) -> Result<ParserFactory, GrammarError> {
    let unusable = |reason: String| GrammarError::Vocabulary { reason };
    if tokenizer.vocab_len() == 0 {
        return Err(unusable("it is empty".into()));
    }
    let env: TokEnv = Arc::new(Vocabulary::new(tokenizer, stop_ids));
    let slices = SlicedBiasComputer::general_slices();
    let factory = ParserFactory::new(&env, InferenceCapabilities::default(), &slices);
    let mut factory = factory.map_err(|error| unusable(error.to_string()))?;
    factory.quiet();
    *factory.limits_mut() = limits();
    Ok(factory)
}

impl fmt::Debug for Grammars {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Grammars").field("tokenizer", &self.shared.tokenizer).finish_non_exhaustive()
    }
}
