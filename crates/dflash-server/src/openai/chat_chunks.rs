use dflash_engine::{Cycle, TokenLogprobs};
use serde_json::{Value, json};

use super::common::Delivery;
use super::envelope::{Envelope, call_id};
use super::finish::finish_reason;
use super::logprobs;
use super::stream::Chunks;
use super::usage::usage;
use crate::App;
use crate::generation::{Generation, Piece, Step, Summary, Usage};

/// A chat as chunks: a role, then what each choice says, then why it ended.
pub struct ChatChunks {
    app: App,
    envelope: Envelope,
    delivery: Delivery,
    tells_logprobs: bool,
    seed: Option<u64>,
    usage: Usage,
    choices: Vec<Summary>,
}

impl ChatChunks {
    /// Of a generation that begins.
    pub fn new(app: &App, envelope: Envelope, generation: &Generation, delivery: Delivery) -> Self {
        Self {
            app: app.clone(),
            envelope,
            delivery,
            tells_logprobs: generation.logprobs.is_some(),
            seed: generation.seed(),
            usage: Usage::default(),
            choices: vec![Summary::default(); generation.answers as usize],
        }
    }

    fn chunk(&self, choice: usize, delta: Value, told: Option<Value>, finish: Option<&str>) -> Value {
        let choice = json!({"index": choice, "delta": delta, "logprobs": told, "finish_reason": finish});
        self.envelope.object("chat.completion.chunk", vec![choice])
    }

    /// Ids and the text they made visible. Log-probabilities go with the first chunk, even if nothing is to be seen.
    fn tokens(&self, choice: usize, pieces: Vec<Piece>, told: &[TokenLogprobs]) -> Vec<Value> {
        let mut told = (self.tells_logprobs && !told.is_empty()).then(|| {
            let content = logprobs::of_chat(&self.app.model.tokenizer, told);
            json!({"content": content, "refusal": null})
        });
        let mut deltas = deltas(pieces);
        if deltas.is_empty() && told.is_some() {
            deltas.push(json!({"content": ""}));
        }
        deltas.into_iter().map(|delta| self.chunk(choice, delta, told.take(), None)).collect()
    }

    fn cycle(&self, choice: usize, cycle: &Cycle) -> Vec<Value> {
        if !self.delivery.live {
            return Vec::new();
        }
        let mut chunk = self.chunk(choice, json!({}), None, None);
        chunk["dflash"] = json!({"cycle": {
            "proposer": cycle.proposer,
            "width": cycle.width,
            "accepted": cycle.accepted,
            "committed": cycle.committed,
        }});
        vec![chunk]
    }
}

impl Chunks for ChatChunks {
    fn begin(&mut self) -> Vec<Value> {
        let role = || json!({"role": "assistant", "content": ""});
        (0..self.choices.len()).map(|choice| self.chunk(choice, role(), None, None)).collect()
    }

    fn step(&mut self, choice: usize, step: Step) -> Vec<Value> {
        match step {
            Step::Prefill { .. } => Vec::new(),
            Step::Cycle(cycle) => self.cycle(choice, &cycle),
            Step::Tokens { ids, pieces, logprobs } => {
                self.choices[choice].add_ids(&ids);
                self.tokens(choice, pieces, &logprobs)
            }
            Step::Finished { finish, pieces, stats, reasoning, .. } => {
                self.usage += Usage::of(&stats, reasoning);
                self.choices[choice].add_stats(&stats);
                let mut chunks = self.tokens(choice, pieces, &[]);
                let mut last = self.chunk(choice, json!({}), None, Some(finish_reason(finish)));
                last["dflash"] = self.choices[choice].to_json(self.seed);
                chunks.push(last);
                chunks
            }
        }
    }

    fn silence(&self) -> Value {
        self.chunk(0, json!({"content": ""}), None, None)
    }

    fn end(&mut self) -> Vec<Value> {
        if !self.delivery.include_usage {
            return Vec::new();
        }
        let mut chunk = self.envelope.object("chat.completion.chunk", Vec::new());
        chunk["usage"] = usage(&self.usage);
        vec![chunk]
    }
}

/// Deltas in order; neighbours of one kind go together.
fn deltas(pieces: Vec<Piece>) -> Vec<Value> {
    let mut deltas: Vec<Value> = Vec::new();
    let text = |deltas: &mut Vec<Value>, field: &str, text: String| match deltas
        .last_mut()
        .and_then(|last| last.get_mut(field))
    {
        Some(Value::String(said)) => *said += &text,
        _ => deltas.push(json!({field: text})),
    };
    for piece in pieces {
        match piece {
            Piece::Reasoning(said) => text(&mut deltas, "reasoning_content", said),
            Piece::Content(said) => text(&mut deltas, "content", said),
            Piece::CallStart { index, name } => {
                let function = json!({"name": name, "arguments": ""});
                let call = json!({"index": index, "id": call_id(), "type": "function", "function": function});
                deltas.push(json!({"tool_calls": [call]}));
            }
            Piece::CallArguments { index, json } => {
                let call = json!({"index": index, "function": {"arguments": json}});
                deltas.push(json!({"tool_calls": [call]}));
            }
            Piece::CallEnd { .. } => {}
        }
    }
    deltas
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_become_deltas_in_order() {
        let content = |text: &str| Piece::Content(text.to_owned());
        let pieces = vec![
            Piece::Reasoning("hm".to_owned()),
            content("a"),
            content("b"),
            Piece::CallStart { index: 0, name: "f".to_owned() },
            Piece::CallArguments { index: 0, json: "{}".to_owned() },
            Piece::CallEnd { index: 0 },
            content("c"),
        ];
        let mut deltas = deltas(pieces);
        let id = deltas[2]["tool_calls"][0]["id"].take();
        assert!(id.as_str().unwrap().starts_with("call_"));
        assert_eq!(
            Value::Array(deltas),
            json!([
                {"reasoning_content": "hm"},
                {"content": "ab"},
                {"tool_calls": [{"index": 0, "id": null, "type": "function", "function": {"name": "f", "arguments": ""}}]},
                {"tool_calls": [{"index": 0, "function": {"arguments": "{}"}}]},
                {"content": "c"},
            ])
        );
    }
}
