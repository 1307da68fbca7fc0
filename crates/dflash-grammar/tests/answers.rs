//! How constrained answers begin, go on and end.

mod support;

use dflash_engine::{TokenGuard, Verdict};
use dflash_grammar::{Constraint, Grammars, Reasoning};
use dflash_testkit::Rng;
use dflash_text::Tokenizer;
use serde_json::json;
use support::{CLOSE, END, END_TOO, OPEN, accepts, bytes_only, draw, list, small};

fn grammars() -> Grammars {
    Grammars::new(&bytes_only(), &[END, END_TOO])
}

fn passes(constraint: &Constraint, reasoning: Option<&Reasoning>, text: &str) -> bool {
    let mut guard = grammars().guard(constraint, reasoning).unwrap_or_else(|error| panic!("{error}"));
    accepts(&mut guard, &bytes_only(), text, END)
}

fn schema() -> Constraint {
    Constraint::JsonSchema(json!({"type": "object", "properties": {"a": {"type": "integer"}},
        "required": ["a"], "additionalProperties": false}))
}

fn thinking(begun: bool) -> Reasoning {
    support::thinking("<think>", "</think>", begun)
}

#[test]
fn the_id_that_completes_an_answer_ends_it() {
    let mut guard = grammars().guard(&schema(), None).unwrap();
    let ids: Vec<u32> = br#"{"a": 5}"#.iter().map(|&byte| byte.into()).collect();
    let verdicts: Vec<Verdict> = ids.iter().map(|&id| guard.push(id)).collect();
    assert_eq!(verdicts[..7], [Verdict::Go; 7]);
    assert_eq!(verdicts[7], Verdict::Stop { keep: true });
}

#[test]
fn any_stop_id_ends_what_may_end() {
    let number = Constraint::JsonSchema(json!({"type": "integer"}));
    for stop in [END, END_TOO] {
        let mut guard = grammars().guard(&number, None).unwrap();
        assert!(!guard.allowed().unwrap().contains(stop), "not before there is a number");
        assert_eq!(guard.push(b'4'.into()), Verdict::Go);
        assert!(guard.allowed().unwrap().contains(stop));
        assert_eq!(guard.fits(&[b'2'.into(), stop, stop]), 2);
        assert_eq!(guard.push(stop), Verdict::Stop { keep: true });
    }
}

#[test]
fn what_does_not_fit_ends_the_answer_without_it() {
    let mut guard = grammars().guard(&schema(), None).unwrap();
    assert_eq!(guard.push(b'x'.into()), Verdict::Stop { keep: false });
    assert_eq!(list(guard.allowed().unwrap(), &bytes_only()), [END, END_TOO], "then only an end is allowed");
    assert_eq!((guard.fits(&[b'{'.into()]), guard.expected()), (0, vec![]));
    let mut guard = grammars().guard(&schema(), None).unwrap();
    assert_eq!(guard.push(u32::MAX), Verdict::Stop { keep: false });
}

#[test]
fn control_tokens_are_in_no_text() {
    let mut guard = grammars().guard(&Constraint::JsonSchema(json!({"type": "string"})), None).unwrap();
    guard.push(b'"'.into());
    let allowed = list(guard.allowed().unwrap(), &bytes_only());
    assert!(allowed.contains(&b'<'.into()) && allowed.iter().all(|&id| id < 256 && id != 255));
}

#[test]
fn blanks_are_bounded() {
    for blank in ["", " ", "\n", "\n  ", "\n                "] {
        assert!(passes(&schema(), None, &format!("{{{blank}\"a\":{blank}5{blank}}}")), "{blank:?}");
    }
    for blank in ["  ", "\n\n", "\t", "\n                 "] {
        assert!(!passes(&schema(), None, &format!("{{{blank}\"a\": 5}}")), "{blank:?}");
    }
    assert!(!passes(&schema(), None, " {\"a\": 5}"));
}

#[test]
fn keys_come_in_the_order_of_the_schema() {
    let keys = json!({"z": {"type": "null"}, "a": {"type": "null"}});
    let schema =
        Constraint::JsonSchema(json!({"type": "object", "properties": keys, "additionalProperties": false}));
    assert!(passes(&schema, None, r#"{"z": null, "a": null}"#));
    assert!(passes(&schema, None, r#"{"a": null}"#));
    assert!(!passes(&schema, None, r#"{"a": null, "z": null}"#));
}

#[test]
fn forced_text_is_expected_in_the_tokenizers_own_ids() {
    let tokenizer = small("qwen2");
    let schema = json!({"type": "object", "properties": {"description": {"type": "integer"}},
        "required": ["description"], "additionalProperties": false});
    let compact = Constraint::Lark(r#"start: "{\"description\": " /[0-9]+/ "}""#.into());
    let grammars = Grammars::new(&tokenizer, &[]);
    let expected = grammars.guard(&compact, None).unwrap().expected();
    assert!(tokenizer.decode(&expected, false).starts_with("{\"description\":"), "{expected:?}");
    let canonical = tokenizer.encode("{\"description\": ", false).unwrap();
    assert!(canonical.starts_with(&expected[..expected.len() - 1]));
    let mut guard = grammars.guard(&Constraint::JsonSchema(schema), None).unwrap();
    assert!(guard.expected().is_empty(), "there may be a blank after the bracket");
    tokenizer.encode("{\"", false).unwrap().iter().for_each(|&id| assert_eq!(guard.push(id), Verdict::Go));
    assert!("description\":".starts_with(&tokenizer.decode(&guard.expected(), false)));
    assert!(!guard.expected().is_empty());
}

#[test]
fn regular_expressions_and_grammars() {
    let regex = Constraint::Regex("[A-Z]{2}/[0-9]+|none".into());
    assert!(passes(&regex, None, "AB/12") && passes(&regex, None, "none"));
    assert!(!passes(&regex, None, "AB12") && !passes(&regex, None, "no"));
    let lark = Constraint::Lark("start: pair (\",\" pair)*\npair: NAME \"=\" NAME\nNAME: /[a-z]+/".into());
    assert!(passes(&lark, None, "a=b,c=d") && !passes(&lark, None, "a=b,c"));
}

#[test]
fn one_of_some_texts() {
    let choice = Constraint::Choice(["yes", "yes, but", "n\"o\n", "čaj"].map(str::to_owned).into());
    for text in ["yes", "yes, but", "n\"o\n", "čaj"] {
        assert!(passes(&choice, None, text), "{text:?}");
    }
    assert!(!passes(&choice, None, "yes, ") && !passes(&choice, None, ""));
    let many = Constraint::Choice((0..1024).map(|at| format!("choice {at}")).collect());
    assert!(passes(&many, None, "choice 1000") && passes(&many, None, "choice 1"));
}

#[test]
fn reasoning_comes_before_the_answer() {
    let answer = r#"{"a": 5}"#;
    for begun in [true, false] {
        let thought = |close: &str| match begun {
            true => format!("so {{\"a\"}} </thi{close}"),
            false => format!("<think>\nso {{\"a\"}} </thi{close}"),
        };
        for constraint in [schema(), Constraint::Regex(r#"\{"a": [0-9]\}"#.into())] {
            let passes = |text: &str| passes(&constraint, Some(&thinking(begun)), text);
            assert!(passes(&(thought("</think>\n\n") + answer)));
            assert!(passes(&(thought("</think>") + answer)));
            assert!(!passes(&thought("</think>")), "an answer must come");
            assert!(!passes(&thought(answer)));
            assert_eq!(passes(answer), !begun);
        }
    }
}

#[test]
fn nothing_but_the_marker_closes_reasoning() {
    let mut guard = grammars().guard(&schema(), Some(&thinking(true))).unwrap();
    let allowed = list(guard.allowed().unwrap(), &bytes_only());
    assert!(allowed.contains(&CLOSE) && !allowed.contains(&OPEN) && !allowed.contains(&END));
    assert!(allowed.contains(&b'a'.into()));
    for _ in 0..3 {
        guard.push(b'a'.into());
        assert!(guard.allowed().unwrap().contains(CLOSE));
    }
    assert_eq!(guard.fits(&[CLOSE, b'{'.into(), b'x'.into()]), 2);
}

#[test]
fn markers_may_be_text() {
    let tokenizer = small("qwen2");
    let marked = support::thinking("[THINK]", "[/THINK]", false);
    let grammars = Grammars::new(&tokenizer, &[0]);
    let passes = |text: &str| {
        let ids = tokenizer.encode(text, false).unwrap();
        let mut guard = grammars.guard(&schema(), Some(&marked)).unwrap();
        let verdicts: Vec<Verdict> = ids.iter().map(|&id| guard.push(id)).collect();
        let (last, others) = verdicts.split_last().unwrap();
        others.iter().all(|&verdict| verdict == Verdict::Go) && *last == Verdict::Stop { keep: true }
    };
    assert!(passes("[THINK]I do not know [/THINK{}].[/THINK]\n{\"a\": 5}"));
    assert!(passes("{\"a\": 5}"));
    assert!(!passes("[THINK]{\"a\": 5}"));
}

fn drawn_after_reasoning(tokenizer: &Tokenizer, stop: u32, reasoning: &Reasoning) {
    let grammars = Grammars::new(tokenizer, &[stop]);
    for round in 0..8 {
        let mut guard = grammars.guard(&schema(), Some(reasoning)).unwrap();
        let drawn = draw(&mut guard, tokenizer, &mut Rng::new(round), 600);
        let whole = tokenizer.decode(&drawn.ids, false);
        let answer = whole.rsplit(&reasoning.markers.close).next().unwrap();
        if drawn.ended {
            serde_json::from_str::<serde_json::Value>(answer)
                .unwrap_or_else(|error| panic!("{whole}: {error}"));
        }
    }
}

#[test]
fn drawn_answers_reason_first() {
    drawn_after_reasoning(&bytes_only(), END, &thinking(true));
    drawn_after_reasoning(&bytes_only(), END, &thinking(false));
    let text = support::thinking("<a>", "<b>", true);
    drawn_after_reasoning(&bytes_only(), END, &text);
}
