//! Drafts that follow a script, on every family.

use std::collections::BTreeSet;

use dflash_engine::Fixed;
use dflash_testkit::Script;

use crate::common::cases::Case;
use crate::common::truth::{Answers, SCRIPTS, Truth};
use crate::common::*;

#[test]
fn every_script_at_every_fixed_width() {
    for case in Case::kinds() {
        let truth = Truth::hashed(&case, 9, 33);
        for script in SCRIPTS {
            for width in 1..=BLOCK {
                let decoder = truth
                    .decoder(vec![truth.scripted(script, 1)])
                    .with_policy(move |_| Box::new(Fixed::new(width, vec![0])));
                let got = speculative(&decoder, &truth.prompt, 33);
                assert_eq!(got.ids, truth.ids, "{}: {script:?} at width {width}", case.name);
            }
        }
    }
}

/// Scripts beside context copy at random widths.
fn run(case: &Case, len: usize, tokens: usize) {
    for truth in Answers::BOTH.map(|answers| Truth::new(case, answers, len, tokens)) {
        for (seed, script) in SCRIPTS.into_iter().enumerate() {
            let seed = seed as u64;
            let decoder = truth.mixed(script, seed).with_policy(random_widths(seed));
            let got = speculative(&decoder, &truth.prompt, tokens);
            let what = format!("{}: {script:?}, {:?} after {len}", case.name, truth.answers);
            assert_eq!(got.ids, truth.ids, "{what}");
        }
    }
}

/// What the hash is for: without it many of these models repeat one id.
#[test]
fn hashed_answers_are_lively() {
    for case in Case::all() {
        let answer = Truth::hashed(&case, 3, 60).ids.into_iter().collect::<BTreeSet<_>>();
        assert!(answer.len() > 30, "{}: {} ids", case.name, answer.len());
    }
}

#[test]
fn random_widths_after_prompts_of_any_length() {
    for case in Case::all() {
        [(1, 30), (2, 30), (3, 30), (50, 60)].into_iter().for_each(|(len, tokens)| run(&case, len, tokens));
    }
}

#[test]
fn long_runs() {
    run(&Case::tiny_llama(), 20, 640);
    for name in [
        "qwen3_moe/mixed-bf16",
        "qwen3_next/mixed-r2",
        "qwen3_5/wrapper-r3",
        "qwen3_5_moe/fused",
        "gemma4/moe",
        "gemma4/ple",
        "lfm2/plain",
    ] {
        run(&Case::long(name), 20, 640);
    }
}

#[test]
fn an_oracle_fills_every_block_and_a_wrong_draft_none() {
    for case in Case::all() {
        let truth = Truth::hashed(&case, 9, 161);
        let stats = |script| {
            let got = speculative(&truth.decoder(vec![truth.scripted(script, 0)]), &truth.prompt, 161);
            assert_eq!(got.ids, truth.ids, "{}: {script:?}", case.name);
            (got.stats.cycles, got.stats.accepted, got.stats.drafted)
        };
        assert_eq!(stats(Script::Oracle), (10, 150, 150), "{}", case.name);
        let (cycles, accepted, _) = stats(Script::RightFor(0));
        assert_eq!((cycles, accepted), (160, 0), "{}", case.name);
        // Every block is accepted in part, so that every cycle goes back.
        let (cycles, accepted, drafted) = stats(Script::RightFor(3));
        assert_eq!((cycles, accepted), (40, 120), "{}", case.name);
        assert!(drafted > 4 * accepted, "{}: {drafted} drafted", case.name);
    }
}
