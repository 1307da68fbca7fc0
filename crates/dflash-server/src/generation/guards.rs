use dflash_engine::{TokenGuard, Verdict};
use dflash_grammar::{GrammarError, Guards, Reasoning, ThinkingBudget};
use dflash_text::AnswerParser;

use super::{AnswerFormat, Generation};
use crate::{ApiError, App, Kind, blocking};

/// What holds every answer of a generation to its constraint and its budget, one set for each answer. Compiling takes
/// up to a second, so it is done aside.
pub(super) async fn compile(app: &App, generation: &Generation) -> Result<Vec<Guards>, ApiError> {
    let answers = 0..generation.answers;
    if generation.constraint.is_none() && generation.thinking_budget.is_none() {
        return Ok(answers.map(|_| Guards::new()).collect());
    }
    let (app, generation) = (app.clone(), generation.clone());
    blocking(move || answers.map(|_| guards(&app, &generation)).collect()).await
}

fn guards(app: &App, generation: &Generation) -> Result<Guards, ApiError> {
    let mut guards = Guards::new();
    let reasoning = reasoning(&generation.format);
    if let Some(constraint) = &generation.constraint {
        guards.add(app.model.grammars.guard(constraint, reasoning.as_ref())?);
    }
    if let Some((budget, reasoning)) = generation.thinking_budget.zip(reasoning) {
        guards.add(ThinkingBudget::new(&app.model.tokenizer, &reasoning, budget)?);
    }
    Ok(guards)
}

fn reasoning(format: &AnswerFormat) -> Option<Reasoning> {
    Some(Reasoning { markers: format.reasoning.clone()?, begun: format.in_reasoning })
}

/// Ends an answer where its parser says so: at a stop string, after the only call that may be.
pub(super) struct EndGuard(pub AnswerParser);

impl TokenGuard for EndGuard {
    fn push(&mut self, id: u32) -> Verdict {
        self.0.push(id);
        if self.0.stopped() { Verdict::Stop { keep: true } } else { Verdict::Go }
    }
}

impl From<GrammarError> for ApiError {
    fn from(error: GrammarError) -> Self {
        let message = error.to_string();
        match error {
            GrammarError::Tools { .. } => Self::invalid("tools", message),
            GrammarError::Vocabulary { .. } => Self::new(Kind::Internal, message),
            _ => Self::invalid("response_format", message),
        }
    }
}
