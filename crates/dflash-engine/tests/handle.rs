//! The worker thread: one request after the other, cancellation, a full queue.

mod common;

use common::*;
use dflash_engine::{EngineError, EngineHandle, EngineOptions, Event, Load, Request, TokenGuard, Verdict};
use dflash_testkit::TinyLlama;

fn engine(waiting: usize) -> EngineHandle {
    let dir = tiny_llama(&TinyLlama::default());
    EngineHandle::start(
        decoder(dir.path(), Vec::new()),
        EngineOptions { max_batch: 1, waiting, step_rows: None },
    )
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
    let answers: Vec<Vec<u32>> = submissions.into_iter().map(ids).collect();
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
    assert_eq!(ids(second).len(), 2);
}

/// Waits until the engine is as it should be; a test that hangs has failed.
fn until(engine: &EngineHandle, is: impl Fn(&Load) -> bool) -> Load {
    loop {
        let load = engine.load();
        if is(&load) {
            return load;
        }
        std::thread::yield_now();
    }
}

#[test]
fn a_queued_request_that_is_cancelled_frees_its_place_at_once() {
    let engine = engine(1);
    let (open, gate) = std::sync::mpsc::channel();
    let held = Request { guard: Some(Box::new(Gate(gate))), ..Request::new(vec![1], 2) };
    let first = engine.submit(held).unwrap();
    let load = until(&engine, |load| load.active == 1 && load.step.is_some());
    assert_eq!((load.waiting, load.cancelled), (0, 0));
    for cancelled in 1..=3 {
        // The worker is held: nobody but the ticket can give the place free.
        let ticket = engine.submit_to(Request::new(vec![1], 2), Box::new(|_| panic!("it never ran")));
        assert_eq!(engine.load().waiting, 1);
        assert!(engine.submit(Request::new(vec![1], 2)).is_err());
        drop(ticket.unwrap());
        assert_eq!((engine.load().waiting, engine.load().cancelled), (0, cancelled));
    }
    drop(open);
    assert_eq!(ids(first).len(), 2);
    let load = until(&engine, |load| load.active == 0);
    assert!(load.alive && load.steps > 0 && load.step.is_none() && load.faults == 0, "{load:?}");
}

#[test]
fn a_request_is_told_when_it_leaves_the_queue() {
    let first = engine(1).submit(Request::new(vec![1], 2)).unwrap().next();
    assert!(matches!(first, Some(Event::Admitted { queued_s }) if queued_s >= 0.0), "{first:?}");
}

#[test]
fn a_dropped_submission_frees_the_worker() {
    let engine = engine(2);
    drop(engine.submit(Request::new(vec![1], 400)).unwrap());
    assert_eq!(ids(engine.submit(Request::new(vec![1], 3)).unwrap()).len(), 3);
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
    let events: Vec<Event> = engine.submit(bad).unwrap().collect();
    let Some(Event::Failed(EngineError::Fault(text))) = events.last() else { panic!("{events:?}") };
    assert!(text.contains("a fault in a guard"));
    let failed = engine.submit(Request::new(Vec::new(), 4)).unwrap().last();
    assert_eq!(failed, Some(Event::Failed(EngineError::EmptyPrompt)));
    assert_eq!(ids(engine.submit(Request::new(vec![1], 3)).unwrap()).len(), 3);
}

#[test]
fn logits_after_ids_have_the_choice_on_top() {
    let engine = engine(2);
    let first = ids(engine.submit(Request::new(vec![1, 2, 3], 1)).unwrap())[0];
    let logits = engine.logits_after(vec![1, 2, 3]).unwrap();
    assert_eq!(dflash_tensor::argmax(&logits), Ok(first as usize));
}
