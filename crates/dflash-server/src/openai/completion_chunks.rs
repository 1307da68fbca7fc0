use dflash_engine::TokenLogprobs;
use serde_json::{Value, json};

use super::common::Delivery;
use super::envelope::Envelope;
use super::finish::finish_reason;
use super::logprobs;
use super::stream::Chunks;
use super::usage::usage;
use crate::App;
use crate::generation::{Generation, Piece, Step, Summary, Usage};

/// Plain completions as chunks: what each choice says, then why it ended.
pub struct CompletionChunks {
    app: App,
    envelope: Envelope,
    delivery: Delivery,
    answers: usize,
    tells_logprobs: bool,
    seed: Option<u64>,
    /// Of every prompt.
    usages: Vec<Usage>,
    choices: Vec<Choice>,
}

#[derive(Clone, Default)]
struct Choice {
    summary: Summary,
    /// Characters of the tokens so far.
    offset: usize,
}

impl CompletionChunks {
    /// Of generations that begin; they differ in their prompts alone.
    pub fn new(app: &App, envelope: Envelope, generations: &[Generation], delivery: Delivery) -> Self {
        let answers = generations[0].answers as usize;
        Self {
            app: app.clone(),
            envelope,
            delivery,
            answers,
            tells_logprobs: generations[0].logprobs.is_some(),
            seed: generations[0].seed(),
            usages: vec![Usage::default(); generations.len()],
            choices: vec![Choice::default(); generations.len() * answers],
        }
    }

    fn chunk(&self, choice: usize, text: &str, told: Option<Value>, finish: Option<&str>) -> Value {
        let choice = json!({"index": choice, "text": text, "logprobs": told, "finish_reason": finish});
        self.envelope.object("text_completion", vec![choice])
    }

    fn tokens(&mut self, choice: usize, pieces: Vec<Piece>, told: &[TokenLogprobs]) -> Option<Value> {
        let said: String = pieces.into_iter().filter_map(text).collect();
        let told = (self.tells_logprobs && !told.is_empty()).then(|| {
            let offset = &mut self.choices[choice].offset;
            logprobs::of_completion(&self.app.model.tokenizer, told, offset)
        });
        (!said.is_empty() || told.is_some()).then(|| self.chunk(choice, &said, told, None))
    }
}

impl Chunks for CompletionChunks {
    fn begin(&mut self) -> Vec<Value> {
        Vec::new()
    }

    fn step(&mut self, choice: usize, step: Step) -> Vec<Value> {
        match step {
            Step::Prefill { .. } | Step::Cycle(_) => Vec::new(),
            Step::Tokens { ids, pieces, logprobs } => {
                self.choices[choice].summary.add_ids(&ids);
                self.tokens(choice, pieces, &logprobs).into_iter().collect()
            }
            Step::Finished { finish, pieces, stats, reasoning, .. } => {
                self.usages[choice / self.answers] += Usage::of(&stats, reasoning);
                self.choices[choice].summary.add_stats(&stats);
                let rest = self.tokens(choice, pieces, &[]);
                let mut last = self.chunk(choice, "", None, Some(finish_reason(finish)));
                last["dflash"] = self.choices[choice].summary.to_json(self.seed);
                rest.into_iter().chain([last]).collect()
            }
        }
    }

    fn silence(&self) -> Value {
        self.chunk(0, "", None, None)
    }

    fn end(&mut self) -> Vec<Value> {
        if !self.delivery.include_usage {
            return Vec::new();
        }
        let total = self.usages.iter().copied().fold(Usage::default(), Usage::with_prompt);
        let mut chunk = self.envelope.object("text_completion", Vec::new());
        chunk["usage"] = usage(&total);
        vec![chunk]
    }
}

/// There is nothing else in a plain completion.
fn text(piece: Piece) -> Option<String> {
    match piece {
        Piece::Content(text) => Some(text),
        _ => None,
    }
}
