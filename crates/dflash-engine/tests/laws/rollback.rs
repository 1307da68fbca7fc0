use dflash_testkit::Rng;

use crate::common::BLOCK;
use crate::common::cases::Case;
use crate::common::model::{Model, Truth, same_positions};

/// Lengths at which convolutions begin, windows wrap and blocks of keys end.
const PREFIXES: [usize; 10] = [0, 1, 2, 3, 8, 55, 62, 63, 64, 65];

/// Rows after the part that was accepted: more than a convolution reaches back.
const AFTER: usize = 5;

/// Verifies `n` rows after `prefix` of which the first `k` are right, accepts these and goes on.
fn check(model: &mut Model, ids: &[u32], truth: &Truth, [prefix, n, k]: [usize; 3]) -> bool {
    let mut cache = truth.caches[prefix].snapshot();
    let drafted = model.drafted(&ids[prefix..prefix + n], k, (n * 31 + k) as u64);
    let rows = model.chain(&mut cache, &drafted, k);
    let (at, end) = (prefix + k, prefix + k + AFTER);
    let right = rows[..k] == truth.rows[prefix..at] && same_positions(&cache, &truth.caches[at]);
    // The tape of the pass is no part of the state.
    let mut copy = cache.snapshot();
    right
        && model.chain(&mut copy, &ids[at..end], AFTER) == truth.rows[at..end]
        && model.chain(&mut cache, &ids[at..end], AFTER) == truth.rows[at..end]
}

#[test]
fn rollback_law_any_part_of_a_block_leaves_what_its_rows_alone_would_have_left() {
    for case in Case::kinds() {
        let mut model = Model::load(&case);
        let ids = model.prompt(65 + BLOCK + AFTER, 3);
        let truth = model.plain(&ids);
        for prefix in PREFIXES {
            for (n, k) in (1..=BLOCK).flat_map(|n| (0..=n).map(move |k| (n, k))) {
                let right = check(&mut model, &ids, &truth, [prefix, n, k]);
                assert!(right, "{}: prefix {prefix}, {k} of {n} accepted", case.name);
            }
        }
    }
}

/// One rollback after the other, so that states which were never computed from the front are gone back to.
#[test]
fn rollback_law_cycles_of_any_width_and_acceptance_follow_plain_decoding() {
    let mut rng = Rng::new(12);
    for case in Case::all() {
        let mut model = Model::load(&case);
        let ids = model.prompt(150, 4);
        let truth = model.plain(&ids);
        let mut cache = model.target.new_cache();
        while cache.len() < ids.len() {
            let at = cache.len();
            let n = (1 + rng.below(BLOCK as u32) as usize).min(ids.len() - at);
            let k = rng.below(n as u32 + 1) as usize;
            let drafted = model.drafted(&ids[at..at + n], k, rng.bits());
            let rows = model.chain(&mut cache, &drafted, k);
            let what = format!("{}: at {at}, {k} of {n} accepted", case.name);
            assert!(rows[..k] == truth.rows[at..at + k], "{what}");
            assert!(same_positions(&cache, &truth.caches[at + k]), "{what}");
        }
    }
}

/// A prompt that was begun and given up.
#[test]
fn rollback_law_nothing_of_a_pass_over_a_prompt_stays_when_none_of_it_is_accepted() {
    for case in Case::kinds() {
        let mut model = Model::load(&case);
        let ids = model.prompt(80, 5);
        let truth = model.plain(&ids);
        for prefix in [0, 1, 40, 63] {
            let mut cache = truth.caches[prefix].snapshot();
            let noise = model.prompt(20, 6);
            let rows = model.chain(&mut cache, &noise[..1], 0);
            assert!(rows.len() == 1 && cache.len() == prefix);
            let rows = model.chain(&mut cache, &noise, 0);
            assert!(rows.len() == noise.len() && cache.len() == prefix);
            assert!(model.prefill(&mut cache, &ids[prefix..]) == truth.rows[prefix..], "{}", case.name);
        }
    }
}
