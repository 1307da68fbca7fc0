use std::path::Path;

use dflash_engine::proposer::BlockDiffusion;
use dflash_engine::{
    Decoder, DecoderOptions, Decoding, EngineHandle, EngineOptions, Event, Proposer, Request, Stats,
    StepCosts, Submission, VerifyMode,
};
use dflash_models::{Draft, DraftOptions, Target};

use super::Evaluation;
use crate::{Sequence, TrainError};

/// Prompt rows of a pass at most.
const PREFILL_ROWS: usize = 512;

/// How drafts are evaluated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EvaluateOptions {
    /// Rows of every block, the staged token's included; less where the draft has less.
    pub block: usize,
    /// Ids of an answer at most.
    pub max_tokens: usize,
    /// Answers that are decoded side by side.
    pub side_by_side: usize,
    /// Whether every answer is decoded plainly too, and compared.
    pub against_plain: bool,
}

impl Default for EvaluateOptions {
    fn default() -> Self {
        Self { block: 8, max_tokens: 256, side_by_side: 16, against_plain: false }
    }
}

/// Answers the prompts of `sequences` greedily with the draft in `draft`, which alone proposes, always whole blocks;
/// cycles are those that each answer would have alone. `stop_ids` end an answer; `tell` hears how many are done, and says
/// whether to go on.
///
/// # Errors
/// A draft that does not fit the target, what the engine reports, and an answer that is not that of plain decoding.
pub fn evaluate(
    target: Box<dyn Target>,
    draft: &Path,
    sequences: &[Sequence],
    stop_ids: &[u32],
    options: &EvaluateOptions,
    tell: &mut dyn FnMut(usize) -> bool,
) -> Result<Evaluation, TrainError> {
    let decoder = decoder(target, draft, options.block)?;
    let passes = 1 + usize::from(options.against_plain);
    let engine = EngineOptions {
        max_batch: options.side_by_side,
        waiting: passes * sequences.len(),
        step_rows: Some(PREFILL_ROWS),
        prefix: None,
    };
    let engine = EngineHandle::start(decoder, engine);
    let submit = |decoding| {
        let request = |sequence: &Sequence| Request {
            stop_ids: stop_ids.to_vec(),
            decoding,
            ..Request::new(sequence.ids[..sequence.prompt].to_vec(), options.max_tokens)
        };
        sequences.iter().map(|sequence| engine.submit(request(sequence))).collect::<Result<Vec<_>, _>>()
    };
    let drafted = submit(Decoding::Speculative)?;
    let mut plain = if options.against_plain { submit(Decoding::Plain)? } else { Vec::new() }.into_iter();
    let mut evaluation = Evaluation::default();
    for (index, (sequence, answer)) in sequences.iter().zip(drafted).enumerate() {
        let (ids, stats) = answered(answer)?;
        if let Some(plain) = plain.next()
            && answered(plain)?.0 != ids
        {
            return Err(TrainError::Refused(format!(
                "the answer to prompt {index} is not that of plain decoding: please report this as a bug"
            )));
        }
        evaluation.add(&sequence.category, &stats);
        if !tell(index + 1) {
            return Err(TrainError::Ended);
        }
    }
    Ok(evaluation)
}

fn answered(submission: Submission) -> Result<(Vec<u32>, Stats), TrainError> {
    let mut ids = Vec::new();
    for event in submission {
        match event {
            Event::Tokens(new) => ids.extend(new),
            Event::Finished { stats, .. } => return Ok((ids, stats)),
            Event::Failed(error) => return Err(error.into()),
            _ => {}
        }
    }
    Err(dflash_engine::EngineError::Stopped.into())
}

/// A decoder in which the draft alone proposes, always whole blocks.
fn decoder(target: Box<dyn Target>, draft: &Path, block: usize) -> Result<Decoder, TrainError> {
    let draft = Draft::load(draft, target.as_ref(), DraftOptions::default())?;
    let options = DecoderOptions {
        prefill_chunk: PREFILL_ROWS,
        block: block.min(draft.spec().block),
        verify_cap: 0,
        mode: VerifyMode::Fixed,
    };
    let draft: Box<dyn Proposer> = Box::new(BlockDiffusion::new(draft));
    Ok(Decoder::new(target, vec![draft], options))
}

/// What steps of this pair cost on this machine, for one answer at a time and blocks of up to `block` rows.
///
/// # Errors
/// A draft that does not fit the target, or the backend's.
pub fn step_costs(target: Box<dyn Target>, draft: &Path, block: usize) -> Result<StepCosts, TrainError> {
    let decoder = decoder(target, draft, block)?;
    Ok(StepCosts::measure(&decoder, 1, &mut || ())?)
}
