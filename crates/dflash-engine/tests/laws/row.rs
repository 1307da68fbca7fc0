use dflash_testkit::Rng;

use crate::common::cases::Case;
use crate::common::model::{Model, Row};

/// Runs `ids` in pieces of up to `most` rows, as parts of a prompt or as chains that are verified.
fn pieces(model: &mut Model, ids: &[u32], most: u32, rng: &mut Rng) -> Vec<Row> {
    let (mut cache, mut rows) = (model.target.new_cache(), Vec::new());
    while cache.len() < ids.len() {
        let n = (1 + rng.below(most) as usize).min(ids.len() - cache.len());
        let piece = &ids[cache.len()..cache.len() + n];
        rows.extend(match rng.below(2) {
            0 => model.prefill(&mut cache, piece),
            _ => model.chain(&mut cache, piece, n),
        });
    }
    rows
}

#[test]
fn row_law_any_split_gives_the_same_bits() {
    let mut rng = Rng::new(4);
    for case in Case::all() {
        let mut model = Model::load(&case);
        let ids = model.prompt(140, 1);
        let truth = model.plain(&ids);
        for most in [2, 5, 17, 64, 140] {
            let rows = pieces(&mut model, &ids, most, &mut rng);
            assert!(rows == truth.rows, "{}: splits of up to {most}", case.name);
        }
    }
}

/// The prompts that are shorter than a convolution.
#[test]
fn row_law_a_short_prompt_is_continued_like_a_long_one() {
    for case in Case::all() {
        let mut model = Model::load(&case);
        let ids = model.prompt(12, 2);
        let truth = model.plain(&ids);
        for len in 1..=4 {
            let mut cache = model.target.new_cache();
            let mut rows = model.prefill(&mut cache, &ids[..len]);
            rows.extend(model.chain(&mut cache, &ids[len..], ids.len() - len));
            assert!(rows == truth.rows, "{}: a prompt of {len}", case.name);
        }
    }
}
