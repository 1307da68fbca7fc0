use std::collections::BTreeMap;

use serde::Serialize;

use super::answered::Answered;
use super::leg::Leg;
use crate::report::Outcome;
use crate::suite::aime;
use crate::text::TextPipeline;

/// How many answers are right, where the suite knows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Score {
    /// Right ones.
    pub correct: usize,
    /// Prompts with a known answer.
    pub of: usize,
}

/// By leg; `None` where no prompt has an answer.
pub fn scores(
    text: &TextPipeline,
    prompts: &[Answered<'_>],
    legs: &[Leg],
) -> Outcome<Option<BTreeMap<Leg, Score>>> {
    let mut scores = BTreeMap::new();
    for prompt in prompts {
        let Some(expected) = &prompt.question.prompt.answer else { continue };
        for &leg in legs {
            let Some(answer) = prompt.first(leg) else { continue };
            let score: &mut Score = scores.entry(leg).or_default();
            score.of += 1;
            score.correct += usize::from(aime::score(&written(text, &answer.ids)?, expected));
        }
    }
    Ok((!scores.is_empty()).then_some(scores))
}

/// The text of an answer.
fn written(text: &TextPipeline, ids: &[u32]) -> Outcome<String> {
    let mut stream = text.stream(&[])?;
    ids.iter().for_each(|&id| _ = stream.push(id));
    stream.finish();
    Ok(stream.take_text())
}
