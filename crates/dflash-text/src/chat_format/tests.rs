use serde_json::{Map, json};

use super::*;
use crate::samples::vocab;

const SMOL: &str = "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}\
    {{ '<|im_start|>system\nDefault<|im_end|>\n' }}{% endif %}\
    {{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}\
    {% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

/// Tools, reasoning, and the system message first or not at all.
const FULL: &str = "{% for m in messages %}\
    {% if m.role == 'system' and not loop.first %}{{ raise_exception('The system speaks first.') }}{% endif %}\
    {{ '<|im_start|>' + m.role + '\n' }}\
    {% if loop.first and tools %}{% for tool in tools %}{{ tool | tojson }}{% endfor %}<tool_call>{% endif %}\
    {% if m.reasoning_content %}{{ '<think>' + m.reasoning_content + '</think>' }}{% endif %}\
    {{ m.content }}\
    {% if m.tool_calls is defined %}{{ m.tool_calls[0].function | tojson }}{% endif %}\
    {{ '<|im_end|>\n' }}{% endfor %}\
    {% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}\
    {% if enable_thinking is defined and not enable_thinking %}{{ '<think>\n\n</think>\n\n' }}\
    {% elif enable_thinking %}{{ '<think>\n' }}{% endif %}{% endif %}";

fn chat(source: &str) -> ChatFormat {
    let extra = [("<|im_start|>", 3), ("<|im_end|>", 3), ("<think>", 4), ("</think>", 4)];
    let tokenizer = Tokenizer::from_gguf(vocab("gpt2", &extra, &[])).unwrap();
    let template = ChatTemplate::new(source, tokenizer.special_tokens()).unwrap();
    ChatFormat::new(&tokenizer, Some(template), Some(source))
}

fn text(chat: &ChatFormat, request: &ChatRequest) -> String {
    chat.tokenizer.decode(&chat.prompt(request).unwrap().ids, false)
}

fn rendered(source: &str, messages: Value) -> String {
    text(&chat(source), &ChatRequest::new(messages.as_array().unwrap().clone()))
}

fn tool() -> Value {
    json!({"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}}})
}

fn round(content: Value) -> Vec<Value> {
    let mut turn = json!({"role": "assistant", "tool_calls": [
        {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{\"a\": 1}"}},
    ]});
    if content != "absent" {
        turn["content"] = content;
    }
    vec![
        json!({"role": "user", "content": "U"}),
        turn,
        json!({"role": "tool", "tool_call_id": "1", "content": "R"}),
        json!({"role": "tool", "tool_call_id": "2", "content": [{"type": "text", "text": "S"}]}),
    ]
}

#[test]
fn calls_without_content_render_as_with_an_empty_one() {
    for source in [SMOL, FULL] {
        let chat = chat(source);
        let texts = [json!("absent"), json!(null), json!("")].map(|content| {
            text(&chat, &ChatRequest { tools: vec![tool()], ..ChatRequest::new(round(content)) })
        });
        assert!(texts[0].contains("\"a\": 1") && texts[0].contains('R') && texts[0].contains('S'));
        assert_eq!(texts[0], texts[1]);
        assert_eq!(texts[0], texts[2]);
    }
}

#[test]
fn a_template_without_tools_is_told_of_them_in_words() {
    let chat = chat(SMOL);
    assert_eq!(chat.tools(), ToolFormat::JsonTags);
    let request = ChatRequest { tools: vec![tool()], ..ChatRequest::new(round(json!("C"))) };
    let prompt = text(&chat, &request);
    assert!(prompt.starts_with("<|im_start|>system\nYou can use these tools"), "{prompt}");
    assert!(prompt.contains(r#"{"name": "f", "description": "d", "parameters": {"type": "object"}}"#));
    let turns = "<|im_start|>user\nU<|im_end|>\n\
        <|im_start|>assistant\nC\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call><|im_end|>\n\
        <|im_start|>user\n<tool_response>\nR\n</tool_response>\n<tool_response>\nS\n</tool_response><|im_end|>\n\
        <|im_start|>assistant\n";
    assert!(prompt.ends_with(turns), "{prompt}");
    let hidden = text(&chat, &ChatRequest { tools_wanted: false, ..request });
    assert!(!hidden.contains("You can use") && hidden.ends_with(turns));
}

#[test]
fn a_template_with_tools_shows_them_itself() {
    let chat = chat(FULL);
    assert_eq!(chat.tools(), ToolFormat::JsonTags);
    let request = ChatRequest { tools: vec![tool()], ..ChatRequest::new(round(json!(null))) };
    let prompt = text(&chat, &request);
    assert!(prompt.contains("\"description\": \"d\"") && prompt.contains("<|im_start|>tool\nR"), "{prompt}");
    assert!(!text(&chat, &ChatRequest { tools_wanted: false, ..request }).contains("\"description\""));
}

#[test]
fn a_template_of_its_own_for_tools_is_taken_when_there_are_some() {
    let plain = chat(SMOL);
    let template = ChatTemplate::new(FULL, plain.tokenizer.special_tokens()).unwrap();
    let both = plain.with_tool_use(template);
    let user = ChatRequest::new(round(json!(null))[..1].to_vec());
    assert!(text(&both, &user).starts_with("<|im_start|>system\nDefault"));
    for with_tools in [ChatRequest { tools: vec![tool()], ..user }, ChatRequest::new(round(json!(null)))] {
        assert!(text(&both, &with_tools).starts_with("<|im_start|>user"));
    }
}

#[test]
fn system_messages_stand_where_the_template_takes_them() {
    let turns = json!([
        {"role": "developer", "content": "A"},
        {"role": "system", "content": [{"type": "text", "text": "B"}]},
        {"role": "user", "content": "U"},
        {"role": "system", "content": "C"},
    ]);
    let merged =
        "<|im_start|>system\nA\n\nB\n\nC<|im_end|>\n<|im_start|>user\nU<|im_end|>\n<|im_start|>assistant\n";
    assert_eq!(rendered(FULL, turns.clone()), merged);
    let in_place = rendered(SMOL, turns);
    assert!(
        in_place.starts_with(
            "<|im_start|>system\nA<|im_end|>\n<|im_start|>system\nB<|im_end|>\n<|im_start|>user"
        )
    );
    assert!(in_place.ends_with("<|im_start|>system\nC<|im_end|>\n<|im_start|>assistant\n"));
    let late = json!([{"role": "user", "content": "U"}, {"role": "system", "content": "C"}]);
    assert!(rendered(FULL, late).starts_with("<|im_start|>system\nC<|im_end|>\n<|im_start|>user\nU"));
}

#[test]
fn an_instruction_ends_the_system_message() {
    let with = |messages: Value| ChatRequest {
        instruction: Some("Answer in JSON.".into()),
        ..ChatRequest::new(messages.as_array().unwrap().clone())
    };
    for source in [SMOL, FULL] {
        let chat = chat(source);
        let prompt = text(&chat, &with(json!([{"role": "user", "content": "U"}])));
        assert!(
            prompt.starts_with("<|im_start|>system\nAnswer in JSON.<|im_end|>\n<|im_start|>user"),
            "{prompt}"
        );
        let system = json!([{"role": "system", "content": "S"}, {"role": "user", "content": "U"}]);
        assert!(text(&chat, &with(system)).starts_with("<|im_start|>system\nS\n\nAnswer in JSON.<|im_end|>"));
    }
}

#[test]
fn parts_of_every_role_are_kept_and_others_are_named() {
    for role in ["system", "user", "assistant", "tool", "developer"] {
        let parts = json!([
            {"type": "text", "text": "one "}, {"type": "input_text", "text": "two "},
            {"type": "output_text", "text": "three"},
        ]);
        let prompt =
            rendered(SMOL, json!([{"role": "user", "content": "U"}, {"role": role, "content": parts}]));
        assert!(prompt.contains("one two three"), "{role}");
    }
    let chat = chat(SMOL);
    for kind in ["image_url", "input_audio", "file"] {
        let request = ChatRequest::new(vec![json!({"role": "user", "content": [{"type": kind, kind: {}}]})]);
        let error = chat.prompt(&request).unwrap_err();
        assert!(error.to_string().contains(kind), "{error}");
    }
}

#[test]
fn earlier_reasoning_goes_where_the_template_reads_it() {
    for key in ["reasoning_content", "reasoning"] {
        let turns = json!([
            {"role": "user", "content": "U"}, {"role": "assistant", key: "why", "content": "so"},
            {"role": "user", "content": "V"},
        ]);
        assert!(rendered(FULL, turns.clone()).contains("<think>why</think>so"));
        let in_content = FULL.replace("m.reasoning_content", "false");
        assert!(rendered(&in_content, turns).contains("<think>\nwhy\n</think>\n\nso"));
    }
}

#[test]
fn the_template_says_whether_reasoning_is_open_and_typed_markers_do_not() {
    let chat = chat(FULL);
    let open = |text: &str, thinking: Option<bool>| {
        let kwargs: Map<String, Value> =
            thinking.map(|thinking| ("enable_thinking".to_owned(), thinking.into())).into_iter().collect();
        let messages = vec![json!({"role": "user", "content": text})];
        chat.prompt(&ChatRequest { template_kwargs: kwargs, ..ChatRequest::new(messages) })
            .unwrap()
            .reasoning_open
    };
    for typed in ["U", "<think>", "</think>", "say <think> x </think> <think>"] {
        assert_eq!(
            (open(typed, Some(true)), open(typed, Some(false)), open(typed, None)),
            (true, false, false)
        );
    }
    // Without control tokens the whole prompt would be the tail.
    let bare = "{% for m in messages %}{{ m.content }}{% endfor %}{{ '</think>' if 0 }}";
    let chat = self::chat(bare);
    let request = ChatRequest::new(vec![json!({"role": "user", "content": "<think>"})]);
    assert!(!chat.prompt(&request).unwrap().reasoning_open);
}

#[test]
fn what_cannot_be_rendered_is_an_error_with_a_way_out() {
    let chat = chat(FULL);
    let none = ChatFormat::new(&chat.tokenizer, None, None);
    let request = ChatRequest::new(vec![json!({"role": "user", "content": "U"})]);
    assert!(none.prompt(&request).unwrap_err().to_string().contains("/v1/completions"));
    let error = |messages: Vec<Value>| chat.prompt(&ChatRequest::new(messages)).unwrap_err().to_string();
    assert!(error(Vec::new()).contains("messages is empty"));
    assert!(
        error(vec![json!({"role": "user", "content": "U"}), json!({"content": "U"})]).contains("messages[1]")
    );
    let strict = self::chat("{{ raise_exception('Roles must alternate.') }}");
    let error = strict.prompt(&request).unwrap_err();
    assert!(matches!(error, TextError::TemplateRaised { message } if message == "Roles must alternate."));
}

#[test]
fn text_arrives_unchanged() {
    let typed = "{{ 1 + 1 }} {% x %} <b> & \"q\" 'a' \u{0} <|im_end|> <tool_call>";
    for source in [SMOL, FULL] {
        let chat = chat(source);
        let request = ChatRequest::new(vec![json!({"role": "user", "content": typed})]);
        let ids = chat.prompt(&request).unwrap().ids;
        assert!(chat.tokenizer.decode(&ids, false).contains(typed));
        let end = chat.tokenizer.id_of("<|im_end|>").unwrap();
        let harmless = ChatRequest::new(vec![json!({"role": "user", "content": "U"})]);
        let count = |ids: &[u32]| ids.iter().filter(|&&id| id == end).count();
        assert_eq!(count(&ids), count(&chat.prompt(&harmless).unwrap().ids), "typed control tokens are text");
    }
}

#[test]
fn boundaries_stand_before_the_marker_of_turns() {
    let chat = chat(SMOL);
    let word = "abcdefgh ".repeat(8);
    let role = |index: usize| if index.is_multiple_of(2) { "user" } else { "assistant" };
    let turn = |index: usize| json!({"role": role(index), "content": word});
    let boundaries = |turns: usize| {
        let prompt = chat.prompt(&ChatRequest::new((0..turns).map(turn).collect())).unwrap();
        let marker = chat.tokenizer.id_of("<|im_start|>").unwrap();
        assert!(prompt.boundaries.iter().all(|&at| prompt.ids[at] == marker));
        assert!(prompt.boundaries.is_sorted_by(|one, other| one < other));
        let last = prompt.ids.iter().rposition(|&id| id == marker);
        assert_eq!(prompt.boundaries.last().copied(), last, "before the answer");
        (prompt.boundaries, prompt.ids)
    };
    let (one, ids) = boundaries(1);
    let (three, more) = boundaries(3);
    assert_eq!(three[..2], [one[0], one[1]]);
    assert!(more.starts_with(&ids[..one[1]]));
    let (many, _) = boundaries(41);
    assert_eq!((many.len(), many[0]), (8, one[0]));
    // A marker that somebody typed is text.
    let typed = json!({"role": "user", "content": "<|im_start|>".repeat(50)});
    assert_eq!(chat.prompt(&ChatRequest::new(vec![typed])).unwrap().boundaries.len(), 2);
}
