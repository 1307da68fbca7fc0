//! A server without a socket, over a tiny model with random weights that answers in printable characters.
#![allow(dead_code, reason = "each test binary uses its own part")]

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Request, StatusCode};
use axum::response::Response;
use dflash_cpu::{CpuBackend, Isa};
use dflash_engine::proposer::ContextCopy;
use dflash_engine::{Decoder, DecoderOptions, EngineHandle, EngineOptions, Proposer, Sampling, VerifyMode};
use dflash_grammar::Grammars;
use dflash_models::load_target;
use dflash_server::{App, ModelFacts, ServedModel, ServerSettings, router};
use dflash_testkit::TinyLlama;
use dflash_text::{ChatFormat, ChatTemplate, GgufVocab, Tokenizer};
use serde_json::{Value, json};
use tower::ServiceExt;

/// Control tokens; their ids follow the bytes.
const CONTROL: [&str; 6] =
    ["<|im_start|>", "<|im_end|>", "<think>", "</think>", "<tool_call>", "</tool_call>"];
/// Ends an answer.
pub const END: u32 = 257;
/// Positions of the model.
pub const CONTEXT: usize = 2048;
/// Turns, tools as JSON, and a block of thoughts that is open unless thinking is off.
const TEMPLATE: &str = "{% if tools %}<|im_start|>system\nTools:{% for tool in tools %}\n{{ tool | tojson }}{% endfor %}\n\
Call as <tool_call>{\"name\": tool_call.name, \"arguments\": {}}</tool_call><|im_end|>\n{% endif %}\
{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}\
{% for call in message.tool_calls or [] %}<tool_call>{{ call.function | tojson }}</tool_call>{% endfor %}<|im_end|>\n\
{% endfor %}<|im_start|>assistant\n{% if enable_thinking %}<think>\n{% endif %}";

/// The 256 bytes, ids equal to bytes, and control tokens.
fn tokenizer() -> Tokenizer {
    let bytes = (0..=255u8).map(|byte| (spelling(byte).to_string(), 1));
    let (tokens, token_types) = bytes.chain(CONTROL.map(|token| (token.to_owned(), 3))).unzip();
    let vocab =
        GgufVocab { model: "gpt2".into(), pre: "gpt2".into(), tokens, token_types, ..GgufVocab::default() };
    Tokenizer::from_gguf(GgufVocab { bos: Some(256), eos: Some(END), ..vocab }).unwrap()
}

/// GPT-2's character for a byte.
fn spelling(byte: u8) -> char {
    let printable = |byte: u8| matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
    let spare = (0..byte).filter(|&byte| !printable(byte)).count() as u32;
    if printable(byte) { byte.into() } else { char::from_u32(0x100 + spare).unwrap() }
}

/// A server with settings of the test's.
pub struct Server {
    pub app: App,
    _folder: tempfile::TempDir,
}

/// What a test may ask of a server.
pub struct Setup {
    pub settings: ServerSettings,
    pub engine: EngineOptions,
    /// Whether it drafts.
    pub drafts: bool,
    /// Who drafts: one who copies.
    pub proposer: fn() -> Box<dyn Proposer>,
}

impl Default for Setup {
    fn default() -> Self {
        let engine = EngineOptions { max_batch: 4, waiting: 8, step_rows: None, prefix: None };
        let proposer = || Box::new(ContextCopy::new(16)) as Box<dyn Proposer>;
        Self { settings: ServerSettings::default(), engine, drafts: false, proposer }
    }
}

impl Server {
    /// Greedy, as a server is by default.
    pub fn new() -> Self {
        Setup::default().open()
    }

    /// With other settings; the biases are ours.
    pub fn with(settings: ServerSettings) -> Self {
        Setup { settings, ..Setup::default() }.open()
    }
}

impl Setup {
    /// Loads the tiny model and starts its engine.
    pub fn open(self) -> Server {
        let folder = tempfile::tempdir().unwrap();
        let tokenizer = tokenizer();
        let sizes = TinyLlama { vocab: tokenizer.vocab_len(), context: CONTEXT, ..TinyLlama::default() };
        sizes.write(folder.path());
        let backend = Arc::new(CpuBackend::new(1, Isa::detect()));
        let target = load_target(folder.path(), backend, &mut |_, _| {}).unwrap().target;
        let mode = if self.drafts { VerifyMode::Fixed } else { VerifyMode::Adaptive };
        let options = DecoderOptions { prefill_chunk: 512, block: 16, verify_cap: 0, mode };
        let decoder = Decoder::new(target, self.drafts.then(self.proposer).into_iter().collect(), options);
        let template = ChatTemplate::new(TEMPLATE, tokenizer.special_tokens()).unwrap();
        let model = ServedModel {
            id: "tiny".into(),
            aliases: vec!["claude-tiny".into()],
            created: 1_700_000_000,
            engine: EngineHandle::start(decoder, self.engine),
            grammars: Grammars::new(&tokenizer, &[END]),
            format: ChatFormat::new(&tokenizer, Some(template), None),
            stop_ids: vec![END],
            facts: ModelFacts {
                target: "tiny".into(),
                draft: if self.drafts { "ngram" } else { "none" }.into(),
                other_names: vec!["org/tiny".into()],
                drafting_off: (!self.drafts).then(|| "--draft none".into()),
                context: CONTEXT,
                vocab: tokenizer.vocab_len(),
                backend: "cpu".into(),
                max_batch: self.engine.max_batch,
                ..ModelFacts::default()
            },
            tokenizer,
        };
        let sampling = Sampling { logit_bias: printable_only(), ..self.settings.sampling.clone() };
        let mut settings = ServerSettings { sampling, ..self.settings };
        settings.template_kwargs.entry("enable_thinking").or_insert(json!(false));
        Server { app: App::new(model, settings), _folder: folder }
    }
}

impl Server {
    /// One request with these headers alone.
    pub async fn respond(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Body>,
    ) -> Response {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        router(self.app.clone()).oneshot(request.body(body.into()).unwrap()).await.unwrap()
    }

    /// One request; `body` is JSON or not.
    pub async fn send(&self, method: &str, path: &str, body: impl Into<Body>) -> Answer {
        let headers = [("content-type", "application/json"), ("host", "127.0.0.1")];
        Answer::of(self.respond(method, path, &headers, body).await).await
    }

    /// A POST of JSON.
    pub async fn post(&self, path: &str, body: &Value) -> Answer {
        self.send("POST", path, body.to_string()).await
    }
}

/// Biases that leave ids of printable ASCII and the control tokens.
fn printable_only() -> BTreeMap<u32, f64> {
    (0..256).filter(|byte| !(32..127).contains(byte)).map(|byte| (byte, -100.0)).collect()
}

/// What came back.
#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub content_type: String,
    pub text: String,
}

impl Answer {
    /// A response as a whole.
    pub async fn of(response: Response) -> Self {
        let (head, body) = response.into_parts();
        let content_type = head.headers.get("content-type");
        let content_type = content_type.map(|value| value.to_str().unwrap().to_owned()).unwrap_or_default();
        let bytes = to_bytes(body, usize::MAX).await.unwrap();
        let text = String::from_utf8(bytes.into()).unwrap();
        Self { status: head.status, headers: head.headers, content_type, text }
    }

    /// Status and error of a refused request.
    pub fn error(&self) -> (u16, Value) {
        (self.status.as_u16(), self.json()["error"].take())
    }

    /// The chunks of a stream without names, which ends with `[DONE]`.
    pub fn chunks(&self) -> Vec<Value> {
        assert_eq!(self.content_type, "text/event-stream", "{}", self.text);
        let data =
            |event: &str| event.lines().find_map(|line| line.strip_prefix("data: ")).map(str::to_owned);
        let mut data: Vec<String> = self.text.split("\n\n").filter_map(data).collect();
        assert_eq!(data.pop().as_deref(), Some("[DONE]"), "{}", self.text);
        data.iter().map(|text| serde_json::from_str(text).unwrap()).collect()
    }

    /// The body of an answer that is not streamed.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    /// The events of a stream whose events have names: each has its name in `type` too.
    pub fn events(&self) -> Vec<Value> {
        assert_eq!(self.content_type, "text/event-stream", "{}", self.text);
        let event = |text: &str| {
            let (name, data) = text.split_once('\n').unwrap();
            let value: Value = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
            assert_eq!(value["type"], name.strip_prefix("event: ").unwrap());
            value
        };
        self.text.split("\n\n").filter(|text| !text.is_empty()).map(event).collect()
    }
}

/// Ids, times and speeds, which differ from run to run, become their names.
pub fn steady(mut value: Value) -> Value {
    steady_in_place(&mut value);
    value
}

fn steady_in_place(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(steady_in_place),
        Value::Object(object) => {
            for (key, value) in object.iter_mut() {
                let differs =
                    matches!(key.as_str(), "id" | "item_id" | "call_id" | "request_id" | "created_at");
                match value {
                    Value::Object(_) if key == "dflash" => *value = "[dflash]".into(),
                    Value::String(id) if differs && id.contains('_') => {
                        *id = format!("[{}]", id.split('_').next().unwrap());
                    }
                    Value::Number(_) if differs => *value = format!("[{key}]").into(),
                    other => steady_in_place(other),
                }
            }
        }
        _ => {}
    }
}
