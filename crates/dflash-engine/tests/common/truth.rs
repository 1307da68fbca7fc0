//! A prompt with its plain answer, and decoders that must give the same.

use dflash_engine::proposer::ContextCopy;
use dflash_engine::{Decoder, Proposer, VerifyMode};
use dflash_models::{Draft, DraftOptions, Target};
use dflash_testkit::{Script, TinyDraft, TinyLlama};

use super::cases::Case;
use super::hashed::Hashed;
use super::{BLOCK, options, plain, prompt, scripted, target};

pub const SCRIPTS: [Script; 7] = [
    Script::Oracle,
    Script::RightFor(0),
    Script::RightFor(1),
    Script::RightFor(3),
    Script::RightFor(7),
    Script::Random,
    Script::Hostile,
];

/// How a target answers.
#[derive(Debug, Clone, Copy)]
pub enum Answers {
    /// With its own choices.
    Greedy,
    /// With a hash of its logits, see [`Hashed`].
    Hashed,
}

impl Answers {
    pub const BOTH: [Self; 2] = [Self::Greedy, Self::Hashed];

    pub fn target(self, case: &Case) -> Box<dyn Target> {
        match self {
            Self::Greedy => target(&case.path),
            Self::Hashed => Box::new(Hashed(target(&case.path))),
        }
    }
}

/// A prompt with the answer of plain decoding.
pub struct Truth<'a> {
    pub case: &'a Case,
    pub answers: Answers,
    pub vocab: usize,
    pub prompt: Vec<u32>,
    pub ids: Vec<u32>,
}

impl<'a> Truth<'a> {
    pub fn new(case: &'a Case, answers: Answers, len: usize, tokens: usize) -> Self {
        let target = answers.target(case);
        let vocab = target.spec().vocab;
        let prompt = prompt(len, vocab, len as u64);
        let decoder = Decoder::new(target, Vec::new(), options(VerifyMode::Fixed));
        let ids = plain(&decoder, &prompt, tokens).ids;
        assert_eq!(ids.len(), tokens, "{}", case.name);
        Self { case, answers, vocab, prompt, ids }
    }

    /// One whose answer shows any fault.
    pub fn hashed(case: &'a Case, len: usize, tokens: usize) -> Self {
        Self::new(case, Answers::Hashed, len, tokens)
    }

    /// The target once more.
    pub fn target(&self) -> Box<dyn Target> {
        self.answers.target(self.case)
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
        Decoder::new(self.target(), proposers, options(VerifyMode::Fixed))
    }

    /// A script with context copy beside, and prompts in small pieces.
    pub fn mixed(&self, script: Script, seed: u64) -> Decoder {
        let proposers = vec![self.scripted(script, seed), Box::new(ContextCopy::new(BLOCK)) as _];
        let mut options = options(VerifyMode::Fixed);
        options.prefill_chunk = 17;
        Decoder::new(self.target(), proposers, options)
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
