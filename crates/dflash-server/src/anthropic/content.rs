use serde_json::{Map, Value, json};

use crate::generation::Piece;

/// The content blocks of a message as they grow: pieces in, stream events out.
#[derive(Debug, Default)]
pub struct Content {
    blocks: Vec<Block>,
    /// Whether the last block may still grow.
    open: bool,
}

#[derive(Debug)]
struct Block {
    kind: BlockKind,
    /// Thoughts, text, or the arguments of a call as JSON.
    text: String,
}

#[derive(Debug, PartialEq, Eq)]
enum BlockKind {
    Thinking,
    Text,
    ToolUse { id: String, name: String },
}

impl Content {
    /// Takes more of the answer.
    pub fn push(&mut self, piece: Piece) -> Vec<Value> {
        match piece {
            Piece::Reasoning(text) => self.text(BlockKind::Thinking, &text),
            Piece::Content(text) => self.text(BlockKind::Text, &text),
            Piece::CallStart { name, .. } => self.start(BlockKind::ToolUse { id: call_id(), name }),
            Piece::CallArguments { json, .. } => vec![self.grow(&json)],
            Piece::CallEnd { .. } => self.close(),
        }
    }

    /// No more comes.
    pub fn close(&mut self) -> Vec<Value> {
        if !std::mem::take(&mut self.open) {
            return Vec::new();
        }
        let index = self.blocks.len() - 1;
        let stop = json!({"type": "content_block_stop", "index": index});
        match self.blocks[index].kind {
            BlockKind::Thinking => {
                vec![self.delta(json!({"type": "signature_delta", "signature": ""})), stop]
            }
            _ => vec![stop],
        }
    }

    /// The blocks, as a complete message holds them.
    pub fn to_json(&self) -> Value {
        self.blocks.iter().map(Block::to_json).collect()
    }

    fn text(&mut self, kind: BlockKind, text: &str) -> Vec<Value> {
        if text.is_empty() {
            return Vec::new();
        }
        let mut events = Vec::new();
        if !self.open || self.blocks.last().is_none_or(|block| block.kind != kind) {
            events = self.start(kind);
        }
        events.push(self.grow(text));
        events
    }

    fn start(&mut self, kind: BlockKind) -> Vec<Value> {
        let mut events = self.close();
        let block = Block { kind, text: String::new() };
        let index = self.blocks.len();
        events.push(json!({"type": "content_block_start", "index": index, "content_block": block.to_json()}));
        self.blocks.push(block);
        self.open = true;
        events
    }

    /// Adds to the last block, which has been started.
    fn grow(&mut self, text: &str) -> Value {
        let index = self.blocks.len() - 1;
        let block = &mut self.blocks[index];
        block.text += text;
        let delta = match block.kind {
            BlockKind::Thinking => json!({"type": "thinking_delta", "thinking": text}),
            BlockKind::Text => json!({"type": "text_delta", "text": text}),
            BlockKind::ToolUse { .. } => json!({"type": "input_json_delta", "partial_json": text}),
        };
        self.delta(delta)
    }

    fn delta(&self, delta: Value) -> Value {
        json!({"type": "content_block_delta", "index": self.blocks.len() - 1, "delta": delta})
    }
}

impl Block {
    fn to_json(&self) -> Value {
        match &self.kind {
            BlockKind::Thinking => json!({"type": "thinking", "thinking": self.text, "signature": ""}),
            BlockKind::Text => json!({"type": "text", "text": self.text}),
            BlockKind::ToolUse { id, name } => {
                json!({"type": "tool_use", "id": id, "name": name, "input": input(&self.text)})
            }
        }
    }
}

/// Arguments as an object. Those that `max_tokens` cut are no JSON: the API has no place for them.
fn input(arguments: &str) -> Map<String, Value> {
    serde_json::from_str(arguments).unwrap_or_default()
}

fn call_id() -> String {
    format!("toolu_{}", uuid::Uuid::new_v4().simple())
}
