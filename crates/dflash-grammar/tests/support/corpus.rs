//! Schemas of all kinds, and answers drawn from their masks.

use dflash_grammar::{Constraint, Grammars};
use dflash_testkit::Rng;
use dflash_text::Tokenizer;
use serde_json::{Value, json};

use super::{draw, validate};

/// Schemas of all kinds that can be honoured.
pub fn corpus() -> Vec<Value> {
    vec![
        json!({}),
        json!({"type": "object"}),
        json!({"type": "object", "properties": {}, "additionalProperties": false}),
        json!({"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}}, "required": ["name", "age"], "additionalProperties": false}),
        json!({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "boolean"}, "c": {"type": "null"}}, "additionalProperties": false}),
        json!({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}, "c": {"type": "number"}}, "required": ["b"], "additionalProperties": false}),
        json!({"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": {"type": "boolean"}}),
        json!({"type": "object", "additionalProperties": {"type": "integer", "minimum": 0, "maximum": 9}}),
        json!({"type": "object", "patternProperties": {"^x_[a-z]+$": {"type": "integer"}}, "additionalProperties": false}),
        json!({"type": "object", "properties": {"a": {"type": "object", "properties": {"b": {"type": "object", "properties": {"c": {"type": "array", "items": {"type": "integer"}}}, "required": ["c"], "additionalProperties": false}}, "required": ["b"], "additionalProperties": false}}, "required": ["a"], "additionalProperties": false}),
        json!({"type": "object", "properties": {"jméno": {"type": "string"}, "年齢": {"type": "integer"}, "a\"b\\c": {"type": "boolean"}}, "required": ["jméno", "年齢", "a\"b\\c"], "additionalProperties": false}),
        json!({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "minProperties": 1, "additionalProperties": false}),
        json!({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "maxProperties": 1, "additionalProperties": false}),
        json!({"type": "array", "items": {"type": "integer"}}),
        json!({"type": "array", "items": {"type": "string"}, "minItems": 2, "maxItems": 4}),
        json!({"type": "array", "items": {"type": "boolean"}, "minItems": 3, "maxItems": 3}),
        json!({"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}], "items": false, "minItems": 2}),
        json!({"type": "array", "prefixItems": [{"const": "x"}], "items": {"type": "boolean"}, "minItems": 1, "maxItems": 3}),
        json!({"type": "array", "items": {"type": "array", "items": {"enum": [0, 1]}, "minItems": 1, "maxItems": 2}, "maxItems": 2}),
        json!({"enum": ["red", "green", "blue", "gr\u{fc}n", "\u{1f600}", "a \"quoted\" one"]}),
        json!({"enum": [1, 2.5, "three", null, true, {"four": 4}, [5]]}),
        json!({"const": {"kind": "fixed", "list": [1, 2, 3]}}),
        json!({"const": "just this"}),
        json!({"type": ["string", "null"]}),
        json!({"type": ["integer", "boolean"]}),
        json!({"type": "string"}),
        json!({"type": "string", "minLength": 3, "maxLength": 5}),
        json!({"type": "string", "maxLength": 0}),
        json!({"type": "string", "pattern": "^[A-Z]{2}-[0-9]{3}$"}),
        json!({"type": "string", "pattern": "b+"}),
        json!({"type": "string", "pattern": "^\\w+@\\d+$"}),
        json!({"type": "string", "format": "date-time"}),
        json!({"type": "string", "format": "date"}),
        json!({"type": "string", "format": "time"}),
        json!({"type": "string", "format": "uuid"}),
        json!({"type": "string", "format": "email", "maxLength": 40}),
        json!({"type": "string", "format": "ipv4"}),
        json!({"type": "integer", "minimum": -3, "maximum": 120}),
        json!({"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 10}),
        json!({"type": "integer", "multipleOf": 7}),
        json!({"type": "number", "minimum": 0, "maximum": 1}),
        json!({"type": "number", "exclusiveMinimum": -1.5, "maximum": 2.25}),
        json!({"type": "number", "minimum": 10}),
        json!({"anyOf": [{"type": "integer"}, {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"], "additionalProperties": false}]}),
        json!({"oneOf": [{"type": "object", "properties": {"kind": {"const": "a"}, "x": {"type": "integer"}}, "required": ["kind", "x"], "additionalProperties": false}, {"type": "object", "properties": {"kind": {"const": "b"}, "y": {"type": "string"}}, "required": ["kind", "y"], "additionalProperties": false}]}),
        json!({"allOf": [{"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}, {"type": "object", "properties": {"b": {"type": "boolean"}}, "required": ["b"]}]}),
        json!({"$defs": {"point": {"type": "object", "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}}, "required": ["x", "y"], "additionalProperties": false}}, "type": "array", "items": {"$ref": "#/$defs/point"}, "minItems": 1, "maxItems": 3}),
        json!({"definitions": {"node": {"type": "object", "properties": {"value": {"type": "integer"}, "next": {"anyOf": [{"$ref": "#/definitions/node"}, {"type": "null"}]}}, "required": ["value", "next"], "additionalProperties": false}}, "$ref": "#/definitions/node"}),
        json!({"type": "object", "properties": {"self": {"$ref": "#"}}, "additionalProperties": false}),
        json!({"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "A thing", "description": "d", "type": "object", "properties": {"a": {"type": "integer", "default": 3, "examples": [1], "deprecated": true}}, "required": ["a"], "additionalProperties": false}),
    ]
}

/// Draws answers to every schema.
pub fn check_corpus(tokenizer: &Tokenizer, stop_ids: &[u32], rounds: u64) {
    let grammars = Grammars::new(tokenizer, stop_ids);
    for (index, schema) in corpus().iter().enumerate() {
        let fresh = grammars.guard(&Constraint::JsonSchema(schema.clone()), None);
        let mut guard = fresh.unwrap_or_else(|error| panic!("{schema}: {error}"));
        let mut ended = 0;
        for round in 0..rounds {
            let mut rng = Rng::new(1000 * index as u64 + round);
            let drawn = draw(&mut guard, tokenizer, &mut rng, 400);
            ended += usize::from(drawn.ended);
            if drawn.ended {
                check_answer(schema, &drawn.text);
            }
            guard = grammars.guard(&Constraint::JsonSchema(schema.clone()), None).unwrap();
        }
        assert!(2 * ended as u64 > rounds, "{ended} answers of {rounds} ended to {schema}");
    }
}

fn check_answer(schema: &Value, text: &str) {
    match serde_json::from_str::<Value>(text) {
        Ok(value) => {
            let faults = validate::faults(schema, schema, &value);
            assert!(faults.is_empty(), "{text:?} to {schema}: {faults:?}");
        }
        // 1e999 is JSON; it is Rust that cannot hold it.
        Err(error) => assert!(error.to_string().contains("out of range"), "{text:?} to {schema}: {error}"),
    }
}
