//! Every field is obeyed or refused.

use std::collections::BTreeMap;

use dflash_engine::sampling::{Field, SamplingError};
use dflash_engine::{
    Decoder, EngineError, EngineHandle, EngineOptions, Event, Request, Sampling, SamplingParams, VerifyMode,
};
use dflash_testkit::Script;

use crate::common::cases::Case;
use crate::common::sampled::{Sampled, request};
use crate::common::*;

fn decoder() -> Decoder {
    Decoder::new(target(&Case::tiny_llama().path), Vec::new(), options(VerifyMode::Fixed))
}

fn warm() -> Sampling {
    Sampling { temperature: 1.0, seed: 7, ..Sampling::default() }
}

const PROMPT: [u32; 5] = [1, 9, 17, 9, 40];

#[test]
fn every_field_changes_the_answer() {
    let decoder = decoder();
    let ids = |request: Request| answer(&decoder, request).ids;
    let base = ids(request(&PROMPT, &warm(), 40));
    for changed in [
        Sampling { temperature: 0.0, ..warm() },
        Sampling { temperature: 0.5, ..warm() },
        Sampling { top_k: 5, ..warm() },
        Sampling { top_p: 0.5, ..warm() },
        Sampling { min_p: 0.5, ..warm() },
        Sampling { repetition_penalty: 1.5, ..warm() },
        Sampling { presence_penalty: 1.0, ..warm() },
        Sampling { frequency_penalty: 1.0, ..warm() },
        Sampling { logit_bias: BTreeMap::from([(base[0], -100.0)]), ..warm() },
        Sampling { seed: 8, ..warm() },
    ] {
        assert_ne!(ids(request(&PROMPT, &changed, 40)), base, "{changed:?}");
    }
    assert_ne!(ids(Request { choice: 1, ..request(&PROMPT, &warm(), 40) }), base);
    let told = |logprobs| answer(&decoder, Request { logprobs, ..request(&PROMPT, &warm(), 4) }).logprobs;
    assert_eq!((told(None).len(), told(Some(0)).len(), told(Some(5))[3].top.len()), (0, 4, 5));
}

/// Temperature 0 is greedy, whatever else is set, and so is one candidate.
#[test]
fn the_highest_logit_is_taken_at_temperature_0_and_with_one_candidate() {
    let decoder = decoder();
    let truth = plain(&decoder, &PROMPT, 40).ids;
    for sampling in [
        Sampling { top_p: 0.9, top_k: 40, min_p: 0.1, seed: 5, ..Sampling::default() },
        Sampling { top_k: 1, ..warm() },
        Sampling { logit_bias: BTreeMap::from([(3, 0.0)]), ..Sampling::default() },
    ] {
        assert!(SamplingParams::new(sampling.clone()).unwrap().is_plain());
        for _ in 0..5 {
            let request = Request { logprobs: None, ..request(&PROMPT, &sampling, 40) };
            assert_eq!(answer(&decoder, request).ids, truth);
        }
        // With log-probabilities the logits are stored, and the choice is the same.
        assert_eq!(answer(&decoder, request(&PROMPT, &sampling, 40)).ids, truth);
    }
}

#[test]
fn a_seed_gives_one_text_whatever_was_asked_between() {
    let engine = EngineHandle::start(
        decoder(),
        EngineOptions { max_batch: 1, waiting: 4, step_rows: None, prefix: None },
    );
    let ids = |request: Request| {
        let tokens = |event| if let Event::Tokens(ids) = event { ids } else { Vec::new() };
        engine.submit(request).unwrap().flat_map(tokens).collect::<Vec<u32>>()
    };
    let penalised = Sampling { temperature: 0.8, repetition_penalty: 1.2, ..warm() };
    for sampling in [Sampling { temperature: 0.8, ..warm() }, penalised] {
        let asked = || request(&PROMPT, &sampling, 60);
        let first = ids(asked());
        let other = Sampling { seed: 8, ..sampling.clone() };
        assert_ne!(ids(request(&PROMPT, &other, 60)), first);
        ids(request(&[3], &Sampling { frequency_penalty: 1.0, ..warm() }, 30));
        assert_eq!(ids(asked()), first);
    }
}

/// B-018 of old: the draft need not know the penalties for the text to be right.
#[test]
fn a_draft_of_the_unpenalised_answer_changes_nothing() {
    let case = Case::tiny_llama();
    let sampling = Sampling { repetition_penalty: 1.3, ..Sampling::default() };
    let sampled = Sampled::new(&case, sampling, 9, 60);
    let greedy =
        plain(&Decoder::new(sampled.target(), Vec::new(), options(VerifyMode::Off)), &sampled.prompt, 60);
    assert_ne!(greedy.ids, sampled.answer.ids);
    let whole = [&sampled.prompt[..], &greedy.ids].concat();
    let draft = scripted(&whole, Script::Oracle, sampled.vocab, 0);
    let decoder = Decoder::new(sampled.target(), vec![draft], options(VerifyMode::Fixed));
    sampled.check(&decoder, "drafted without penalties");
}

#[test]
fn wrong_numbers_are_refused_by_name() {
    type Set = fn(&mut Sampling, f64);
    let fields: [(Field, &[f64], &[f64], Set); 7] = [
        (Field::Temperature, &[-0.1, 101.0], &[0.0, 1e-9, 2.0, 100.0], |s, x| s.temperature = x),
        (Field::TopP, &[0.0, -0.5, 1.01], &[1e-9, 0.5, 1.0], |s, x| s.top_p = x),
        (Field::MinP, &[-0.1, 1.01], &[0.0, 0.5, 1.0], |s, x| s.min_p = x),
        (Field::RepetitionPenalty, &[0.0, -1.0, 1e30], &[0.01, 1.0, 100.0], |s, x| s.repetition_penalty = x),
        (Field::PresencePenalty, &[-2.01, 2.01], &[-2.0, 2.0], |s, x| s.presence_penalty = x),
        (Field::FrequencyPenalty, &[-2.01, 2.01], &[-2.0, 2.0], |s, x| s.frequency_penalty = x),
        (Field::LogitBias, &[-101.0, 101.0], &[-100.0, 0.0, 100.0], |s, x| {
            s.logit_bias = BTreeMap::from([(1, 2.0), (3, x)]);
        }),
    ];
    for (field, wrong, right, set) in fields {
        let with = |value| {
            let mut sampling = Sampling::default();
            set(&mut sampling, value);
            SamplingParams::new(sampling)
        };
        for &given in wrong.iter().chain(&[f64::NAN, f64::INFINITY, f64::NEG_INFINITY]) {
            let error = with(given).unwrap_err();
            let SamplingError::OutOfRange { field: named, .. } = error else { panic!("{error:?}") };
            assert_eq!(named, field);
            let text = error.to_string();
            assert!(text.contains(field.name()) && text.contains(field.valid()), "{text}");
            assert!(text.contains(&given.to_string()), "{text}");
        }
        right.iter().for_each(|&given| assert!(with(given).is_ok(), "{field} {given}"));
    }
}

#[test]
fn what_only_the_model_can_refuse_is_refused_before_any_work() {
    let decoder = decoder();
    let vocab = decoder.target().spec().vocab;
    let error = |request| decoder.decode(request, &mut |_| panic!("no work was done")).unwrap_err();
    let logit_bias = BTreeMap::from([(2, 1.0), (vocab as u32, 1.0)]);
    let unknown = error(request(&PROMPT, &Sampling { logit_bias, ..Sampling::default() }, 4));
    assert_eq!(unknown, EngineError::Sampling(SamplingError::UnknownId { id: vocab as u32, vocab }));
    assert!(unknown.to_string().contains("logit_bias"));
    let many = error(Request { logprobs: Some(21), ..Request::new(PROMPT.to_vec(), 4) });
    assert!(many.to_string().contains("0 to 20"), "{many}");
}
