use std::collections::BTreeMap;
use std::time::Instant;

use dflash_engine::{Cycle, Decoding};
use serde_json::{Value, json};

use super::RequestFacts;
use super::counts::ratio;

/// An answer in work.
#[derive(Debug, Clone)]
pub struct Progress {
    /// Whose it is.
    pub facts: RequestFacts,
    /// Which of the answers to its request, from 0.
    pub answer: usize,
    /// How it is decoded.
    pub decoding: Decoding,
    /// When it was submitted.
    pub began: Instant,
    /// Seconds in the queue, once it has left it.
    pub queue_s: Option<f64>,
    /// Prompt ids read, and to be read.
    pub prefill: (usize, usize),
    /// When the first ids came, and the last ones.
    pub delivered: Option<(Instant, Instant)>,
    /// Ids so far.
    pub generated: usize,
    /// Target passes after prefill.
    pub cycles: usize,
    /// Drafted ids that were verified.
    pub drafted: usize,
    /// Drafted ids that were accepted.
    pub accepted: usize,
    /// Cycles by rows verified.
    pub widths: BTreeMap<usize, usize>,
    /// Cycles by proposer, and the drafted ids that were accepted of it.
    pub proposers: BTreeMap<&'static str, (usize, usize)>,
}

impl Progress {
    /// Of an answer that is submitted now.
    pub fn new(facts: &RequestFacts, answer: usize, decoding: Decoding) -> Self {
        Self {
            facts: facts.clone(),
            answer,
            decoding,
            began: Instant::now(),
            queue_s: None,
            prefill: (0, facts.prompt_tokens),
            delivered: None,
            generated: 0,
            cycles: 0,
            drafted: 0,
            accepted: 0,
            widths: BTreeMap::new(),
            proposers: BTreeMap::new(),
        }
    }

    /// Ids came: seconds since the ids before, or since the beginning for the first ones.
    pub fn tokens(&mut self, ids: usize) -> Gap {
        let now = Instant::now();
        self.generated += ids;
        let (first, gap) = match self.delivered {
            None => (now, Gap::First((now - self.began).as_secs_f64())),
            Some((first, last)) => (first, Gap::Next((now - last).as_secs_f64())),
        };
        self.delivered = Some((first, now));
        gap
    }

    /// A cycle ended.
    pub fn cycle(&mut self, cycle: &Cycle) {
        self.cycles += 1;
        self.drafted += cycle.width - 1;
        self.accepted += cycle.accepted;
        *self.widths.entry(cycle.width).or_default() += 1;
        let (cycles, accepted) = self.proposers.entry(cycle.proposer.unwrap_or("none")).or_default();
        *cycles += 1;
        *accepted += cycle.accepted;
    }

    /// Seconds since it was submitted.
    pub fn elapsed_s(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }

    /// Seconds to the first id.
    pub fn ttft_s(&self) -> Option<f64> {
        self.delivered.map(|(first, _)| (first - self.began).as_secs_f64())
    }

    /// Seconds from the first id to the last.
    pub fn decode_s(&self) -> f64 {
        self.delivered.map_or(0.0, |(first, last)| (last - first).as_secs_f64())
    }

    /// Ids after the first per second.
    pub fn tokens_per_second(&self) -> f64 {
        ratio(self.generated.saturating_sub(1) as f64, self.decode_s())
    }

    /// Ids per cycle.
    pub fn tokens_per_cycle(&self) -> f64 {
        ratio(self.generated as f64, self.cycles as f64)
    }

    /// Accepted drafted ids over delivered ids.
    pub fn acceptance(&self) -> f64 {
        ratio(self.accepted as f64, self.generated as f64)
    }

    /// Where it is.
    pub fn state(&self) -> &'static str {
        match (self.queue_s, self.delivered) {
            (None, _) => "queued",
            (Some(_), None) => "prefill",
            (Some(_), Some(_)) => "decode",
        }
    }

    /// What is told of it at any time, in the words of the reference.
    pub fn figures(&self) -> Value {
        let (copies, copied) = self.proposers.get("copy").copied().unwrap_or_default();
        let drafting = self.widths.keys().find(|&&width| width > 1);
        json!({
            "request_id": self.facts.id,
            "answer": self.answer,
            "api": self.facts.api,
            "stream": self.facts.stream,
            "mode_used": mode(self.decoding),
            "prompt_tokens": self.facts.prompt_tokens,
            "max_tokens": self.facts.max_tokens,
            "generated_tokens": self.generated,
            "cache_hit_tokens": 0,
            "cache_status": "COLD",
            "cache_lookup_ms": null,
            "queue_s": self.queue_s,
            "ttft_s": self.ttft_s(),
            "prefill_s": self.ttft_s().map(|seconds| (seconds - self.queue_s.unwrap_or(0.0)).max(0.0)),
            "decode_s": self.decode_s(),
            "decode_tok_s": self.tokens_per_second(),
            "acceptance_rate": self.acceptance(),
            "tokens_per_cycle": self.tokens_per_cycle(),
            "cycles": self.cycles,
            "cycles_by_width": self.widths,
            "cycles_by_proposer":
                self.proposers.iter().map(|(name, (cycles, _))| (*name, *cycles)).collect::<BTreeMap<_, _>>(),
            "drafted_tokens": self.drafted,
            "accepted_tokens": self.accepted,
            "adaptive_block_reductions": null,
            "adaptive_block_cycles": null,
            "adaptive_block_min": drafting,
            "copyspec_hits": copies,
            "copyspec_tokens": copied,
            "finish_reason": null,
            "prefill_phase_timings_us": null,
            "phase_timings_us": null,
        })
    }

    /// `current_request`.
    pub fn current(&self) -> Value {
        let mut figures = self.figures();
        let (done, total) = self.prefill;
        figures["state"] = self.state().into();
        figures["prefill_tokens_processed"] = done.into();
        figures["prefill_tokens_total"] = total.into();
        figures["elapsed_s"] = self.elapsed_s().into();
        figures
    }
}

fn mode(decoding: Decoding) -> &'static str {
    match decoding {
        Decoding::Plain => "ar_fastpath",
        Decoding::Speculative | Decoding::Ngram => "dflash",
    }
}

/// Seconds before ids came.
#[derive(Debug, Clone, Copy)]
pub enum Gap {
    /// Since the beginning.
    First(f64),
    /// Since the ids before.
    Next(f64),
}
