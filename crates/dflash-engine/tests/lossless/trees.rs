//! Trees of alternatives: whatever grows, the ids are those of plain decoding.

use dflash_engine::proposer::{BlockDiffusion, ContextCopy};
use dflash_engine::{Curve, Decoder, DecoderOptions, Event, Proposer, Request, StepCosts, VerifyMode};
use dflash_models::{DraftOptions, Target};
use dflash_testkit::{Script, TinyDraft, TinyLayout};

use crate::common::cases::Case;
use crate::common::truth::{Answers, Truth, draft_for};
use crate::common::*;

/// Decodes and compares; returns the trees among the cycles, and those in which something was accepted.
fn check(decoder: &Decoder, truth: &Truth<'_>, what: &str) -> (usize, usize) {
    let (mut ids, mut trees) = (Vec::new(), (0, 0));
    let request = Request::new(truth.prompt.clone(), truth.ids.len());
    let mut emit = |event: Event| {
        match event {
            Event::Tokens(new) => ids.extend(new),
            Event::Cycle(cycle) if cycle.depth + 1 < cycle.width => {
                trees.0 += 1;
                trees.1 += usize::from(cycle.accepted > 0);
            }
            _ => {}
        }
        true
    };
    decoder.decode(request, &mut emit).expect("a request that can be decoded");
    assert_eq!(ids, truth.ids, "{}: {what}, {:?}", truth.case.name, truth.answers);
    trees
}

#[test]
fn random_trees_of_every_script_on_every_family() {
    for case in Case::all() {
        for answers in Answers::BOTH {
            let truth = Truth::new(&case, answers, 9, 80);
            let (mut trees, mut right) = (0, 0);
            for (seed, script) in
                [Script::Oracle, Script::RightFor(3), Script::Random, Script::Hostile].into_iter().enumerate()
            {
                let seed = seed as u64;
                let decoder =
                    truth.decoder(vec![truth.scripted(script, seed)]).with_policy(random_widths(seed));
                let (grown, hit) = check(&decoder, &truth, &format!("{script:?}"));
                (trees, right) = (trees + grown, right + hit);
            }
            assert!(trees > 20 && right > 5, "{}: {trees} trees, {right} with something right", case.name);
        }
    }
}

#[test]
fn trees_of_a_draft_by_the_adaptive_policy() {
    for case in Case::kinds() {
        let truth = Truth::hashed(&case, 30, 120);
        let target = truth.target();
        let tiny = TinyDraft { taps: vec![target.spec().layers - 1], ..TinyDraft::default() };
        let (trees, _) = check(&adaptive(target, &tiny), &truth, "adaptive");
        assert!(trees > 0, "{}", case.name);
    }
}

#[test]
fn a_draft_of_fewer_ids_than_alternatives_drafts_chains() {
    let case = Case::tiny_llama();
    let truth = Truth::hashed(&case, 30, 120);
    let target = truth.target();
    let layout = TinyLayout::SpeculatorsOwn(2);
    let tiny = TinyDraft { taps: vec![target.spec().layers - 1], layout, ..TinyDraft::default() };
    assert_eq!(check(&adaptive(target, &tiny), &truth, "two ids"), (0, 0));
}

/// Trees by the adaptive policy, with context copy beside.
fn adaptive(target: Box<dyn Target>, tiny: &TinyDraft) -> Decoder {
    let draft = draft_for(target.as_ref(), tiny, DraftOptions { sink: 4, window: Some(24), quant: None });
    let options = DecoderOptions { block: draft.spec().block, ..options(VerifyMode::Tree) };
    let proposers: Vec<Box<dyn Proposer>> =
        vec![Box::new(ContextCopy::new(options.block)), Box::new(BlockDiffusion::new(draft))];
    let mut decoder = Decoder::new(target, proposers, options);
    // Rows are nearly free, so that trees are worth it even for a draft that is right by chance alone.
    let flat = |seconds| Curve::new(vec![(1, seconds), (64, 1.000_001 * seconds)]);
    decoder.set_costs(StepCosts { verify: flat(1e-9), propose: vec![None, Some(flat(1e-15))] });
    decoder
}
