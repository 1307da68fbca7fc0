//! What constraining costs: the trie of a vocabulary, compiling, and a mask per position.
//!
//!     cargo run --release -p dflash --example mask_cost [MODEL.gguf]

use std::path::{Path, PathBuf};
use std::time::Instant;

use dflash::text::TextPipeline;
use dflash_engine::TokenGuard;
use dflash_grammar::{Constraint, GrammarGuard, Grammars, Reasoning, ToolChoice};
use dflash_models::TargetFiles;
use dflash_text::{GgufVocab, ReasoningMarkers, Tokenizer, ToolFormat};
use serde_json::json;

fn main() {
    let model = std::env::args().nth(1).map(PathBuf::from);
    let tokenizer = match &model {
        Some(path) => of_model(path),
        None => made_up(250_000),
    };
    println!("{} ids", tokenizer.vocab_len());
    let stop_ids = tokenizer.eos_ids().to_vec();
    let grammars = Grammars::new(&tokenizer, &stop_ids);
    let before = resident();
    let start = Instant::now();
    grammars.guard(&Constraint::JsonObject, None).expect("a guard");
    println!("first guard: {:.3} s, {:.1} MB", start.elapsed().as_secs_f64(), (resident() - before) / 1e6);
    let schema = json!({"type": "object", "properties": {
        "name": {"type": "string"}, "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "tags": {"type": "array", "items": {"type": "string", "maxLength": 20}, "maxItems": 5},
        "address": {"type": "object", "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
            "required": ["street", "city"], "additionalProperties": false}},
        "required": ["name", "age", "tags", "address"], "additionalProperties": false});
    let answer = r#"{"name": "Jan Novak", "age": 42, "tags": ["one", "two words"], "address": {"street": "Long street 5", "city": "Brno"}}"#;
    walk(&grammars, &tokenizer, "schema", &Constraint::JsonSchema(schema.clone()), None, answer);
    let any = r#"{"a": [1, 2.5, {"b": null}], "text": "Some longer text, with a comma.", "c": true}"#;
    walk(&grammars, &tokenizer, "any object", &Constraint::JsonObject, None, any);
    let reasoning = Reasoning {
        markers: ReasoningMarkers { open: "<think>".into(), close: "</think>".into() },
        begun: true,
    };
    let thought = format!("Let me think about that, step by step. He is 42.\n</think>\n\n{answer}");
    walk(
        &grammars,
        &tokenizer,
        "reasoning, schema",
        &Constraint::JsonSchema(schema),
        Some(&reasoning),
        &thought,
    );
    let call = "Let me look at the file first.\n<tool_call>\n{\"name\": \"tool_7\", \"arguments\": {\"path\": \"/src/main.rs\", \"text\": \"fn main() {}\\n\", \"limit\": 20}}\n</tool_call>";
    walk(&grammars, &tokenizer, "text and 20 tools", &tools(20), None, call);
}

/// A choice among tools.
fn tools(count: usize) -> Constraint {
    let parameters = json!({"type": "object", "required": ["path"], "properties": {
        "path": {"type": "string", "description": "Where"}, "text": {"type": "string"},
        "limit": {"type": "integer", "minimum": 1}, "mode": {"enum": ["read", "write", "append"]},
        "lines": {"type": "array", "items": {"type": "integer"}}, "recursive": {"type": "boolean"}}});
    let tool = |at: usize| json!({"type": "function", "function": {"name": format!("tool_{at}"), "parameters": parameters}});
    let tools = (0..count).map(tool).collect();
    Constraint::ToolCalls { format: ToolFormat::JsonTags, tools, choice: ToolChoice::Auto, parallel: true }
}

fn of_model(path: &Path) -> Tokenizer {
    let files = TargetFiles::open(path).expect("a model");
    let text = TextPipeline::open(&files.text()).unwrap_or_else(|failure| panic!("{failure}"));
    text.tokenizer().clone()
}

/// As many byte strings as a large vocabulary has.
fn made_up(len: usize) -> Tokenizer {
    let syllables =
        ["a", "re", "in", "st", "on", "Ġ", "er", "ty", "(", "\"", "0", "x", "ing", "qu", "č", ":", "}"];
    let printable = (b'!'..=b'~').map(|byte| char::from(byte).to_string());
    let rest =
        (0..162u32).map(|at| char::from_u32(0x100 + at - if at < 68 { 0 } else { 68 }).unwrap().to_string());
    let mut tokens: Vec<String> = printable.chain(rest.take(68)).collect();
    let mut at = 0usize;
    while tokens.len() < len - 1 {
        let (mut left, mut token) = (at + syllables.len(), String::new());
        while left > 0 {
            token.push_str(syllables[left % syllables.len()]);
            left /= syllables.len();
        }
        tokens.push(token);
        at += 1;
    }
    tokens.push("<|end|>".into());
    let mut token_types = vec![1; tokens.len()];
    token_types[tokens.len() - 1] = 3;
    let eos = Some(tokens.len() as u32 - 1);
    let vocab = GgufVocab {
        model: "gpt2".into(),
        pre: "gpt2".into(),
        tokens,
        token_types,
        eos,
        ..Default::default()
    };
    Tokenizer::from_gguf(vocab).expect("a tokenizer")
}

fn walk(
    grammars: &Grammars,
    tokenizer: &Tokenizer,
    name: &str,
    constraint: &Constraint,
    reasoning: Option<&Reasoning>,
    answer: &str,
) {
    let start = Instant::now();
    let first = grammars.guard(constraint, reasoning).expect("a guard");
    let compiled = start.elapsed();
    drop(first);
    let ids = tokenizer.encode(answer, true).expect("ids");
    let mut costs: [Vec<f64>; 4] = Default::default();
    let mut worst = String::new();
    let mut worst_us = 0.0;
    for _ in 0..5 {
        let mut guard = grammars.guard(constraint, reasoning).expect("a guard");
        for (at, &id) in ids.iter().enumerate() {
            let fits = timed(&mut costs[1], || guard.fits(&ids[at..(at + 8).min(ids.len())]));
            timed(&mut costs[2], || guard.expected());
            let allows = timed(&mut costs[0], || allows(&mut guard, id));
            let us = *costs[0].last().unwrap();
            if us > worst_us {
                worst_us = us;
                worst = tokenizer.decode(&ids[at.saturating_sub(3)..=at], false);
            }
            if !allows || fits == 0 {
                println!("  stopped at {:?}", tokenizer.decode(&ids[..=at], false));
                break;
            }
            timed(&mut costs[3], || guard.push(id));
        }
    }
    println!("{name}: {} ids, compiled in {:.2} ms", ids.len(), compiled.as_secs_f64() * 1e3);
    for (what, costs) in ["mask", "fits(8)", "expected", "push"].iter().zip(&mut costs) {
        costs.sort_by(f64::total_cmp);
        let (middle, high, most) =
            (costs[costs.len() / 2], costs[costs.len() * 95 / 100], costs[costs.len() - 1]);
        println!("  {what:9} median {middle:7.1} us, 95 % {high:7.1} us, most {most:7.1} us");
    }
    println!("  worst mask near {worst:?}");
}

fn allows(guard: &mut GrammarGuard, id: u32) -> bool {
    guard.allowed().is_none_or(|mask| mask.contains(id))
}

fn timed<T>(costs: &mut Vec<f64>, work: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = work();
    costs.push(start.elapsed().as_secs_f64() * 1e6);
    result
}

/// Bytes of memory in use.
fn resident() -> f64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<f64>().ok()).unwrap_or(0.0) * 4096.0
}
