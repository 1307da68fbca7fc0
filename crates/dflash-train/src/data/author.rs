use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Mutex;

use dflash_engine::{EngineHandle, Event, FinishReason, Request, Sampling, SamplingParams};

use super::loops::LoopGuard;
use super::make::SHORTEST;
use super::starters::starter;
use super::{DataOptions, Prompts, Turn};
use crate::{Sequence, TrainError};

/// Ids that the target adds to a starter at most.
const PROMPT_TOKENS: usize = 64;
/// Ids without this share of the best one's probability are not sampled: they begin nonsense.
const MIN_P: f64 = 0.05;

/// Makes sequences, on any thread.
pub(super) struct Author<'a> {
    pub(super) engine: &'a EngineHandle,
    pub(super) turn: &'a Turn<'a>,
    pub(super) prompts: &'a Prompts,
    pub(super) stop_ids: &'a [u32],
    pub(super) options: &'a DataOptions,
    /// Hashes of the prompts and answers that are there already.
    pub(super) known: Mutex<HashSet<u64>>,
    /// Whether to give up what is not complete.
    pub(super) ended: &'a (dyn Fn() -> bool + Sync),
}

/// What became of a prompt.
pub(super) enum Outcome {
    Made(Sequence),
    /// A duplicate, or nothing worth learning.
    Dropped(u64),
    /// The work was ended.
    Ended,
}

impl Author<'_> {
    /// Prompt `number` and its answer.
    pub(super) fn sequence(&self, number: u64) -> Result<Outcome, TrainError> {
        let Some((category, text)) = self.prompt(number)? else { return Ok(self.nothing(number)) };
        let prompt = self.turn.prompt(&text)?;
        // One that leaves no room for an answer is nothing to learn from.
        if prompt.len() + SHORTEST > self.options.context || !self.is_new(&prompt) {
            return Ok(Outcome::Dropped(number));
        }
        let mut request = Request::new(prompt.clone(), self.options.max_tokens);
        request.stop_ids = self.stop_ids.to_vec();
        request.guard = Some(Box::new(LoopGuard::new()));
        let Some((answer, _)) = self.ids(request)? else { return Ok(self.nothing(number)) };
        if answer.len() < SHORTEST || !self.is_new(&answer) {
            return Ok(Outcome::Dropped(number));
        }
        let ids = [&prompt[..], &answer].concat();
        Ok(Outcome::Made(Sequence { source: number, category, ids, prompt: prompt.len() }))
    }

    fn nothing(&self, number: u64) -> Outcome {
        if (self.ended)() { Outcome::Ended } else { Outcome::Dropped(number) }
    }

    fn is_new(&self, ids: &[u32]) -> bool {
        self.known.lock().expect("no holder panics").insert(hash(ids))
    }

    fn prompt(&self, number: u64) -> Result<Option<(String, String)>, TrainError> {
        match self.prompts {
            Prompts::Listed(prompts) => {
                let prompt = &prompts[number as usize];
                Ok(Some((prompt.category.clone(), prompt.prompt.clone())))
            }
            Prompts::SelfMade => self.self_made(number),
        }
    }

    /// A starter, continued by the target in the user's place at temperature 1.
    fn self_made(&self, number: u64) -> Result<Option<(String, String)>, TrainError> {
        let (category, starter) = starter(number);
        let mut request = Request::new(self.turn.open(&starter)?, PROMPT_TOKENS);
        request.stop_ids = self.stop_ids.to_vec();
        request.stop_ids.push(self.turn.end());
        let seed = self.options.seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let sampling = Sampling { temperature: 1.0, min_p: MIN_P, seed, ..Sampling::default() };
        request.sampling = SamplingParams::new(sampling).expect("these values are valid");
        let Some((ids, reason)) = self.ids(request)? else { return Ok(None) };
        let whole = format!("{starter}{}", self.turn.text(&ids));
        let text = match reason {
            FinishReason::Stop => Some(whole.trim()),
            FinishReason::Length => whole.rfind(['.', '?', '!', ':']).map(|end| whole[..=end].trim()),
        };
        let text = text.filter(|text| text.len() > starter.trim().len());
        Ok(text.map(|text| (category.to_owned(), text.to_owned())))
    }

    /// The ids of a request and why they end; `None` where the work was ended first.
    fn ids(&self, request: Request) -> Result<Option<(Vec<u32>, FinishReason)>, TrainError> {
        let mut ids = Vec::new();
        for event in self.engine.submit(request)? {
            match event {
                Event::Tokens(more) => ids.extend(more),
                Event::Finished { reason, .. } => return Ok(Some((ids, reason))),
                Event::Failed(error) => return Err(error.into()),
                _ => {}
            }
            if (self.ended)() {
                break;
            }
        }
        Ok(None)
    }
}

/// For telling duplicates.
pub(super) fn hash(ids: &[u32]) -> u64 {
    let mut hasher = DefaultHasher::new();
    ids.hash(&mut hasher);
    hasher.finish()
}
