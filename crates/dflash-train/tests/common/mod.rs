//! Tiny targets and sequences of theirs.
#![allow(dead_code, reason = "each test binary uses its own part")]

use std::path::Path;
use std::sync::Arc;

use dflash_cpu::{CpuBackend, Isa};
use dflash_models::{Target, load_target};
use dflash_testkit::Rng;
use dflash_train::Sequence;

pub fn target(path: &Path) -> Box<dyn Target> {
    let backend = Arc::new(CpuBackend::new(2, Isa::detect()));
    load_target(path, backend, &mut |_, _| {}).expect("a sound checkpoint").target
}

/// A sequence of random ids.
pub fn sequence(seed: u64, ids: usize, vocab: u32) -> Sequence {
    let mut rng = Rng::new(seed);
    let ids: Vec<u32> = (0..ids).map(|_| rng.below(vocab)).collect();
    Sequence { source: seed, category: "any".into(), prompt: ids.len() / 2, ids }
}
