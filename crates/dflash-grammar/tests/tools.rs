//! Calls of tools in every form.

mod support;

use dflash_grammar::{Constraint, GrammarError, Grammars, ToolChoice};
use dflash_testkit::Rng;
use dflash_text::{AnswerFormat, AnswerParser, Piece, Tokenizer, ToolFormat};
use serde_json::{Value, json};
use support::{END, accepts, bytes_only, draw_towards, small, thinking, validate};

const FORMATS: [ToolFormat; 7] = [
    ToolFormat::JsonTags,
    ToolFormat::QwenXml,
    ToolFormat::Gemma,
    ToolFormat::Llama,
    ToolFormat::Lfm2,
    ToolFormat::Mistral,
    ToolFormat::Json,
];

fn tools() -> Vec<Value> {
    let weather = json!({"type": "object", "required": ["city"], "properties": {
        "city": {"type": "string"}, "days": {"type": "integer", "minimum": 1, "maximum": 7},
        "unit": {"enum": ["C", "F"]}, "exact": {"type": "boolean"},
        "places": {"type": "array", "items": {"type": "string"}}}});
    vec![
        json!({"type": "function", "function": {"name": "weather", "parameters": weather}}),
        json!({"name": "now"}),
    ]
}

fn constraint(format: ToolFormat, choice: ToolChoice, parallel: bool) -> Constraint {
    Constraint::ToolCalls { format, tools: tools(), choice, parallel }
}

fn passes(constraint: &Constraint, text: &str) -> bool {
    let tokenizer = bytes_only();
    let guard = Grammars::new(&tokenizer, &[END]).guard(constraint, None);
    accepts(&mut guard.unwrap_or_else(|error| panic!("{error}")), &tokenizer, text, END)
}

/// A call of each tool.
fn calls(format: ToolFormat) -> [&'static str; 2] {
    match format {
        ToolFormat::JsonTags => [
            "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Brno\", \"days\": 3}}\n</tool_call>",
            "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>",
        ],
        ToolFormat::QwenXml => [
            "<tool_call>\n<function=weather>\n<parameter=city>\nBrno\n</parameter>\n<parameter=days>\n3\n</parameter>\n<parameter=places>\n[\"a\", \"b\"]\n</parameter>\n</function>\n</tool_call>",
            "<tool_call>\n<function=now>\n</function>\n</tool_call>",
        ],
        ToolFormat::Gemma => [
            "<|tool_call>call:weather{city:<|\"|>Br{no}<|\"|>,days:3,unit:<|\"|>C<|\"|>,exact:true,places:[<|\"|>a<|\"|>,<|\"|><|\"|>]}<tool_call|>",
            "<|tool_call>call:now{}<tool_call|>",
        ],
        ToolFormat::Llama => [
            "{\"name\": \"weather\", \"parameters\": {\"city\": \"Brno\", \"days\": 3}}",
            "{\"name\": \"now\", \"parameters\": {}}",
        ],
        ToolFormat::Lfm2 => [
            "<|tool_call_start|>[weather(city=\"Br\\\"no\", days=3, exact=True, places=[\"a\", \"b\"])]<|tool_call_end|>",
            "<|tool_call_start|>[now()]<|tool_call_end|>",
        ],
        ToolFormat::Mistral => [
            "[TOOL_CALLS][{\"name\": \"weather\", \"arguments\": {\"city\": \"Brno\", \"days\": 3}}]",
            "[TOOL_CALLS][{\"name\": \"now\", \"arguments\": {}}]",
        ],
        ToolFormat::Json => [
            "{\"name\": \"weather\", \"arguments\": {\"city\": \"Brno\", \"days\": 3}}",
            "{\"name\": \"now\", \"arguments\": {}}",
        ],
    }
}

/// Both calls together.
fn two(format: ToolFormat) -> String {
    let [first, second] = calls(format);
    let joined = |comma: &str, open: &str, close: &str| {
        let inner = |call: &str| call[open.len()..call.len() - close.len()].to_owned();
        format!("{open}{}{comma}{}{close}", inner(first), inner(second))
    };
    match format {
        ToolFormat::JsonTags | ToolFormat::QwenXml => format!("{first}\n{second}"),
        ToolFormat::Gemma => format!("{first}{second}"),
        ToolFormat::Llama => format!("{first}; {second}"),
        ToolFormat::Lfm2 => joined(", ", "<|tool_call_start|>[", "]<|tool_call_end|>"),
        ToolFormat::Mistral => joined(", ", "[TOOL_CALLS][", "]"),
        ToolFormat::Json => format!("[{first}, {second}]"),
    }
}

#[test]
fn required_calls_are_calls_and_nothing_else() {
    for format in FORMATS {
        for parallel in [true, false] {
            let required = constraint(format, ToolChoice::Required, parallel);
            for call in calls(format) {
                assert!(passes(&required, call), "{format:?} {call}");
                assert!(!passes(&required, &call[..call.len() - 2]), "{format:?} {call}");
            }
            assert_eq!(passes(&required, &two(format)), parallel, "{format:?}");
            assert!(!passes(&required, "Hello"), "{format:?}");
            assert!(!passes(&required, ""), "{format:?}");
        }
    }
}

#[test]
fn calls_or_text_of_a_form() {
    // Of the others, a call begins as the text may.
    let marked = |format: &ToolFormat| !matches!(format, ToolFormat::Llama | ToolFormat::Json);
    for format in FORMATS.into_iter().filter(marked) {
        let either = Constraint::AnyOf(vec![
            constraint(format, ToolChoice::Required, true),
            Constraint::JsonSchema(
                json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}),
            ),
        ]);
        for fits in [calls(format)[0], "{\"n\": 3}"] {
            assert!(passes(&either, fits), "{format:?} {fits}");
        }
        for strange in ["Hello", "{\"n\": true}", ""] {
            assert!(!passes(&either, strange), "{format:?} {strange}");
        }
    }
}

#[test]
fn a_named_tool_is_the_one_that_is_called() {
    for format in FORMATS {
        let [weather, now] = calls(format);
        let named = constraint(format, ToolChoice::Named("now".into()), true);
        assert!(passes(&named, now) && !passes(&named, weather), "{format:?}");
        let none = constraint(format, ToolChoice::Named("never".into()), true);
        let error = Grammars::new(&bytes_only(), &[END]).guard(&none, None).unwrap_err();
        assert!(error.to_string().contains("\"never\""), "{error}");
    }
}

#[test]
fn calls_may_come_within_text() {
    for format in FORMATS {
        let [weather, now] = calls(format);
        let auto = constraint(format, ToolChoice::Auto, true);
        assert!(passes(&auto, "Hello {world}."), "{format:?}");
        assert!(passes(&auto, weather) && passes(&auto, now), "{format:?}");
        assert!(passes(&auto, &two(format)), "{format:?}");
        if !matches!(format, ToolFormat::Llama | ToolFormat::Json) {
            assert!(passes(&auto, &format!("Let me see.\n{weather}")), "{format:?}");
            assert!(
                !passes(&auto, &format!("Let me see.\n{}", &weather.replace("weather", "wether"))),
                "{format:?}"
            );
        }
        let one = constraint(format, ToolChoice::Auto, false);
        assert!(passes(&one, weather) && !passes(&one, &two(format)), "{format:?}");
    }
}

#[test]
fn arguments_are_what_the_schema_says() {
    let wrong = [
        (ToolFormat::JsonTags, "\"days\": 3", "\"days\": 9"),
        (ToolFormat::JsonTags, "\"city\"", "\"town\""),
        (ToolFormat::QwenXml, "\n3\n", "\n9\n"),
        (ToolFormat::QwenXml, "\n3\n", "\nthree\n"),
        (ToolFormat::QwenXml, "city", "town"),
        (ToolFormat::QwenXml, "Brno", "null"),
        (ToolFormat::QwenXml, "Brno", "a</function>b"),
        (ToolFormat::Gemma, "days:3", "days:9"),
        (ToolFormat::Gemma, "<|\"|>C<|\"|>", "<|\"|>K<|\"|>"),
        (ToolFormat::Gemma, "exact:true", "exact:<|\"|>yes<|\"|>"),
        (ToolFormat::Lfm2, "days=3", "days=\"3\""),
        (ToolFormat::Lfm2, "True", "true"),
        (ToolFormat::Lfm2, "city=\"Br\\\"no\", ", ""),
        (ToolFormat::Mistral, "\"days\": 3", "\"days\": 1.5"),
    ];
    for (format, from, to) in wrong {
        let call = calls(format)[0];
        let required = constraint(format, ToolChoice::Required, false);
        assert!(call.contains(from) && passes(&required, call));
        assert!(!passes(&required, &call.replacen(from, to, 1)), "{format:?} {from} {to}");
    }
}

#[test]
fn calls_follow_reasoning() {
    let tokenizer = bytes_only();
    let grammars = Grammars::new(&tokenizer, &[END]);
    for format in FORMATS {
        for choice in [ToolChoice::Auto, ToolChoice::Required] {
            let reasoning = thinking("<think>", "</think>", true);
            let mut guard = grammars.guard(&constraint(format, choice, true), Some(&reasoning)).unwrap();
            let text = format!("What is the weather?</think>\n\n{}", calls(format)[0]);
            assert!(accepts(&mut guard, &tokenizer, &text, END), "{format:?}");
        }
    }
}

#[test]
fn text_of_xml_parameters_may_have_several_lines() {
    let required = constraint(ToolFormat::QwenXml, ToolChoice::Required, false);
    let [call, _] = calls(ToolFormat::QwenXml);
    for text in ["two\nlines", "\n", "", "</param> <b>", "nullify", "\n\nlast\n"] {
        assert!(passes(&required, &call.replace("Brno", text)), "{text:?}");
    }
}

#[test]
fn strict_tools_are_honoured_whole_or_refused() {
    let tool = |strict: bool, schema: Value| {
        let parameters = json!({"type": "object", "properties": {"a": schema}, "required": ["a"]});
        json!({"name": "f", "strict": strict, "parameters": parameters})
    };
    let beyond = [
        json!({"type": "array", "uniqueItems": true}),
        json!({"type": "object", "propertyNames": {"maxLength": 3}}),
        json!({"not": {"type": "string"}}),
        json!({"type": "string", "pattern": "^(?!x)"}),
        json!({"type": "string", "format": "color"}),
    ];
    let grammars = Grammars::new(&bytes_only(), &[END]);
    for schema in beyond {
        let guard = |strict: bool, format: ToolFormat| {
            let tools = vec![tool(strict, schema.clone())];
            grammars.guard(
                &Constraint::ToolCalls { format, tools, choice: ToolChoice::Required, parallel: true },
                None,
            )
        };
        for format in FORMATS {
            guard(false, format).unwrap_or_else(|error| panic!("{format:?} {schema}: {error}"));
            guard(true, format).map(|_| ()).expect_err(&format!("{format:?} {schema}"));
        }
    }
}

#[test]
fn names_must_be_names() {
    for name in ["", "a b", "a\"b", "a<b", &"x".repeat(129)] {
        let tools = vec![json!({"name": name})];
        let constraint = Constraint::ToolCalls {
            format: ToolFormat::Json,
            tools,
            choice: ToolChoice::Auto,
            parallel: true,
        };
        let error = Grammars::new(&bytes_only(), &[END]).guard(&constraint, None).unwrap_err();
        assert!(matches!(error, GrammarError::Tools { .. }), "{error}");
    }
}

/// The calls that whoever reads the answer finds in `ids`.
fn read_back(tokenizer: &Tokenizer, format: ToolFormat, ids: &[u32]) -> Vec<(String, Value)> {
    let format = AnswerFormat { tools: Some((format, tools())), ..AnswerFormat::default() };
    let mut parser = AnswerParser::new(tokenizer, format).unwrap();
    let mut pieces: Vec<Piece> = ids.iter().flat_map(|&id| parser.push(id)).collect();
    pieces.extend(parser.finish());
    let mut calls: Vec<(String, String)> = Vec::new();
    for piece in pieces {
        match piece {
            Piece::CallStart { name, .. } => calls.push((name, String::new())),
            Piece::CallArguments { json, .. } => calls.last_mut().unwrap().1.push_str(&json),
            Piece::CallEnd { .. } => {}
            text => panic!("{text:?} beside calls in {:?}", tokenizer.decode(ids, false)),
        }
    }
    let read = |(name, text): (String, String)| {
        (name, serde_json::from_str(&text).unwrap_or_else(|e| panic!("{text}: {e}")))
    };
    calls.into_iter().map(read).collect()
}

#[test]
fn calls_that_are_written_are_read_back() {
    let tokenizer = bytes_only();
    for format in FORMATS {
        let arguments = &read_back(&tokenizer, format, &tokenizer.encode(&two(format), true).unwrap());
        assert_eq!(arguments.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["weather", "now"]);
        assert!(arguments[0].1["city"].as_str().unwrap().starts_with("Br"), "{arguments:?}");
    }
}

/// Draws calls and reads them back.
fn check_drawn(tokenizer: &Tokenizer, stop: u32, rounds: u64) {
    let grammars = Grammars::new(tokenizer, &[stop]);
    for format in FORMATS {
        let mut found = 0;
        for round in 0..rounds {
            let choice =
                if round % 2 == 0 { ToolChoice::Required } else { ToolChoice::Named("weather".into()) };
            let mut guard = grammars.guard(&constraint(format, choice, true), None).unwrap();
            let way_out = match format {
                ToolFormat::QwenXml => "\n</parameter>",
                ToolFormat::Gemma => "<|\"|>",
                _ => "",
            };
            let mut drawn = draw_towards(way_out, &mut guard, tokenizer, &mut Rng::new(round), 500);
            if !drawn.ended {
                continue;
            }
            drawn.ids.retain(|&id| id != stop);
            let calls = read_back(tokenizer, format, &drawn.ids);
            assert!(!calls.is_empty(), "{format:?} {:?}", tokenizer.decode(&drawn.ids, false));
            found += 1;
            for (name, arguments) in calls {
                let of = |tool: &Value| tool["function"]["name"] == name.as_str();
                let schema = tools().into_iter().find(of).map(|tool| tool["function"]["parameters"].clone());
                let schema = schema.unwrap_or_else(|| json!({"maxProperties": 0}));
                let faults = validate::faults(&schema, &schema, &arguments);
                assert!(
                    faults.is_empty(),
                    "{format:?} {:?}: {faults:?}",
                    tokenizer.decode(&drawn.ids, false)
                );
            }
        }
        assert!(2 * found > rounds, "{format:?}: {found} of {rounds} ended");
    }
}

#[test]
fn drawn_calls_are_read_back_and_fit() {
    check_drawn(&bytes_only(), END, 20);
}

#[test]
fn drawn_calls_are_read_back_over_small_vocabularies() {
    for family in ["qwen2", "gemma4"] {
        let tokenizer = small(family);
        let stop = (0..tokenizer.vocab_len() as u32).find(|&id| tokenizer.is_special(id)).unwrap();
        check_drawn(&tokenizer, stop, 6);
    }
}
