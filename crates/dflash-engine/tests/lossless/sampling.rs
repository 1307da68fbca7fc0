//! Sampled and penalised answers: a seed gives one text, with any draft and without.

use std::collections::BTreeSet;

use dflash_engine::{FinishReason, Fixed, Request, VerifyMode};
use dflash_models::DraftOptions;
use dflash_testkit::Script;

use super::drafts::{CUT, drafts, with_copy};
use crate::common::cases::Case;
use crate::common::sampled::{Sampled, samplings};
use crate::common::truth::{SCRIPTS, draft_for};
use crate::common::*;

#[test]
fn every_family_with_every_script_at_random_widths() {
    for case in Case::all() {
        for sampling in samplings() {
            let sampled = Sampled::new(&case, sampling, 11, 40);
            for (seed, script) in SCRIPTS.into_iter().enumerate() {
                let seed = seed as u64;
                let decoder = sampled.mixed(script, seed).with_policy(random_widths(seed));
                sampled.check(&decoder, &format!("{script:?}"));
            }
        }
    }
}

#[test]
fn every_kind_with_drafts_of_every_layout() {
    for case in Case::kinds() {
        for sampling in samplings() {
            let sampled = Sampled::new(&case, sampling, 30, 40);
            for (seed, tiny) in drafts(sampled.target().spec().layers).into_iter().enumerate() {
                let target = sampled.target();
                let draft = draft_for(target.as_ref(), &tiny, CUT);
                let decoder =
                    with_copy(target, draft, VerifyMode::Fixed, 0).with_policy(random_widths(seed as u64));
                let got = sampled.check(&decoder, &format!("{:?}", tiny.layout));
                assert!(got.stats.drafted > 0, "{}", case.name);
            }
        }
    }
}

#[test]
fn every_fixed_width() {
    let case = Case::tiny_llama();
    for sampling in samplings() {
        let sampled = Sampled::new(&case, sampling, 9, 65);
        for script in SCRIPTS {
            for width in 1..=BLOCK {
                let decoder =
                    sampled.mixed(script, 1).with_policy(move |_| Box::new(Fixed::new(width, vec![0])));
                sampled.check(&decoder, &format!("{script:?} at width {width}"));
            }
        }
    }
}

#[test]
fn long_runs() {
    for name in ["qwen3_5/wrapper-r3", "gemma4/moe", "lfm2/plain"] {
        let case = Case::long(name);
        for sampling in samplings().into_iter().take(3) {
            let sampled = Sampled::new(&case, sampling, 12, 520);
            let target = sampled.target();
            let draft = draft_for(target.as_ref(), &drafts(target.spec().layers)[0], DraftOptions::default());
            let decoder = with_copy(target, draft, VerifyMode::Fixed, 0).with_policy(random_widths(3));
            sampled.check(&decoder, "a long run");
            sampled.check(&sampled.mixed(Script::RightFor(3), 5).with_policy(random_widths(4)), "a script");
        }
    }
}

/// What is compared is worth comparing.
#[test]
fn answers_are_lively_and_an_oracle_fills_every_block() {
    let case = Case::tiny_llama();
    for sampling in samplings() {
        let sampled = Sampled::new(&case, sampling, 9, 161);
        let ids = sampled.answer.ids.iter().collect::<BTreeSet<_>>();
        assert!(ids.len() > 20, "{} ids with {:?}", ids.len(), sampled.sampling);
        let stats = |script| {
            let whole = sampled.mixed(script, 0).with_policy(|_| Box::new(Fixed::new(BLOCK, vec![0])));
            let got = sampled.check(&whole, "whole blocks");
            (got.stats.cycles, got.stats.accepted)
        };
        assert_eq!(stats(Script::Oracle), (10, 150));
        assert_eq!(stats(Script::RightFor(0)), (160, 0));
        assert_eq!(stats(Script::RightFor(3)), (40, 120));
    }
}

#[test]
fn budgets_and_stop_ids() {
    let case = Case::tiny_llama();
    for sampling in samplings() {
        let sampled = Sampled::new(&case, sampling, 5, 40);
        let (ids, logprobs) = (&sampled.answer.ids, &sampled.answer.logprobs);
        for script in [Script::Oracle, Script::RightFor(2), Script::Hostile] {
            let decoder = sampled.mixed(script, 5);
            for max_tokens in [0, 1, 2, 16, 17, 33] {
                let got = answer(&decoder, Request { max_tokens, ..sampled.request() });
                assert_eq!((&got.ids[..], &got.logprobs[..]), (&ids[..max_tokens], &logprobs[..max_tokens]));
            }
            for &stop in ids {
                let end = ids.iter().position(|&id| id == stop).expect("an id of the answer") + 1;
                let got = answer(&decoder, Request { stop_ids: vec![stop], ..sampled.request() });
                assert_eq!((&got.ids[..], got.reason), (&ids[..end], FinishReason::Stop));
                assert_eq!(got.logprobs, logprobs[..end]);
            }
        }
    }
}
