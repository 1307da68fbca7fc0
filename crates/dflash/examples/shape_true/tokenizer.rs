//! The tokenizer beside the weights, or its tables inside a GGUF file.

use std::path::Path;

use serde_json::Value;

use crate::Outcome;
use crate::gguf::Header;

/// Copies the tokenizer's files.
pub fn copy(from: &Path, to: &Path) -> Outcome<()> {
    for name in ["tokenizer.json", "tokenizer_config.json", "chat_template.jinja"] {
        if from.join(name).exists() {
            std::fs::copy(from.join(name), to.join(name))?;
        }
    }
    Ok(())
}

/// The tables of a byte-level tokenizer.
pub struct Vocabulary {
    tokens: Vec<String>,
    types: Vec<i32>,
    merges: Vec<String>,
    template: Option<String>,
    end: Option<usize>,
}

const NORMAL: i32 = 1;
const CONTROL: i32 = 3;
const UNUSED: i32 = 5;

impl Vocabulary {
    /// Reads `tokenizer.json` and `tokenizer_config.json`; names that mean nothing fill up to `size`.
    pub fn read(dir: Option<&Path>, size: usize) -> Outcome<Self> {
        let tokens = (0..size).map(|id| format!("[PAD{id}]")).collect();
        let mut vocabulary =
            Self { tokens, types: vec![UNUSED; size], merges: Vec::new(), template: None, end: None };
        if let Some(dir) = dir {
            vocabulary.fill(&json(&dir.join("tokenizer.json"))?)?;
            let config = json(&dir.join("tokenizer_config.json"))?;
            vocabulary.template = config["chat_template"].as_str().map(str::to_owned);
            let end = config["eos_token"].as_str();
            vocabulary.end = vocabulary.tokens.iter().position(|token| Some(token.as_str()) == end);
        }
        Ok(vocabulary)
    }

    fn fill(&mut self, tokenizer: &Value) -> Outcome<()> {
        let vocab = tokenizer["model"]["vocab"].as_object().ok_or("a tokenizer.json with a vocabulary")?;
        let normal = vocab.iter().map(|(token, id)| (token.as_str(), id, NORMAL));
        let added = tokenizer["added_tokens"].as_array().into_iter().flatten();
        let added = added.map(|token| (token["content"].as_str().unwrap_or_default(), &token["id"], CONTROL));
        for (token, id, kind) in normal.chain(added) {
            let id = id.as_u64().map(|id| id as usize).filter(|&id| id < self.tokens.len());
            let id = id.ok_or("the tokenizer has more ids than the model")?;
            (self.tokens[id], self.types[id]) = (token.to_owned(), kind);
        }
        let merge = |merge: &Value| match merge {
            Value::Array(pair) => pair.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" "),
            other => other.as_str().unwrap_or_default().to_owned(),
        };
        self.merges = tokenizer["model"]["merges"].as_array().into_iter().flatten().map(merge).collect();
        Ok(())
    }

    /// Adds the tables to the metadata.
    pub fn describe(&self, header: &mut Header) {
        header.text("tokenizer.ggml.model", "gpt2");
        header.text("tokenizer.ggml.pre", "qwen2");
        header.texts("tokenizer.ggml.tokens", &self.tokens);
        header.numbers("tokenizer.ggml.token_type", &self.types);
        header.texts("tokenizer.ggml.merges", &self.merges);
        if let Some(end) = self.end {
            header.size("tokenizer.ggml.eos_token_id", end);
        }
        if let Some(template) = &self.template {
            header.text("tokenizer.chat_template", template);
        }
    }
}

/// A JSON file.
pub fn json(path: &Path) -> Outcome<Value> {
    let bytes = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(serde_json::from_slice(&bytes)?)
}
