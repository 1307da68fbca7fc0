//! Every answer drawn from the masks of a schema fits it.

mod support;

use support::corpus::check_corpus;
use support::{END, END_TOO, bytes_only, small};

#[test]
fn answers_fit_over_bytes() {
    check_corpus(&bytes_only(), &[END, END_TOO], 12);
}

#[test]
fn answers_fit_over_small_vocabularies() {
    for family in ["qwen2", "gemma4", "llama-spm", "smollm"] {
        let tokenizer = small(family);
        let control = (0..tokenizer.vocab_len() as u32).filter(|&id| tokenizer.is_special(id));
        let stop_ids: Vec<u32> = control.take(2).collect();
        check_corpus(&tokenizer, &stop_ids, 3);
    }
}
