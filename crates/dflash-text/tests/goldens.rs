//! Against what Hugging Face's own tokenizers and template renderer produced for the same files.

mod support;

use dflash_text::{ChatTemplate, GgufVocab, SpecialTokens, Tokenizer, TokenizerConfig};
use serde_json::{Value, json};
use support::{check_render, data, is_parts, read, request, streamed};

const FAMILIES: [&str; 8] =
    ["gpt-2", "llama-bpe", "lfm2", "qwen2", "qwen35", "smollm", "gemma4", "llama-spm"];

fn from_gguf(family: &str) -> Tokenizer {
    let json = read(&format!("{family}/gguf.json"));
    let texts = |key: &str| serde_json::from_value(json[key].clone()).unwrap_or_default();
    let id = |key: &str| json[key].as_u64().map(|id| id as u32);
    Tokenizer::from_gguf(GgufVocab {
        model: json["model"].as_str().unwrap().into(),
        pre: json["pre"].as_str().unwrap_or_default().into(),
        tokens: texts("tokens"),
        token_types: serde_json::from_value(json["token_type"].clone()).unwrap(),
        scores: serde_json::from_value(json["scores"].clone()).unwrap_or_default(),
        merges: texts("merges"),
        bos: id("bos_token_id"),
        eos: id("eos_token_id"),
        unk: id("unknown_token_id"),
        add_bos: json["add_bos_token"].as_bool(),
        add_space_prefix: json["add_space_prefix"].as_bool(),
        ..Default::default()
    })
    .unwrap()
}

fn from_json(family: &str) -> Tokenizer {
    let bytes = std::fs::read(data(&format!("{family}/tokenizer.json"))).unwrap();
    Tokenizer::from_json(&bytes, &TokenizerConfig::default()).unwrap()
}

fn check_ids(family: &str, tokenizer: &Tokenizer, from: &str) {
    for case in read("tokenizer_goldens.json").as_array().unwrap() {
        let text = case["text"].as_str().unwrap();
        for (column, allow_special) in [("special", true), ("plain", false)] {
            let expected: Vec<u32> = serde_json::from_value(case["ids"][family][column].clone()).unwrap();
            let ids = tokenizer.encode(text, allow_special).unwrap();
            assert_eq!(ids, expected, "{family} from {from}, {column}: {} {text:?}", case["name"]);
        }
    }
}

#[test]
fn ids_from_gguf_metadata() {
    for family in FAMILIES {
        check_ids(family, &from_gguf(family), "gguf");
    }
}

#[test]
fn ids_from_tokenizer_json() {
    for family in FAMILIES {
        check_ids(family, &from_json(family), "tokenizer.json");
    }
}

/// Qwen composes characters, and SentencePiece's sign for a space cannot be told from one.
fn comes_back_as(family: &str, text: &str) -> Option<String> {
    match family {
        "qwen2" | "qwen35" => None,
        "gemma4" | "llama-spm" => Some(text.replace('▁', " ")),
        _ => Some(text.to_owned()),
    }
}

#[test]
fn texts_come_back_whole_and_token_by_token() {
    for family in FAMILIES {
        let (gguf, json) = (from_gguf(family), from_json(family));
        assert_eq!(gguf.vocab_len(), json.vocab_len(), "{family}: padding is no token");
        for case in read("tokenizer_goldens.json").as_array().unwrap() {
            let ids: Vec<u32> = serde_json::from_value(case["ids"][family]["plain"].clone()).unwrap();
            let text = gguf.decode(&ids, false);
            assert_eq!(json.decode(&ids, false), text);
            assert_eq!((streamed(&gguf, &ids), streamed(&json, &ids)), (text.clone(), text.clone()));
            let expected = comes_back_as(family, case["text"].as_str().unwrap());
            assert!(expected.is_none_or(|expected| expected == text), "{family}: {}", case["name"]);
        }
    }
}

fn special_tokens(golden: &Value) -> SpecialTokens {
    let text = |key: &str| golden[key].as_str().map(str::to_owned);
    let control = ["<|im_start|>", "<|im_end|>", "<|endoftext|>", "<|begin_of_text|>", "<|start_header_id|>"];
    let more = [
        "<|end_header_id|>",
        "<|eot_id|>",
        "<s>",
        "</s>",
        "<bos>",
        "<|turn>",
        "<turn|>",
        "<|tool>",
        "<tool|>",
    ];
    let more = [
        &more[..],
        &["<|think|>", "<|startoftext|>", "<|tool_list_start|>", "<|tool_list_end|>", "<|tool_call_start|>"],
        &["<|tool_call_end|>", "<|tool_response_start|>", "<|tool_response_end|>"],
    ]
    .concat();
    SpecialTokens {
        bos: text("bos_token"),
        eos: text("eos_token"),
        control: control.iter().chain(&more).map(|token| (*token).to_owned()).collect(),
    }
}

#[test]
fn renders() {
    let goldens = read("template_goldens.json");
    for (name, golden) in goldens["templates"].as_object().unwrap() {
        let template = ChatTemplate::new(golden["source"].as_str().unwrap(), special_tokens(golden)).unwrap();
        for render in golden["renders"].as_array().unwrap() {
            let conversation = render["conversation"].as_str().unwrap();
            if !is_parts(conversation) {
                check_render(name, &template, &goldens["conversations"][conversation], render);
            }
        }
    }
}

#[test]
fn parts_render_as_the_string_they_make() {
    let goldens = read("template_goldens.json");
    let parts = &goldens["conversations"]["parts"];
    let joined = json!({"messages": [{"role": "user", "content": "part one & two"}]});
    for golden in goldens["templates"].as_object().unwrap().values() {
        let template = ChatTemplate::new(golden["source"].as_str().unwrap(), special_tokens(golden)).unwrap();
        let render = json!({"add_generation_prompt": true, "variables": {}});
        let text = |conversation| template.render(&request(conversation, &render)).unwrap().to_string();
        assert_eq!(text(parts), text(&joined));
    }
}
