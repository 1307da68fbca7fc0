//! A prompt with its plain answer, and decoders that must give the same.

use dflash_engine::proposer::ContextCopy;
use dflash_engine::{Decoder, Proposer, VerifyMode};
use dflash_models::{Draft, DraftOptions, Target};
use dflash_testkit::{Script, TinyDraft, TinyLlama};

use super::cases::Case;
use super::{BLOCK, decoder, options, plain, prompt, scripted, target};

pub const SCRIPTS: [Script; 7] = [
    Script::Oracle,
    Script::RightFor(0),
    Script::RightFor(1),
    Script::RightFor(3),
    Script::RightFor(7),
    Script::Random,
    Script::Hostile,
];

/// A prompt with the answer of plain decoding.
pub struct Truth<'a> {
    pub case: &'a Case,
    pub vocab: usize,
    pub prompt: Vec<u32>,
    pub ids: Vec<u32>,
}

impl<'a> Truth<'a> {
    pub fn new(case: &'a Case, len: usize, tokens: usize) -> Self {
        let decoder = decoder(&case.path, Vec::new());
        let vocab = decoder.target().spec().vocab;
        let prompt = prompt(len, vocab, len as u64);
        let ids = plain(&decoder, &prompt, tokens).ids;
        Self { case, vocab, prompt, ids }
    }

    /// Prompt and answer.
    pub fn whole(&self) -> Vec<u32> {
        [&self.prompt[..], &self.ids].concat()
    }

    pub fn scripted(&self, script: Script, seed: u64) -> Box<dyn Proposer> {
        scripted(&self.whole(), script, self.vocab, seed)
    }

    /// A decoder with these proposers and whole blocks.
    pub fn decoder(&self, proposers: Vec<Box<dyn Proposer>>) -> Decoder {
        decoder(&self.case.path, proposers)
    }

    /// A script with context copy beside, and prompts in small pieces.
    pub fn mixed(&self, script: Script, seed: u64) -> Decoder {
        let proposers = vec![self.scripted(script, seed), Box::new(ContextCopy::new(BLOCK)) as _];
        let mut options = options(VerifyMode::Fixed);
        options.prefill_chunk = 17;
        Decoder::new(target(&self.case.path), proposers, options)
    }
}

/// A random draft for any target. It is right only by chance.
pub fn draft_for(target: &dyn Target, draft: &TinyDraft, options: DraftOptions) -> Draft {
    let spec = target.spec();
    // The writer looks at the sizes of its target alone, whatever the family.
    let size = TinyLlama {
        hidden: spec.hidden,
        vocab: spec.vocab,
        layers: spec.layers,
        context: spec.context,
        ..TinyLlama::default()
    };
    let dir = tempfile::tempdir().expect("a temporary directory");
    draft.write(dir.path(), &size);
    Draft::load(dir.path(), target, options).unwrap_or_else(|error| panic!("a sound draft: {error}"))
}
