use serde_json::json;

use super::*;
use crate::samples::{bytes_only, id_of_byte, vocab};

mod scraps;

fn think() -> ReasoningMarkers {
    ReasoningMarkers { open: "<think>".into(), close: "</think>".into() }
}

fn gemma_thought() -> ReasoningMarkers {
    ReasoningMarkers { open: "<|channel>thought".into(), close: "<channel|>".into() }
}

fn tools() -> Vec<Value> {
    let properties = json!({
        "a": {"type": "integer"}, "s": {"type": "string"}, "b": {"type": "boolean"}, "l": {"type": "array"},
    });
    let tool = |name: &str| {
        let parameters = json!({"type": "object", "properties": properties});
        json!({"type": "function", "function": {"name": name, "parameters": parameters}})
    };
    vec![tool("f"), tool("get_weather")]
}

fn format(tools_as: ToolFormat) -> AnswerFormat {
    AnswerFormat { reasoning: Some(think()), tools: Some((tools_as, tools())), ..AnswerFormat::default() }
}

/// An answer put together from its pieces.
#[derive(Debug, Default, PartialEq, Clone)]
struct Answer {
    reasoning: String,
    content: String,
    /// Name, arguments, and whether they are complete.
    calls: Vec<(String, String, bool)>,
}

impl Answer {
    fn add(&mut self, pieces: Vec<Piece>) {
        for piece in pieces {
            match piece {
                Piece::Reasoning(text) => self.reasoning += &text,
                Piece::Content(text) => self.content += &text,
                Piece::CallStart { index, name } => {
                    assert_eq!(index, self.calls.len());
                    self.calls.push((name, String::new(), false));
                }
                Piece::CallArguments { index, json } => {
                    assert!(!self.calls[index].2 && index + 1 == self.calls.len() && !json.is_empty());
                    self.calls[index].1 += &json;
                }
                Piece::CallEnd { index } => {
                    assert!(!self.calls[index].2);
                    self.calls[index].2 = true;
                }
            }
        }
    }

    fn new(reasoning: &str, content: &str, calls: &[(&str, &str)]) -> Self {
        let calls = calls.iter().map(|(name, json)| ((*name).into(), (*json).into(), true)).collect();
        Self { reasoning: reasoning.into(), content: content.into(), calls }
    }
}

fn read(tokenizer: &Tokenizer, ids: &[u32], format: &AnswerFormat) -> Answer {
    let mut parser = AnswerParser::new(tokenizer, format.clone()).unwrap();
    let mut answer = Answer::default();
    for &id in ids {
        answer.add(parser.push(id));
    }
    answer.add(parser.finish());
    assert_eq!(parser.finish(), []);
    assert_eq!(parser.calls(), answer.calls.iter().filter(|call| call.2).count());
    answer
}

fn read_bytes(text: &str, format: &AnswerFormat) -> Answer {
    let ids: Vec<u32> = text.bytes().map(id_of_byte).collect();
    read(&bytes_only(), &ids, format)
}

/// Every marker as one control token, and some words as one token.
fn with_control() -> Tokenizer {
    let extra = [
        ("<think>", 3),
        ("</think>", 3),
        ("<tool_call>", 3),
        ("</tool_call>", 3),
        ("<|tool_call>", 3),
        ("<tool_call|>", 3),
        ("<|\"|>", 3),
        ("<|channel>", 3),
        ("<channel|>", 3),
        ("<|tool_call_start|>", 3),
        ("<|tool_call_end|>", 3),
        ("[TOOL_CALLS]", 3),
        ("[ARGS]", 3),
        ("<|python_tag|>", 3),
        ("<|im_end|>", 3),
        ("\"}", 1),
        ("na", 1),
        ("me", 1),
        ("name", 1),
        ("unc", 1),
        ("nc", 1),
    ];
    let merges = ["\" }", "n a", "m e", "na me", "n c", "u nc"];
    Tokenizer::from_gguf(vocab("gpt2", &extra, &merges)).unwrap()
}

/// The answer must be the same whatever the vocabulary; control tokens are spelled in the text.
fn check(text: &str, format: &AnswerFormat, expected: &Answer) {
    assert_eq!(&read_bytes(text, format), expected, "bytes: {text}");
    let tokenizer = with_control();
    let ids = tokenizer.encode(text, true).unwrap();
    assert_eq!(&read(&tokenizer, &ids, format), expected, "control tokens: {text}");
}

#[test]
fn text_passes_as_it_is() {
    let text = "  Hello <think>\n {\"name\": \"f\"} \n";
    assert_eq!(read_bytes(text, &AnswerFormat::default()), Answer::new("", text, &[]));
    check("  Hello\n world \n", &format(ToolFormat::JsonTags), &Answer::new("", "  Hello\n world \n", &[]));
    let tokenizer = with_control();
    let ids = tokenizer.encode("a<|im_end|><tool_call>b", true).unwrap();
    assert_eq!(read(&tokenizer, &ids, &AnswerFormat::default()), Answer::new("", "ab", &[]));
}

#[test]
fn reasoning_is_split_off_without_the_blanks_beside_its_markers() {
    let format = format(ToolFormat::JsonTags);
    check("<think>\nwhy \n not\n</think>\n\nso\n", &format, &Answer::new("why \n not", "so\n", &[]));
    check("<think>\n\n</think>\n\nso", &format, &Answer::new("", "so", &[]));
    check("\n<think>a</think>b<think>c</think>d", &format, &Answer::new("ac", "bd", &[]));
    check("<think>cut <thi", &format, &Answer::new("cut <thi", "", &[]));
    check("no block</think>\n then", &format, &Answer::new("", "no block\n then", &[]));
    check("a\n\n<think>\nx\n</think>\n\nb", &format, &Answer::new("x", "a\n\nb", &[]));
    let open = AnswerFormat { in_reasoning: true, ..format };
    check("\nwhy</think>so", &open, &Answer::new("why", "so", &[]));
    check("why", &open, &Answer::new("why", "", &[]));
    let gemma = AnswerFormat { reasoning: Some(gemma_thought()), ..open.clone() };
    check("a\n<channel|>b<|channel>thought\nc<channel|>", &gemma, &Answer::new("a\nc", "b", &[]));
}

#[test]
fn ids_of_reasoning_are_counted_with_their_markers() {
    let tokenizer = with_control();
    let mut parser = AnswerParser::new(&tokenizer, format(ToolFormat::JsonTags)).unwrap();
    for id in tokenizer.encode("a<think>bc</think>d", true).unwrap() {
        parser.push(id);
    }
    assert_eq!((parser.reasoning_tokens(), parser.in_reasoning()), (4, false));
}

#[test]
fn the_token_counts_where_a_marker_is_one() {
    let tokenizer = with_control();
    let ids = tokenizer.encode("<think>x</think> <tool_call>{\"name\": \"f\"}</tool_call>", false).unwrap();
    let expected = "<think>x</think> <tool_call>{\"name\": \"f\"}</tool_call>";
    assert_eq!(read(&tokenizer, &ids, &format(ToolFormat::JsonTags)), Answer::new("", expected, &[]));
}

#[test]
fn calls_between_tags_keep_the_models_bytes() {
    let format = format(ToolFormat::JsonTags);
    let arguments = r#"{"a":1.0 , "s":"\u00e9\/ é", "x": [1e5, {"}": "{"}]}"#;
    let call = format!("<tool_call>\n{{\"name\": \"f\", \"arguments\": {arguments}}}\n</tool_call>");
    let one = [("f", arguments)];
    check(&call, &format, &Answer::new("", "", &one));
    check(&format!("Well.\n\n{call}\n"), &format, &Answer::new("", "Well.", &one));
    check(&format!("a {call} b {call} c"), &format, &Answer::new("", "a b c", &[one[0], one[0]]));
    check(&format!("<think>hm {call}"), &format, &Answer::new("hm", "", &one));
    check(&format!("<think>hm {call} so</think>ok"), &format, &Answer::new("hm so", "ok", &one));
    check(&format!("{call}{call}"), &format, &Answer::new("", "", &[one[0], one[0]]));
}

#[test]
fn calls_in_json_come_in_many_shapes() {
    let format = format(ToolFormat::JsonTags);
    let shapes = [
        (r#"{"arguments": {"a": 1}, "name": "f"}"#, r#"{"a": 1}"#),
        (r#"{"name": "f", "parameters": {"a": 1}}"#, r#"{"a": 1}"#),
        (r#"{"type": "function", "function": {"name": "f", "arguments": {"a": 1}}}"#, r#"{"a": 1}"#),
        (r#"{"function": {"arguments": "{\"a\": 1}", "name": "f"}, "id": 7}"#, r#"{"a": 1}"#),
        (r#"{"name": "f", "arguments": "{\"a\": 1}"}"#, r#"{"a": 1}"#),
        (r#"{"name": "f", "arguments": null}"#, "{}"),
        (r#"{"name": "f", "arguments": ""}"#, "{}"),
        (r#"{"name": "f"}"#, "{}"),
        (r#"{"name": "\u0066", "arguments": {}, "why": ["x", {"name": 1}]}"#, "{}"),
        (r#"[{"name": "f", "arguments": {}}]"#, "{}"),
        (r#"{"name": "f", "arguments": {"a": 1}}}"#, r#"{"a": 1}"#),
        ("{\"name\": \"f\", \"arguments\": {\"s\": \"1\n\t2\"}}", r#"{"s": "1\n\t2"}"#),
        ("<function=f>\n<parameter=a>\n1\n</parameter>\n</function>", r#"{"a": 1}"#),
    ];
    for (shape, arguments) in shapes {
        let text = format!("<tool_call>{shape}</tool_call>");
        check(&text, &format, &Answer::new("", "", &[("f", arguments)]));
    }
    let two = r#"<tool_call>[{"name": "f", "arguments": {}}, {"name": "get_weather"}]</tool_call>"#;
    check(two, &format, &Answer::new("", "", &[("f", "{}"), ("get_weather", "{}")]));
    let lines = "<tool_call>{\"name\": \"f\"}\n{\"name\": \"f\"}\n</tool_call>";
    check(lines, &format, &Answer::new("", "", &[("f", "{}"), ("f", "{}")]));
    let forgotten = "<tool_call>{\"name\": \"f\"}\n<tool_call>{\"name\": \"f\"}";
    check(forgotten, &format, &Answer::new("", "", &[("f", "{}"), ("f", "{}")]));
}

#[test]
fn what_is_no_call_is_text_as_written() {
    let json = [
        "<tool_call>\n{\"name\": \"nobody\", \"arguments\": {}}\n</tool_call> x",
        "a\n<tool_call>oops</tool_call>",
        "<tool_call></tool_call>",
        "<tool_call>[]</tool_call>",
        "<tool_call>{\"name\": 3}</tool_call>",
        "<tool_call>{\"name\": \"f\", \"arguments\": 5}</tool_call>",
        "<tool_call>{\"name\": \"f\", \"arguments\": [1]}</tool_call>",
        "<tool_call>{\"arguments\": {}}</tool_call>",
        "<tool_call>{\"name\": \"f\" \"arguments\": {}}</tool_call>",
        "<tool_call>{\"name\": \"f\", \"arguments\": \"{broken\"}</tool_call>",
        "<tool_call>\n{\"name\": \"f\", \"argum",
        "<tool_call>\n",
        "<tool_c",
    ];
    for text in json {
        check(text, &format(ToolFormat::JsonTags), &Answer::new("", text, &[]));
    }
    let xml = [
        "<tool_call>\n<function=nobody>\n</function>\n</tool_call>",
        "<tool_call><function=f><parameter=a>one</parameter></function></tool_call>",
        "<tool_call>\n<function=f>\n<parameter=a>\n1\n</parameter>\n",
        "<tool_call><function=f>text</function></tool_call>",
        "<function=",
    ];
    for text in xml {
        check(text, &format(ToolFormat::QwenXml), &Answer::new("", text, &[]));
    }
    let gemma = [
        "<|tool_call>call:nobody{}<tool_call|>",
        "<|tool_call>call:f{a:}<tool_call|>",
        "<|tool_call>call:f{a:1<tool_call|>",
        "<|tool_call>f{a:1}<tool_call|>",
        "<|tool_call><tool_call|>",
    ];
    for text in gemma {
        check(text, &format(ToolFormat::Gemma), &Answer::new("", text, &[]));
    }
    let lfm2 = [
        "<|tool_call_start|>[nobody()]<|tool_call_end|>",
        "<|tool_call_start|>[f(1)]<|tool_call_end|>",
        "<|tool_call_start|>[f(a=g())]<|tool_call_end|>",
        "<|tool_call_start|>[]<|tool_call_end|>",
    ];
    for text in lfm2 {
        check(text, &format(ToolFormat::Lfm2), &Answer::new("", text, &[]));
    }
    for text in
        ["<|python_tag|>print(1)", "{\"name\": \"Prague\"}", "{\"answer\": {\"name\": \"f\"}}", "{", " {}"]
    {
        check(text, &format(ToolFormat::Llama), &Answer::new("", text, &[]));
    }
    for text in ["[TOOL_CALLS]nobody[ARGS]{}", "[TOOL_CALLS]f[ARGS]5", "[TOOL_CALLS][]"] {
        check(text, &format(ToolFormat::Mistral), &Answer::new("", text, &[]));
    }
    for text in ["[1, 2]", "```json\n{\"a\": 1}\n```", "{\"a\": 1}", "text {\"name\": \"f\"}"] {
        check(text, &format(ToolFormat::Json), &Answer::new("", text, &[]));
    }
}

#[test]
fn a_call_after_a_broken_one_is_found() {
    let good = "<tool_call>{\"name\": \"f\"}</tool_call>";
    let text = format!("<tool_call>{{bad {good}");
    check(&text, &format(ToolFormat::JsonTags), &Answer::new("", "<tool_call>{bad", &[("f", "{}")]));
}

#[test]
fn a_call_that_never_ends_does_not_swallow_the_next() {
    let gemma = "<|tool_call>call:f{s:<|\"|>x}<tool_call|><|tool_call>call:f{}<tool_call|>";
    let answer = read_bytes(gemma, &format(ToolFormat::Gemma));
    assert_eq!(answer, Answer::new("", "<|tool_call>call:f{s:<|\"|>x}<tool_call|>", &[("f", "{}")]));
    let lfm2 = "<|tool_call_start|>[f(s='x)]<|tool_call_end|> <|tool_call_start|>[f()]<|tool_call_end|>";
    let answer = read_bytes(lfm2, &format(ToolFormat::Lfm2));
    assert_eq!(answer, Answer::new("", "<|tool_call_start|>[f(s='x)]<|tool_call_end|>", &[("f", "{}")]));
}

#[test]
fn a_cut_call_has_no_end() {
    let text = "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1, \"s\": \"x";
    let answer = read_bytes(text, &format(ToolFormat::JsonTags));
    assert_eq!(answer.calls, [("f".into(), "{\"a\": 1, \"s\": \"x".into(), false)]);
    assert_eq!(answer.content, "");
    let whole = format!("{text}\"}}");
    let answer = read_bytes(&whole, &format(ToolFormat::JsonTags));
    assert_eq!(answer, Answer::new("", "", &[("f", r#"{"a": 1, "s": "x"}"#)]), "the arguments are complete");
    let broken = format!("{text}\"; y}}</tool_call>");
    let answer = read_bytes(&broken, &format(ToolFormat::JsonTags));
    assert_eq!(answer.calls, [("f".into(), r#"{"a": 1, "s": "x""#.into(), false)]);
    assert_eq!(answer.content, "; y}</tool_call>");
}

#[test]
fn calls_as_xml_are_typed_by_the_schema() {
    let format = format(ToolFormat::QwenXml);
    let text = "Sure.\n<tool_call>\n<function=f>\n<parameter=a>\n7\n</parameter>\n<parameter=s>\n\n 7 <b>\n\n</parameter>\n\
        <parameter=b>\nTrue\n</parameter>\n<parameter=l>\n[1, 'x']\n</parameter>\n<parameter=other>\n{}\n</parameter>\n\
        </function>\n</tool_call>";
    let arguments = r#"{"a": 7, "s": "\n 7 <b>\n", "b": true, "l": [1, "x"], "other": "{}"}"#;
    check(text, &format, &Answer::new("", "Sure.", &[("f", arguments)]));
    let none = "<tool_call>\n<function=f>\n</function>\n</tool_call>";
    check(none, &format, &Answer::new("", "", &[("f", "{}")]));
    check(&format!("{none}\n{none}"), &format, &Answer::new("", "", &[("f", "{}"), ("f", "{}")]));
    check("x\n<function=f>\n</function>\n</tool_call>", &format, &Answer::new("", "x", &[("f", "{}")]));
    let loose = "<tool_call><function=f><parameter=a>1<parameter=s>2</function></tool_call>";
    check(loose, &format, &Answer::new("", "", &[("f", r#"{"a": 1, "s": "2"}"#)]));
    let json = "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\":2}}</tool_call>";
    check(json, &format, &Answer::new("", "", &[("f", "{\"a\":2}")]));
    let twice = "<function=f><parameter=a>1</parameter><parameter=a>2</parameter></function>";
    check(twice, &format, &Answer::new("", "", &[("f", "{\"a\": 2}")]));
    let two = "<tool_call><function=f></function><function=f></function></tool_call>";
    check(two, &format, &Answer::new("", "", &[("f", "{}"), ("f", "{}")]));
    check(&format!("<think>a {none}"), &format, &Answer::new("a", "", &[("f", "{}")]));
}

#[test]
fn calls_of_gemma() {
    let format = AnswerFormat { reasoning: Some(gemma_thought()), ..format(ToolFormat::Gemma) };
    let text = "<|tool_call>call:f{a:1,s:<|\"|>x, {y}: \"z\"\n<|\"|>,l:[1,<|\"|>q<|\"|>,{k:null}],b:true}<tool_call|>";
    let arguments = r#"{"a": 1, "s": "x, {y}: \"z\"\n", "l": [1, "q", {"k": null}], "b": true}"#;
    check(text, &format, &Answer::new("", "", &[("f", arguments)]));
    check(&format!("<|channel>thought\nhm{text}"), &format, &Answer::new("hm", "", &[("f", arguments)]));
    let two = "a<|tool_call>call:f{}call:get_weather{s:5}<tool_call|>b";
    let expected = Answer::new("", "ab", &[("f", "{}"), ("get_weather", r#"{"s": "5"}"#)]);
    check(two, &format, &expected);
    check("<|tool_call>call:f{s:Praha}", &format, &Answer::new("", "", &[("f", r#"{"s": "Praha"}"#)]));
}

#[test]
fn calls_of_lfm2() {
    let format = format(ToolFormat::Lfm2);
    let text = "<|tool_call_start|>[f(a=1, s=\"x)]\", l=[1, 'q', {'k': None}], b=True), get_weather(s='it\\'s')]<|tool_call_end|> ok";
    let calls = [
        ("f", r#"{"a": 1, "s": "x)]", "l": [1, "q", {"k": null}], "b": true}"#),
        ("get_weather", r#"{"s": "it's"}"#),
    ];
    check(text, &format, &Answer::new("", "ok", &calls));
    let json = "<|tool_call_start|>[{\"name\": \"f\", \"arguments\": {}}]<|tool_call_end|>";
    check(json, &format, &Answer::new("", "", &[("f", "{}")]));
    check("<|tool_call_start|>[f()", &format, &Answer::new("", "", &[("f", "{}")]));
}

#[test]
fn calls_of_llama() {
    let format = format(ToolFormat::Llama);
    let call = r#"{"name": "f", "parameters": {"a": 1}}"#;
    let one = ("f", r#"{"a": 1}"#);
    check(call, &format, &Answer::new("", "", &[one]));
    check(&format!("\n{call}; {call}"), &format, &Answer::new("", "", &[one, one]));
    check(&format!("<|python_tag|>{call}"), &format, &Answer::new("", "", &[one]));
    check(&format!("x <|python_tag|>{call}"), &format, &Answer::new("", "x", &[one]));
    check(&format!("<think>hm</think>\n{call}"), &format, &Answer::new("hm", "", &[one]));
    check(&format!("see {call}"), &format, &Answer::new("", &format!("see {call}"), &[]));
    check(&format!("{call}\nThat is it."), &format, &Answer::new("", "That is it.", &[one]));
}

#[test]
fn calls_of_mistral_and_plain_json() {
    let list = r#"[{"name": "f", "arguments": {"a": 1}}, {"name": "f", "arguments": {}, "id": "abcdefghi"}]"#;
    let two = [("f", r#"{"a": 1}"#), ("f", "{}")];
    check(&format!("Hi.[TOOL_CALLS]{list}"), &format(ToolFormat::Mistral), &Answer::new("", "Hi.", &two));
    let named = "[TOOL_CALLS]f[ARGS]{\"a\": 1}[TOOL_CALLS]f[ARGS]{}";
    check(named, &format(ToolFormat::Mistral), &Answer::new("", "", &two));
    check(list, &format(ToolFormat::Json), &Answer::new("", "", &two));
    check(r#"{"name": "f", "arguments": {}}"#, &format(ToolFormat::Json), &Answer::new("", "", &two[1..]));
    let fenced = format!("Here:\n```json\n{list}\n```\nDone.");
    check(&fenced, &format(ToolFormat::Json), &Answer::new("", "Here:\nDone.", &two));
}

#[test]
fn one_call_is_the_last_where_no_more_are_wanted() {
    let format = AnswerFormat { parallel: false, ..format(ToolFormat::JsonTags) };
    let call = "<tool_call>{\"name\": \"f\"}</tool_call>";
    let mut parser = AnswerParser::new(&bytes_only(), format).unwrap();
    let mut answer = Answer::default();
    for byte in format!("a{call}b{call}").bytes() {
        answer.add(parser.push(id_of_byte(byte)));
    }
    assert!(parser.stopped());
    answer.add(parser.finish());
    assert_eq!(answer, Answer::new("", "a", &[("f", "{}")]));
}

#[test]
fn arguments_stream_while_they_are_written() {
    let mut parser = AnswerParser::new(&bytes_only(), format(ToolFormat::JsonTags)).unwrap();
    let mut push =
        |text: &str| text.bytes().flat_map(|byte| parser.push(id_of_byte(byte))).collect::<Vec<_>>();
    assert_eq!(push("Ok. <tool_call>{\"name\": \"f\", \"arguments\": "), push_of_content("Ok."));
    let begun = push("{");
    assert_eq!(begun[0], Piece::CallStart { index: 0, name: "f".into() });
    assert_eq!(begun[1], Piece::CallArguments { index: 0, json: "{".into() });
    assert_eq!(push("\""), [Piece::CallArguments { index: 0, json: "\"".into() }]);
    assert_eq!(push("a\": 1}").last(), Some(&Piece::CallEnd { index: 0 }));
}

fn push_of_content(text: &str) -> Vec<Piece> {
    text.chars().map(|c| Piece::Content(c.into())).collect()
}

fn stopping(text: &str, stop: &str, format: &AnswerFormat) -> (Answer, bool) {
    let format = AnswerFormat { stop: vec![stop.into()], ..format.clone() };
    let mut parser = AnswerParser::new(&bytes_only(), format).unwrap();
    let mut answer = Answer::default();
    text.bytes().for_each(|byte| answer.add(parser.push(id_of_byte(byte))));
    answer.add(parser.finish());
    (answer, parser.stopped())
}

#[test]
fn stop_strings_cut_what_is_visible() {
    let format = format(ToolFormat::JsonTags);
    let text = |text: &str, stop: &str| {
        let (answer, stopped) = stopping(text, stop, &format);
        (answer.reasoning, answer.content, stopped)
    };
    let some = |reasoning: &str, content: &str, stopped| (reasoning.to_owned(), content.to_owned(), stopped);
    assert_eq!(text("one two three", "two"), some("", "one ", true));
    assert_eq!(text("one tw", "two"), some("", "one tw", false));
    assert_eq!(text("a\n\nb", "\n\n"), some("", "a", true));
    assert_eq!(text("<think>\n\n</think>\n\nb\n\nc", "\n\n"), some("", "b", true));
    assert_eq!(text("<think>a STOP", "STOP"), some("a ", "", true));
    assert_eq!(text("ST<think>OP</think>x", "STOP"), some("OP", "STx", false), "a marker lies between");
    assert_eq!(text("x<think>a</think>b", "think"), some("a", "xb", false), "markers are no text");
    let (answer, stopped) = stopping(
        "<tool_call>{\"name\": \"f\", \"arguments\": {\"s\": \"a END b\"}}</tool_call>",
        "END",
        &format,
    );
    assert!(stopped);
    assert_eq!(answer.calls, [("f".into(), "{\"s\": \"a ".into(), false)]);
    let error = AnswerParser::new(&bytes_only(), AnswerFormat { stop: vec![String::new()], ..format });
    assert!(matches!(error, Err(TextError::EmptyStopString)));
}

#[test]
fn characters_come_whole() {
    let text = "<think>Příliš 日本</think>👩‍👩‍👧 한국 <tool_call>{\"name\": \"f\", \"arguments\": {\"s\": \"🇨🇿\"}}</tool_call>";
    let expected = Answer::new("Příliš 日本", "👩‍👩‍👧 한국", &[("f", "{\"s\": \"🇨🇿\"}")]);
    check(text, &format(ToolFormat::JsonTags), &expected);
    let mut ids: Vec<u32> = "a👩".bytes().map(id_of_byte).collect();
    ids.pop();
    assert_eq!(read(&bytes_only(), &ids, &format(ToolFormat::JsonTags)).content, "a\u{FFFD}");
}
