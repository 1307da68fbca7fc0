//! The worker thread: one request after the other, cancellation, a full queue.

mod common;

use common::*;
use dflash_engine::{EngineError, EngineHandle, Event, Request, TokenGuard, Verdict};
use dflash_testkit::TinyLlama;

fn engine(waiting: usize) -> EngineHandle {
    let dir = tiny_llama(&TinyLlama::default());
    EngineHandle::start(decoder(dir.path(), Vec::new()), waiting)
}

fn ids(events: impl Iterator<Item = Event>) -> Vec<u32> {
    let tokens = |event| if let Event::Tokens(ids) = event { ids } else { Vec::new() };
    events.flat_map(tokens).collect()
}

#[test]
fn requests_run_in_order_and_independently() {
    let engine = engine(8);
    let submissions: Vec<_> =
        (0..4).map(|i| engine.submit(Request::new(vec![1 + i % 2, 2, 3], 8)).unwrap()).collect();
    let answers: Vec<Vec<u32>> = submissions.into_iter().map(|events| ids(events.into_iter())).collect();
    assert_eq!(answers[0], answers[2]);
    assert_eq!(answers[1], answers[3]);
    assert_eq!(answers[0].len(), 8);
}

/// Holds the worker until its channel closes.
struct Gate(std::sync::mpsc::Receiver<()>);

impl TokenGuard for Gate {
    fn push(&mut self, _: u32) -> Verdict {
        let _ = self.0.recv();
        Verdict::Go
    }
}

#[test]
fn a_full_queue_is_an_answer() {
    let engine = engine(1);
    let (open, gate) = std::sync::mpsc::channel();
    let held = Request { guard: Some(Box::new(Gate(gate))), ..Request::new(vec![1], 2) };
    let first = engine.submit(held).unwrap();
    // Once the first request shows progress the queue is empty again.
    first.recv().unwrap();
    let second = engine.submit(Request::new(vec![1], 2)).unwrap();
    assert_eq!(engine.submit(Request::new(vec![1], 2)).unwrap_err(), EngineError::Busy { waiting: 1 });
    drop(open);
    assert_eq!(ids(second.into_iter()).len(), 2);
}

#[test]
fn a_dropped_submission_frees_the_worker() {
    let engine = engine(2);
    drop(engine.submit(Request::new(vec![1], 400)).unwrap());
    assert_eq!(ids(engine.submit(Request::new(vec![1], 3)).unwrap().into_iter()).len(), 3);
}

struct Explodes;

impl TokenGuard for Explodes {
    fn push(&mut self, _: u32) -> Verdict {
        panic!("a fault in a guard")
    }
}

#[test]
fn a_fault_costs_one_request() {
    let engine = engine(2);
    let bad = Request { guard: Some(Box::new(Explodes)), ..Request::new(vec![1], 4) };
    let events: Vec<Event> = engine.submit(bad).unwrap().into_iter().collect();
    let Some(Event::Failed(EngineError::Fault(text))) = events.last() else { panic!("{events:?}") };
    assert!(text.contains("a fault in a guard"));
    let failed = engine.submit(Request::new(Vec::new(), 4)).unwrap().into_iter().last();
    assert_eq!(failed, Some(Event::Failed(EngineError::EmptyPrompt)));
    assert_eq!(ids(engine.submit(Request::new(vec![1], 3)).unwrap().into_iter()).len(), 3);
}

#[test]
fn logits_after_ids_have_the_choice_on_top() {
    let engine = engine(2);
    let first = ids(engine.submit(Request::new(vec![1, 2, 3], 1)).unwrap().into_iter())[0];
    let logits = engine.logits_after(vec![1, 2, 3]).unwrap();
    assert_eq!(dflash_tensor::argmax(&logits), Ok(first as usize));
}
