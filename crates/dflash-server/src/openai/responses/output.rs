use std::collections::HashMap;

use serde_json::{Value, json};

use crate::generation::Piece;

/// The output items of a response as they grow: pieces in, stream events out.
///
/// Events have neither a sequence number nor the response yet: [`super::response`] adds them.
#[derive(Debug, Default)]
pub struct Output {
    items: Vec<Item>,
    /// Whether the last item may still grow.
    open: bool,
    /// Group and name of functions that are in a group, by what the model calls them.
    grouped: HashMap<String, (String, String)>,
}

#[derive(Debug)]
struct Item {
    kind: ItemKind,
    id: String,
    /// Thoughts, text, or the arguments of a call as JSON.
    text: String,
    status: Status,
}

#[derive(Debug, PartialEq, Eq)]
enum ItemKind {
    Reasoning,
    Message,
    Call { call_id: String, namespace: Option<String>, name: String },
}

/// Of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// It grows.
    InProgress,
    /// It is whole.
    Completed,
    /// It was cut.
    Incomplete,
}

impl Output {
    /// Nothing yet; `grouped` has group and name of functions that are in a group, by what the model calls them.
    pub fn new(grouped: HashMap<String, (String, String)>) -> Self {
        Self { grouped, ..Self::default() }
    }

    /// Takes more of the answer.
    pub fn push(&mut self, piece: Piece) -> Vec<Value> {
        match piece {
            Piece::Reasoning(text) => self.text(ItemKind::Reasoning, &text),
            Piece::Content(text) => self.text(ItemKind::Message, &text),
            Piece::CallStart { name, .. } => self.call(name),
            Piece::CallArguments { json, .. } => self.grow(&json),
            Piece::CallEnd { .. } => self.close(Status::Completed),
        }
    }

    /// No more comes to the last item.
    pub fn close(&mut self, status: Status) -> Vec<Value> {
        if !std::mem::take(&mut self.open) {
            return Vec::new();
        }
        let index = self.items.len() - 1;
        let item = &mut self.items[index];
        item.status = status;
        let mut events = item.done(index);
        events.push(
            json!({"type": "response.output_item.done", "output_index": index, "item": item.to_json()}),
        );
        events
    }

    /// All items.
    pub fn to_json(&self) -> Value {
        self.items.iter().map(Item::to_json).collect()
    }

    /// The text of all messages.
    pub fn message_text(&self) -> String {
        let messages = self.items.iter().filter(|item| item.kind == ItemKind::Message);
        messages.map(|item| item.text.as_str()).collect()
    }

    fn text(&mut self, kind: ItemKind, text: &str) -> Vec<Value> {
        if text.is_empty() {
            return Vec::new();
        }
        let mut events = Vec::new();
        if !self.open || self.items.last().is_none_or(|item| item.kind != kind) {
            events = self.start(kind);
        }
        events.extend(self.grow(text));
        events
    }

    fn call(&mut self, name: String) -> Vec<Value> {
        let (namespace, name) = match self.grouped.get(&name) {
            Some((namespace, name)) => (Some(namespace.clone()), name.clone()),
            None => (None, name),
        };
        self.start(ItemKind::Call { call_id: fresh_id("call"), namespace, name })
    }

    fn start(&mut self, kind: ItemKind) -> Vec<Value> {
        let mut events = self.close(Status::Completed);
        let item = Item::new(kind);
        let index = self.items.len();
        let mut announced = item.to_json();
        let part = item.part();
        if part.is_some() {
            announced["content"] = json!([]);
        }
        events.push(json!({"type": "response.output_item.added", "output_index": index, "item": announced}));
        events.extend(part.map(|part| item.event("response.content_part.added", index, &[("part", part)])));
        self.items.push(item);
        self.open = true;
        events
    }

    /// Adds to the last item, which has been started.
    fn grow(&mut self, text: &str) -> Vec<Value> {
        let index = self.items.len() - 1;
        self.items[index].text += text;
        vec![self.items[index].delta(index, text)]
    }
}

impl Item {
    fn new(kind: ItemKind) -> Self {
        let id = fresh_id(match kind {
            ItemKind::Reasoning => "rs",
            ItemKind::Message => "msg",
            ItemKind::Call { .. } => "fc",
        });
        Self { kind, id, text: String::new(), status: Status::InProgress }
    }

    fn to_json(&self) -> Value {
        let Self { id, text, .. } = self;
        let status = self.status.name();
        match &self.kind {
            ItemKind::Reasoning => {
                json!({"id": id, "type": "reasoning", "status": status, "summary": [], "content": [self.part()]})
            }
            ItemKind::Message => {
                json!({"id": id, "type": "message", "status": status, "role": "assistant", "content": [self.part()]})
            }
            ItemKind::Call { call_id, namespace, name } => {
                let mut item = json!({
                    "id": id, "type": "function_call", "status": status, "call_id": call_id, "name": name, "arguments": text,
                });
                if let Some(namespace) = namespace {
                    item["namespace"] = namespace.as_str().into();
                }
                item
            }
        }
    }

    /// The one part of an item that has parts.
    fn part(&self) -> Option<Value> {
        match self.kind {
            ItemKind::Reasoning => Some(json!({"type": "reasoning_text", "text": self.text})),
            ItemKind::Message => {
                Some(json!({"type": "output_text", "text": self.text, "annotations": [], "logprobs": []}))
            }
            ItemKind::Call { .. } => None,
        }
    }

    fn delta(&self, index: usize, text: &str) -> Value {
        match self.kind {
            ItemKind::Reasoning => {
                self.event("response.reasoning_text.delta", index, &[("delta", text.into())])
            }
            ItemKind::Message => {
                let fields = [("delta", text.into()), ("logprobs", json!([]))];
                self.event("response.output_text.delta", index, &fields)
            }
            ItemKind::Call { .. } => {
                self.event("response.function_call_arguments.delta", index, &[("delta", text.into())])
            }
        }
    }

    /// Events before the item itself is done.
    fn done(&self, index: usize) -> Vec<Value> {
        let text = Value::from(self.text.clone());
        let first = match &self.kind {
            ItemKind::Reasoning => self.event("response.reasoning_text.done", index, &[("text", text)]),
            ItemKind::Message => {
                self.event("response.output_text.done", index, &[("text", text), ("logprobs", json!([]))])
            }
            ItemKind::Call { name, .. } => {
                let fields = [("name", name.clone().into()), ("arguments", text)];
                self.event("response.function_call_arguments.done", index, &fields)
            }
        };
        let part = self.part().map(|part| self.event("response.content_part.done", index, &[("part", part)]));
        std::iter::once(first).chain(part).collect()
    }

    fn event(&self, name: &str, index: usize, fields: &[(&str, Value)]) -> Value {
        let mut event = json!({"type": name, "item_id": self.id, "output_index": index});
        if self.part().is_some() {
            event["content_index"] = 0.into();
        }
        for (field, value) in fields {
            event[*field] = value.clone();
        }
        event
    }
}

impl Status {
    /// Its name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::InProgress => "in_progress",
            Self::Completed => "completed",
            Self::Incomplete => "incomplete",
        }
    }
}

/// A fresh id with a prefix.
pub fn fresh_id(prefix: &str) -> String {
    format!("{prefix}_{}", uuid::Uuid::new_v4().simple())
}
