//! The worker thread: requests one after the other and side by side, cancellation, a full queue, faults.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;

use common::faulty::{Fault, Faulty};
use common::*;
use dflash_engine::{
    Decoder, EngineError, EngineHandle, EngineOptions, Event, Load, Request, TokenGuard, TokenMask, Verdict,
    VerifyMode,
};
use dflash_models::Target;
use dflash_testkit::TinyLlama;

fn engine(waiting: usize) -> EngineHandle {
    let dir = tiny_llama(&TinyLlama::default());
    EngineHandle::start(
        decoder(dir.path(), Vec::new()),
        EngineOptions { max_batch: 1, waiting, step_rows: None, prefix: None },
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
    let (open, gate) = channel();
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
    let (open, gate) = channel();
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

/// Requests side by side, of which the second one is `odd`; the others must get what they get alone.
fn beside(engine: &EngineHandle, odd: Request) -> Vec<Event> {
    let submit = |first: u32| engine.submit(Request::new(vec![first, 2, 3], 40)).unwrap();
    let alone = |first: u32| {
        let dir = tiny_llama(&TinyLlama::default());
        plain(&decoder(dir.path(), Vec::new()), &[first, 2, 3], 40).ids
    };
    let (before, odd, after) = (submit(1), engine.submit(odd).unwrap(), submit(7));
    let events = odd.collect();
    assert_eq!((ids(before), ids(after)), (alone(1), alone(7)));
    events
}

fn batch(target: Box<dyn Target>) -> EngineHandle {
    let options = EngineOptions { max_batch: 4, waiting: 8, step_rows: Some(8), prefix: None };
    EngineHandle::start(Decoder::new(target, Vec::new(), common::options(VerifyMode::Fixed)), options)
}

fn tiny() -> Box<dyn Target> {
    target(tiny_llama(&TinyLlama::default()).path())
}

#[test]
fn a_fault_in_a_guard_or_a_sink_costs_its_own_request_alone() {
    let engine = batch(tiny());
    let bad = Request { guard: Some(Box::new(Explodes)), ..Request::new(vec![1], 4) };
    assert!(matches!(beside(&engine, bad).last(), Some(Event::Failed(EngineError::Fault(_)))));
    let sink = Box::new(|event| panic!("a fault in a sink at {event:?}"));
    let ticket = engine.submit_to(Request::new(vec![1], 4), sink).unwrap();
    beside(&engine, Request::new(vec![5], 20));
    drop(ticket);
    assert_eq!(engine.load().faults, 2);
    let mask = Request { guard: Some(Box::new(Nothing)), ..Request::new(vec![1], 4) };
    let failed = beside(&engine, mask).pop();
    assert_eq!(failed, Some(Event::Failed(EngineError::NothingAllowed { position: 1 })));
}

struct Nothing;

impl TokenGuard for Nothing {
    fn push(&mut self, _: u32) -> Verdict {
        Verdict::Go
    }

    fn allowed(&mut self) -> Option<&TokenMask> {
        static NONE: std::sync::LazyLock<TokenMask> = std::sync::LazyLock::new(|| TokenMask::new(97));
        Some(&NONE)
    }
}

#[test]
fn a_failed_pass_costs_the_requests_in_it_and_the_next_one_works() {
    for fault in [Fault::Panic, Fault::Device] {
        let engine = batch(Faulty::new(tiny(), fault, 5));
        let (sender, events) = channel();
        let (engine_too, mut second) = (engine.clone(), None);
        // The second one comes with the first event of the first one, so that both are in the pass.
        let first = move |event| {
            second.get_or_insert_with(|| engine_too.submit(Request::new(vec![1], 30)).unwrap());
            match event {
                Event::Failed(_) => sender.send((event, second.take())).is_ok(),
                _ => true,
            }
        };
        let _ticket = engine.submit_to(Request::new(vec![1], 30), Box::new(first)).unwrap();
        let (end, second) = events.recv().unwrap();
        for end in [Some(end), second.unwrap().last()] {
            match (fault, end) {
                (Fault::Panic, Some(Event::Failed(EngineError::Fault(text)))) => {
                    assert!(text.contains("a fault in a kernel"));
                }
                (Fault::Device, Some(Event::Failed(EngineError::Backend(_)))) => {}
                (_, end) => panic!("{fault:?}: {end:?}"),
            }
        }
        beside(&engine, Request::new(vec![4], 9));
        assert_eq!(engine.load().faults > 0, fault == Fault::Panic);
    }
}

#[test]
fn a_row_that_is_no_number_costs_nobody_whose_row_it_is_not() {
    for at in 0..12 {
        beside(&batch(Faulty::new(tiny(), Fault::NotANumber, at)), Request::new(vec![1], 9));
    }
}

#[test]
fn a_cancelled_request_leaves_within_a_step_also_in_its_prompt() {
    let engine = batch(tiny());
    let (told, prompt) = (Arc::new(AtomicUsize::new(0)), prompt(600, 97, 1));
    let told_too = Arc::clone(&told);
    let sink = Box::new(move |event| {
        told_too.fetch_add(usize::from(matches!(event, Event::Tokens(_))), Ordering::SeqCst);
        true
    });
    let ticket = engine.submit_to(Request::new(prompt, 3000), sink).unwrap();
    until(&engine, |load| load.active == 1);
    drop(ticket);
    let load = until(&engine, |load| load.active == 0);
    assert_eq!((load.cancelled, load.waiting), (1, 0));
    assert!(told.load(Ordering::SeqCst) < 3000, "it did not run to its end");
    beside(&engine, Request::new(vec![4], 9));
}
