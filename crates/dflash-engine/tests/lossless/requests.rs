//! What a request asks for: prompts, budgets, stops, guards, and their ends.

use dflash_engine::{Decoder, FinishReason, Request, TokenGuard, Verdict, VerifyMode};
use dflash_testkit::{Script, TinyLlama};

use crate::common::cases::Case;
use crate::common::truth::Truth;
use crate::common::*;

#[test]
fn every_prompt_length_around_the_chunk() {
    for case in Case::kinds() {
        for len in 1..2 * 24 + BLOCK {
            let truth = Truth::hashed(&case, len, 12);
            let mut options = options(VerifyMode::Fixed);
            options.prefill_chunk = 24;
            let draft = truth.scripted(Script::RightFor(2), 3);
            let chunked = Decoder::new(truth.target(), vec![draft], options);
            let got = speculative(&chunked, &truth.prompt, 12);
            assert_eq!(got.ids, truth.ids, "{}: prompt of {len}", case.name);
        }
    }
}

#[test]
fn a_second_request_is_as_if_the_first_had_not_been() {
    let case = Case::tiny_llama();
    let truth = Truth::hashed(&case, 10, 20);
    let decoder = truth.decoder(vec![truth.scripted(Script::RightFor(3), 0)]);
    let long = prompt(200, truth.vocab, 99);
    speculative(&decoder, &long, 20);
    assert_eq!(speculative(&decoder, &truth.prompt, 20).ids, truth.ids);
}

#[test]
fn the_budget_is_exact() {
    for case in Case::kinds() {
        let truth = Truth::hashed(&case, 5, 40);
        for script in [Script::Oracle, Script::RightFor(2)] {
            let decoder = truth.decoder(vec![truth.scripted(script, 0)]);
            for max in [0, 1, 2, 3, 15, 16, 17, 18, 33] {
                let got = speculative(&decoder, &truth.prompt, max);
                assert_eq!((&got.ids[..], got.reason), (&truth.ids[..max], FinishReason::Length));
            }
        }
    }
}

#[test]
fn a_stop_id_ends_the_answer_wherever_it_falls() {
    for case in Case::kinds() {
        let truth = Truth::hashed(&case, 6, 40);
        for script in [Script::Oracle, Script::RightFor(2), Script::Hostile] {
            let decoder = truth.decoder(vec![truth.scripted(script, 5)]);
            truth.ids.iter().for_each(|&stop| check_stop(&decoder, &truth, stop));
        }
    }
}

/// An id of the answer as a stop id, with the budget that just reaches it and a larger one.
fn check_stop(decoder: &Decoder, truth: &Truth<'_>, stop: u32) {
    let first = truth.ids.iter().position(|&id| id == stop).expect("an id of the answer");
    for max in [first + 1, 40] {
        let stop_ids = vec![u32::MAX, stop];
        let got = answer(decoder, Request { stop_ids, ..Request::new(truth.prompt.clone(), max) });
        assert_eq!(got.ids, truth.ids[..=first], "{}: stop at {first}, budget {max}", truth.case.name);
        assert_eq!(got.reason, FinishReason::Stop, "a stop inside the budget is a stop");
    }
}

#[test]
fn a_drafted_stop_id_that_the_target_refuses_stops_nothing() {
    let case = Case::tiny_llama();
    let truth = Truth::hashed(&case, 6, 30);
    // The script's wrong ids are truth + 1; take one the answer itself never holds.
    let wrong = truth.ids.iter().map(|id| (id + 1) % truth.vocab as u32).find(|id| !truth.ids.contains(id));
    let decoder = truth.decoder(vec![truth.scripted(Script::RightFor(0), 0)]);
    let stop_ids = vec![wrong.expect("an id outside of the answer")];
    let got = answer(&decoder, Request { stop_ids, ..Request::new(truth.prompt.clone(), 30) });
    assert_eq!((got.ids, got.reason), (truth.ids, FinishReason::Length));
}

/// Stops at the n-th id.
struct Nth {
    left: usize,
    keep: bool,
}

impl TokenGuard for Nth {
    fn push(&mut self, _: u32) -> Verdict {
        self.left -= 1;
        if self.left == 0 { Verdict::Stop { keep: self.keep } } else { Verdict::Go }
    }
}

#[test]
fn a_guard_cuts_inside_a_block() {
    let case = Case::tiny_llama();
    let truth = Truth::hashed(&case, 6, 40);
    let decoder = truth.decoder(vec![truth.scripted(Script::Oracle, 0)]);
    for n in 1..=20 {
        for keep in [true, false] {
            let guard = Some(Box::new(Nth { left: n, keep }) as _);
            let got = answer(&decoder, Request { guard, ..Request::new(truth.prompt.clone(), 40) });
            assert_eq!(got.ids, truth.ids[..n - usize::from(!keep)], "the guard's {n}th, keep {keep}");
            assert_eq!(got.reason, FinishReason::Stop);
        }
    }
}

#[test]
fn the_context_ends_an_answer_with_length() {
    let dir = tiny_llama(&TinyLlama { context: 64, ..TinyLlama::default() });
    let whole = decoder(dir.path(), Vec::new());
    let spec = whole.target().spec();
    let (vocab, context) = (spec.vocab, spec.context);
    for len in [1, context - 17, context - 1] {
        let prompt = prompt(len, vocab, 3);
        let truth = plain(&whole, &prompt, 1000);
        assert_eq!((truth.ids.len(), truth.reason), (context - len, FinishReason::Length));
        let all = [&prompt[..], &truth.ids].concat();
        let oracle = decoder(dir.path(), vec![scripted(&all, Script::Oracle, vocab, 0)]);
        assert_eq!(speculative(&oracle, &prompt, 1000).ids, truth.ids);
    }
    let error = whole.decode(Request::new(prompt(context, vocab, 3), 1), &mut |_| true).unwrap_err();
    assert!(error.to_string().contains("nothing can be generated"), "{error}");
}

#[test]
fn bad_prompts_are_refused() {
    let dir = tiny_llama(&TinyLlama::default());
    let decoder = decoder(dir.path(), Vec::new());
    let vocab = decoder.target().spec().vocab as u32;
    for (prompt, says) in [(vec![], "empty"), (vec![1, vocab], "vocabulary"), (vec![u32::MAX], "vocabulary")]
    {
        let error = decoder.decode(Request::new(prompt, 4), &mut |_| true).unwrap_err();
        assert!(error.to_string().contains(says), "{error}");
    }
}

#[test]
fn a_consumer_that_leaves_ends_the_request() {
    let case = Case::tiny_llama();
    let truth = Truth::hashed(&case, 6, 40);
    let decoder = truth.decoder(vec![truth.scripted(Script::RightFor(0), 0)]);
    let mut seen = 0;
    let request = Request::new(truth.prompt.clone(), 40);
    decoder
        .decode(request, &mut |_| {
            seen += 1;
            seen < 6
        })
        .unwrap();
    assert_eq!(seen, 6);
}
