//! The lossless law on a target with sliding windows, shared keys, experts and scaled embeddings.

mod common;

use common::*;
use dflash_engine::VerifyMode;
use dflash_engine::proposer::{BlockDiffusion, ContextCopy};
use dflash_models::{Draft, DraftOptions};
use dflash_testkit::{Script, TinyDraft, TinyGemma, TinyLlama};

const TOKENS: usize = 200;

#[test]
fn any_draft_at_any_width_gives_the_ids_of_plain_decoding() {
    let dir = tempfile::tempdir().unwrap();
    let gemma = TinyGemma::default();
    gemma.write(dir.path());
    let prompt = prompt(50, gemma.vocab, 4);
    let truth = plain(&decoder(dir.path(), Vec::new()), &prompt, TOKENS).ids;
    let whole = [&prompt[..], &truth].concat();
    for (seed, script) in [Script::Oracle, Script::RightFor(2), Script::Random].into_iter().enumerate() {
        let proposers =
            vec![scripted(&whole, script, gemma.vocab, 1), Box::new(ContextCopy::new(BLOCK)) as _];
        let decoder = decoder(dir.path(), proposers).with_policy(random_widths(seed as u64));
        assert_eq!(speculative(&decoder, &prompt, TOKENS).ids, truth, "{script:?}");
    }

    // The writer of drafts looks at the sizes of its target alone.
    let size = TinyLlama { layers: gemma.sliding.len(), ..TinyLlama::default() };
    let draft_dir = tempfile::tempdir().unwrap();
    TinyDraft { taps: vec![3, 0], window: Some(6), ..TinyDraft::default() }.write(draft_dir.path(), &size);
    let target = target(dir.path());
    let draft =
        Draft::load(draft_dir.path(), target.as_ref(), DraftOptions::default()).expect("a sound draft");
    let mut options = options(VerifyMode::Fixed);
    options.prefill_chunk = 17;
    let decoder = dflash_engine::Decoder::new(target, vec![Box::new(BlockDiffusion::new(draft))], options)
        .with_policy(random_widths(9));
    assert_eq!(speculative(&decoder, &prompt, TOKENS).ids, truth);
}
