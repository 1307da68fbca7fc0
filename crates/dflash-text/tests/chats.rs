//! Whole conversations: what a template writes for a call is what the parser of answers reads.

mod read_back;

use std::path::Path;

use dflash_text::{
    ChatFormat, ChatRequest, ChatTemplate, GgufVocab, ReasoningMarkers, Tokenizer, ToolFormat,
};
use serde_json::{Value, json};

const CONTROL: [&str; 15] = [
    "<|im_start|>",
    "<|im_end|>",
    "<s>",
    "</s>",
    "<bos>",
    "<|turn>",
    "<turn|>",
    "<|start_header_id|>",
    "<|end_header_id|>",
    "<|eot_id|>",
    "<|tool_call>",
    "<tool_call|>",
    "<|\"|>",
    "<|tool_call_start|>",
    "<|tool_call_end|>",
];

fn read(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name);
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// GPT-2's alphabet of bytes, then control tokens.
fn tokenizer(bos: Option<&str>, eos: Option<&str>) -> Tokenizer {
    let mut vocab: GgufVocab = {
        let json = read("smollm/gguf.json");
        let texts = |key: &str| -> Vec<String> { serde_json::from_value(json[key].clone()).unwrap() };
        let token_types = serde_json::from_value(json["token_type"].clone()).unwrap();
        GgufVocab {
            model: "gpt2".into(),
            pre: "smollm".into(),
            tokens: texts("tokens"),
            token_types,
            merges: texts("merges"),
            ..GgufVocab::default()
        }
    };
    for token in CONTROL {
        if !vocab.tokens.iter().any(|known| known == token) {
            vocab.tokens.push(token.to_owned());
            vocab.token_types.push(3);
        }
    }
    let id = |token: &str| vocab.tokens.iter().position(|known| known == token).map(|id| id as u32);
    (vocab.bos, vocab.eos) = (bos.and_then(id), eos.and_then(id));
    Tokenizer::from_gguf(vocab).unwrap()
}

fn chat(name: &str) -> (ChatFormat, Tokenizer) {
    let goldens = read("template_goldens.json");
    let golden = &goldens["templates"][name];
    let tokenizer = tokenizer(golden["bos_token"].as_str(), golden["eos_token"].as_str());
    let source = golden["source"].as_str().unwrap();
    let template = ChatTemplate::new(source, tokenizer.special_tokens()).unwrap();
    (ChatFormat::new(&tokenizer, Some(template), Some(source)), tokenizer)
}

#[test]
fn templates_say_what_they_are_for() {
    let think = |open: &str, close: &str| Some(ReasoningMarkers { open: open.into(), close: close.into() });
    let expected = [
        ("smollm2", ToolFormat::JsonTags, None),
        ("headers", ToolFormat::Llama, None),
        ("reasoning", ToolFormat::JsonTags, think("<think>", "</think>")),
        ("qwen35", ToolFormat::QwenXml, think("<think>", "</think>")),
        ("gemma4", ToolFormat::Gemma, think("<|channel>thought", "<channel|>")),
        ("lfm2", ToolFormat::Lfm2, None),
        ("alternating", ToolFormat::JsonTags, None),
        ("blocks", ToolFormat::JsonTags, None),
    ];
    for (name, tools, reasoning) in expected {
        let (chat, _) = chat(name);
        assert_eq!((chat.tools(), chat.reasoning()), (tools, reasoning.as_ref()), "{name}");
    }
}

#[test]
fn a_call_that_a_template_writes_is_read_back() {
    for name in ["smollm2", "reasoning", "qwen35", "gemma4", "lfm2"] {
        let (chat, tokenizer) = chat(name);
        read_back::check(name, &chat, &tokenizer);
    }
}

#[test]
fn late_system_messages_reach_every_template_that_takes_one() {
    let turns = json!([
        {"role": "system", "content": "first words"}, {"role": "developer", "content": "second words"},
        {"role": "user", "content": "U"}, {"role": "assistant", "content": "A"}, {"role": "user", "content": "V"},
        {"role": "system", "content": "third words"},
    ]);
    for name in ["smollm2", "headers", "reasoning", "qwen35", "gemma4", "lfm2", "alternating", "blocks"] {
        let (chat, tokenizer) = chat(name);
        let request = ChatRequest::new(turns.as_array().unwrap().clone());
        let text = tokenizer.decode(&chat.prompt(&request).unwrap().ids, false);
        let places = ["first", "second", "third"].map(|word| text.find(&format!("{word} words")));
        assert!(places.is_sorted() && places[0].is_some(), "{name}: {text}");
    }
}

#[test]
fn reasoning_is_open_where_the_template_leaves_it_open() {
    for (name, thinking, open) in [
        ("qwen35", None, true),
        ("qwen35", Some(true), true),
        ("qwen35", Some(false), false),
        ("reasoning", None, false),
        ("reasoning", Some(false), false),
        ("gemma4", None, false),
        ("gemma4", Some(false), false),
        ("smollm2", None, false),
    ] {
        let (chat, _) = chat(name);
        let mut request = ChatRequest::new(vec![json!({"role": "user", "content": "<think> or </think>?"})]);
        request.template_kwargs.extend(thinking.map(|on| ("enable_thinking".to_owned(), on.into())));
        assert_eq!(chat.prompt(&request).unwrap().reasoning_open, open, "{name} {thinking:?}");
    }
}
