use std::time::Instant;

use dflash_engine::{Decoding, Event, FinishReason, Request, Stats};
use serde::Serialize;

use super::leg::Leg;
use super::memory;
use crate::generate::{engine_failure, ids_sha256};
use crate::interrupt::Interrupt;
use crate::report::{Failure, Outcome};
use crate::runtime::Loaded;

/// One timed answer: a line of `runs.jsonl`.
#[derive(Debug, Clone, Serialize)]
pub struct Trial {
    /// Name of the prompt.
    pub prompt: String,
    /// Its category.
    pub category: String,
    /// Which of the repetitions, from 0.
    pub round: usize,
    /// How it was decoded.
    pub leg: Leg,
    /// The answer and what it took.
    #[serde(flatten)]
    pub decoded: Decoded,
}

/// An answer and what it took.
#[derive(Debug, Clone, Serialize)]
pub struct Decoded {
    /// `stop` or `length`.
    pub finish_reason: FinishReason,
    /// Seconds from the call to the first id.
    pub ttft_s: f64,
    /// Ids of the prompt per second.
    pub prefill_tok_s: f64,
    /// Ids after the first per second.
    pub decode_tok_s: f64,
    /// Ids per cycle.
    pub tokens_per_cycle: f64,
    /// Accepted drafted ids over delivered ids.
    pub acceptance_ratio: f64,
    /// Accepted over verified drafted ids.
    pub acceptance_per_drafted: f64,
    /// Bytes of weights, keys, values and states that were read after prefill.
    pub decode_bytes: u64,
    /// Most memory held, in bytes; absent where it is not known.
    pub peak_memory_bytes: Option<u64>,
    /// Whether that is the peak of this answer, and not of the process so far.
    pub peak_is_own: bool,
    /// SHA-256 of the ids as little-endian 32-bit numbers.
    pub ids_sha256: String,
    /// Counts and times of the engine.
    #[serde(flatten)]
    pub stats: Stats,
    /// The ids.
    #[serde(skip)]
    pub ids: Vec<u32>,
}

/// What is decoded, and how.
pub struct Task<'a> {
    /// Ids to go on with.
    pub prompt: &'a [u32],
    /// Ids at most.
    pub max_tokens: usize,
    /// Ids that end the answer.
    pub stop_ids: &'a [u32],
    /// How.
    pub decoding: Decoding,
    /// Whether the memory is looked at.
    pub memory: bool,
}

impl Task<'_> {
    /// Decodes it with the clock running.
    ///
    /// # Errors
    /// The engine's, and an interruption.
    pub fn run(&self, pair: &Loaded, asked: &Interrupt) -> Outcome<Decoded> {
        let peak_is_own = self.memory && memory::reset_peak();
        let request = Request {
            stop_ids: self.stop_ids.to_vec(),
            decoding: self.decoding,
            ..Request::new(self.prompt.to_vec(), self.max_tokens)
        };
        let (mut ids, mut first, mut end) = (Vec::new(), None, None);
        let began = Instant::now();
        let done = pair.decoder.decode(request, &mut |event| {
            match event {
                Event::Tokens(new) => {
                    first.get_or_insert_with(|| (began.elapsed().as_secs_f64(), pair.backend.work()));
                    ids.extend(new);
                }
                Event::Finished { reason, stats } => end = Some((reason, stats)),
                _ => {}
            }
            !asked.is_asked()
        });
        done.map_err(engine_failure)?;
        let (Some((ttft_s, before)), Some((finish_reason, stats))) = (first, end) else {
            return Err(Failure::interrupted());
        };
        let decode_bytes = (pair.backend.work() - before).bytes;
        let peak_memory_bytes = self.memory.then(memory::peak).flatten();
        Ok(Decoded {
            finish_reason,
            ttft_s,
            prefill_tok_s: stats.prompt_tokens as f64 / stats.prefill_s,
            decode_tok_s: stats.decode_tokens_per_second(),
            tokens_per_cycle: stats.tokens_per_cycle(),
            acceptance_ratio: stats.acceptance_ratio(),
            acceptance_per_drafted: stats.acceptance_per_drafted(),
            decode_bytes,
            peak_memory_bytes,
            peak_is_own,
            ids_sha256: ids_sha256(&ids),
            stats,
            ids,
        })
    }
}
