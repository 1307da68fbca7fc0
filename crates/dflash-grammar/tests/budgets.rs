//! Blocks of reasoning that have gone on long enough.

mod support;

use dflash_engine::{TokenGuard, Verdict};
use dflash_grammar::{Constraint, Grammars, Guards, ThinkingBudget};
use serde_json::json;
use support::{CLOSE, END, OPEN, bytes_only, list, small, thinking};

const A: u32 = b'a' as u32;

fn budget(begun: bool, ids: usize) -> ThinkingBudget {
    ThinkingBudget::new(&bytes_only(), &thinking("<think>", "</think>", begun), ids).unwrap()
}

fn forced(guard: &mut dyn TokenGuard) -> Option<Vec<u32>> {
    guard.allowed().map(|mask| list(mask, &bytes_only()))
}

fn push_all(guard: &mut dyn TokenGuard, ids: &[u32]) {
    assert!(ids.iter().all(|&id| guard.push(id) == Verdict::Go));
}

#[test]
fn a_block_is_closed_when_its_budget_is_spent() {
    let mut guard = budget(true, 3);
    for spent in 0..3 {
        assert_eq!((forced(&mut guard), guard.expected()), (None, vec![]));
        assert_eq!(guard.fits(&[A; 5]), 3 - spent);
        guard.push(A);
    }
    assert_eq!((forced(&mut guard), guard.expected()), (Some(vec![CLOSE]), vec![CLOSE]));
    assert_eq!((guard.fits(&[A]), guard.fits(&[CLOSE])), (0, 1));
    guard.push(CLOSE);
    push_all(&mut guard, &[A; 9]);
    assert_eq!((forced(&mut guard), guard.fits(&[A; 5])), (None, 5));
}

#[test]
fn every_block_has_its_budget() {
    let mut guard = budget(false, 2);
    push_all(&mut guard, &[A; 9]);
    assert_eq!(forced(&mut guard), None, "no block yet");
    for _ in 0..3 {
        push_all(&mut guard, &[OPEN, A]);
        assert_eq!(forced(&mut guard), None);
        guard.push(A);
        assert_eq!(forced(&mut guard), Some(vec![CLOSE]));
        guard.push(CLOSE);
    }
    push_all(&mut guard, &[OPEN, A, CLOSE, A, A, A]);
    assert_eq!(forced(&mut guard), None, "it closed by itself");
}

#[test]
fn no_budget_closes_at_once() {
    assert_eq!(forced(&mut budget(true, 0)), Some(vec![CLOSE]));
    let mut guard = budget(false, 0);
    assert_eq!(forced(&mut guard), None);
    guard.push(OPEN);
    assert_eq!(forced(&mut guard), Some(vec![CLOSE]));
}

#[test]
fn markers_of_several_ids_come_id_by_id() {
    let tokenizer = small("qwen2");
    let close = tokenizer.encode("[/THINK]", false).unwrap();
    assert!(close.len() > 2);
    let mut guard = ThinkingBudget::new(&tokenizer, &thinking("[THINK]", "[/THINK]", true), 1).unwrap();
    guard.push(close[0]);
    for (at, &id) in close.iter().enumerate() {
        assert_eq!(guard.expected(), close[at..]);
        assert_eq!(list(guard.allowed().unwrap(), &tokenizer), [id]);
        guard.push(id);
    }
    assert!(guard.allowed().is_none() && guard.expected().is_empty());
}

#[test]
fn a_budget_and_a_grammar_go_together() {
    let tokenizer = bytes_only();
    let reasoning = thinking("<think>", "</think>", true);
    let schema = Constraint::JsonSchema(json!({"type": "integer"}));
    let mut guards = Guards::new();
    guards.add(Grammars::new(&tokenizer, &[END]).guard(&schema, Some(&reasoning)).unwrap());
    guards.add(ThinkingBudget::new(&tokenizer, &reasoning, 2).unwrap());
    let mut guard = guards.boxed().unwrap();
    assert!(forced(&mut *guard).unwrap().len() > 100);
    push_all(&mut *guard, &[A, 0xC5]);
    assert!(!forced(&mut *guard).unwrap().contains(&CLOSE), "a character is not cut");
    guard.push(0xBE);
    assert_eq!((forced(&mut *guard), guard.expected()), (Some(vec![CLOSE]), vec![CLOSE]));
    push_all(&mut *guard, &[CLOSE, b'7'.into()]);
    assert_eq!(guard.fits(&[b'1'.into(), END, A]), 2);
    assert_eq!(guard.push(END), Verdict::Stop { keep: true });
}
