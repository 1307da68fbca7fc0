//! What cannot be honoured is refused by name, and what is hostile costs little.

mod support;

use dflash_engine::TokenGuard;
use dflash_grammar::{Constraint, GrammarError, GrammarGuard, Grammars};
use serde_json::{Map, Value, json};
use support::{END, bytes_only};

fn guard(constraint: &Constraint) -> Result<GrammarGuard, GrammarError> {
    Grammars::new(&bytes_only(), &[END]).guard(constraint, None)
}

fn refusal(schema: Value) -> GrammarError {
    let shown: String = schema.to_string().chars().take(200).collect();
    guard(&Constraint::JsonSchema(schema)).map(|_| ()).expect_err(&shown)
}

#[test]
fn keywords_that_cannot_be_honoured_are_named() {
    let values = [
        ("not", json!({"type": "string"})),
        ("if", json!({})),
        ("then", json!({})),
        ("contains", json!({})),
        ("uniqueItems", json!(true)),
        ("propertyNames", json!({})),
        ("dependentRequired", json!({"a": ["b"]})),
        ("dependencies", json!({"a": ["b"]})),
        ("unevaluatedProperties", json!(true)),
        ("$dynamicRef", json!("#x")),
        ("nullable", json!(true)),
        ("x-guidance", json!({"lenient": true})),
    ];
    for (keyword, value) in values {
        let at = "#/properties/deep/items";
        let mut schema = json!({"type": "object", "properties": {"deep": {"type": "array", "items": {}}}});
        schema.pointer_mut("/properties/deep/items").unwrap()[keyword] = value;
        let expected = GrammarError::Keyword { keyword: keyword.into(), at: at.into() };
        assert_eq!(refusal(schema), expected);
    }
    let named_like =
        json!({"type": "object", "properties": {"not": {"type": "string"}, "if": {"const": {"not": 1}}}});
    guard(&Constraint::JsonSchema(named_like)).expect("names of properties are no keywords");
    guard(&Constraint::JsonSchema(json!({"type": "array", "uniqueItems": false}))).expect("says nothing");
}

#[test]
fn other_faults_are_told() {
    let cases = [
        (json!({"type": "string", "format": "color"}), "color"),
        (json!({"type": "strung"}), "strung"),
        (json!({"type": 5}), "type"),
        (json!({"$ref": "#/$defs/none"}), "#/$defs/none"),
        (json!({"$ref": "https://example.com/schema.json"}), "https://example.com"),
        (json!({"type": "string", "pattern": "("}), "unclosed group"),
        (json!({"type": "string", "pattern": "^(?!x)"}), "(?!x)"),
        (json!({"type": "integer", "multipleOf": 0}), "multipleOf"),
        (json!({"type": "integer", "multipleOf": -3}), "multipleOf"),
        (json!({"properties": []}), "properties"),
        (json!({"anyOf": {}}), "anyOf"),
        (json!({"items": 3}), "items"),
        (json!({"enum": []}), "anyOf"),
        (json!({"type": "array", "minItems": 3, "maxItems": 2}), "3"),
        (json!({"oneOf": [{"minimum": 1}, {"maximum": 3}]}), "oneOf"),
        (json!(false), "nothing"),
        (json!([]), "object"),
        (json!("x"), "object"),
    ];
    for (schema, word) in cases {
        let told = refusal(schema.clone()).to_string();
        assert!(told.contains(word), "{schema}: {told}");
        assert!(told.len() < 400 && !told.contains("panicked"), "{schema}: {told}");
    }
}

#[test]
fn grammars_and_regular_expressions_are_checked() {
    let cases = [
        (Constraint::Regex("(".into()), "regular expression"),
        (Constraint::Regex("a".repeat(2000)), "2000"),
        (Constraint::Lark("start: rule".into()), "rule"),
        (Constraint::Lark("begin: \"x\"".into()), "start"),
        (Constraint::Lark("start: %json {\"type\": \"string\"}".into()), "%json"),
        (Constraint::Lark(format!("start: {}\"x\"{}", "(".repeat(100), ")".repeat(100))), "nesting"),
        (Constraint::Lark("x".repeat(70_000)), "70000"),
    ];
    for (constraint, word) in cases {
        let told = guard(&constraint).map(|_| ()).expect_err(word).to_string();
        assert!(told.contains(word), "{told}");
    }
}

#[test]
fn what_is_too_large_is_refused() {
    let properties: Map<String, Value> = (0..5000).map(|at| (format!("p{at}"), json!({}))).collect();
    assert!(matches!(refusal(json!({"properties": properties})), GrammarError::TooLarge { .. }));
    let deep = (0..70).fold(json!({}), |inner, _| json!({"items": inner}));
    assert!(matches!(refusal(deep), GrammarError::TooLarge { .. }));
    let long = json!({"enum": ["x".repeat(300_000)]});
    assert!(matches!(refusal(long), GrammarError::TooLarge { .. }));
    let pattern = json!({"type": "string", "pattern": "(a|b)".repeat(300)});
    assert!(matches!(refusal(pattern), GrammarError::TooLarge { .. }));
    let multiples = json!({"allOf": [{"multipleOf": 997}, {"multipleOf": 9.91}]});
    assert!(matches!(refusal(multiples), GrammarError::TooLarge { .. }));
    guard(&Constraint::JsonSchema(json!({"anyOf": [{"multipleOf": 0.01}, {"multipleOf": 250}]})))
        .expect("small");
}

/// Schemas made to be costly: each is refused or followed for a while, and none takes the process down.
#[test]
fn hostile_schemas_are_survived() {
    let chain: Map<String, Value> =
        (0..1900).map(|at| (format!("d{at}"), json!({"$ref": format!("#/$defs/d{}", at + 1)}))).collect();
    let mut chain = json!({"$ref": "#/$defs/d0", "$defs": chain});
    chain["$defs"]["d1900"] = json!({"type": "integer"});
    let wide: Map<String, Value> =
        (0..1900).map(|at| (format!("p{at}"), json!({"type": "integer"}))).collect();
    let nested = (0..60).fold(
        json!({"type": "integer"}),
        |inner, _| json!({"type": "object", "properties": {"a": inner}, "required": ["a"]}),
    );
    let choices = |n: usize| -> Vec<Value> {
        (0..n)
            .map(|at| json!({"type": "object", "properties": {format!("k{at}"): {"type": "integer"}}}))
            .collect()
    };
    let words: Vec<String> = (0..20_000).map(|at| format!("word{at}")).collect();
    let schemas = vec![
        chain,
        json!({"type": "object", "properties": wide, "additionalProperties": false}),
        nested,
        json!({"allOf": [{"anyOf": choices(40)}, {"anyOf": choices(40)}, {"anyOf": choices(40)}]}),
        json!({"enum": words}),
        json!({"type": "string", "minLength": 1_000_000}),
        json!({"type": "string", "maxLength": 4_000_000_000u64}),
        json!({"type": "array", "minItems": 1_000_000_000u64}),
        json!({"type": "array", "maxItems": 1_000_000_000u64, "items": {"type": "array", "maxItems": 1_000_000}}),
        json!({"type": "string", "pattern": "^(a?){200}(a{200})$"}),
        json!({"type": "string", "pattern": "((a{0,50}){0,50}){0,50}"}),
        json!({"type": "string", "pattern": ".*a.{50}b.{50}c"}),
        json!({"type": "integer", "multipleOf": 9973}),
        json!({"type": "number", "multipleOf": 1e-300}),
        json!({"type": "number", "minimum": 1e308, "maximum": 1.7e308}),
        json!({"type": "object", "patternProperties": {"a.*b.*c": {}, "x.*y.*z": {}}}),
        json!({"$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}]}}, "$ref": "#/$defs/a"}),
        json!({"$ref": "#"}),
        json!({"allOf": [{"$ref": "#"}, {"type": "object"}]}),
    ];
    for schema in schemas {
        if let Ok(mut guard) = guard(&Constraint::JsonSchema(schema)) {
            for _ in 0..40 {
                let mask = guard.allowed().expect("a mask").clone();
                let Some(id) = (0..256).rev().find(|&id| mask.contains(id)) else { break };
                guard.push(id);
            }
        }
    }
}

#[test]
fn a_text_that_is_forced_and_endless_is_refused_at_once() {
    for pattern in ["(a{1000}){1000}", "x((a{100}){100}){100}"] {
        let refused = guard(&Constraint::Regex(pattern.into())).expect_err(pattern);
        assert!(matches!(refused, GrammarError::Grammar { kind: "regular expression", .. }), "{refused}");
    }
    for pattern in ["(a{90}){90}", "(.{1000}){1000}", "[^\\s\\S]", ""] {
        guard(&Constraint::Regex(pattern.into())).expect(pattern);
    }
}
