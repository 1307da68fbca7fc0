use std::fmt::Write;

use dflash_engine::Stats;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::Answer;

/// What speculation did for answers: the object `dflash` of every response.
#[derive(Debug, Clone, Default)]
pub struct Summary {
    completion: usize,
    cycles: usize,
    drafted: usize,
    accepted: usize,
    prefill_s: f64,
    decode_s: f64,
    hash: Sha256,
}

impl Summary {
    /// Of several answers to one prompt: counts are sums, the hash goes over their ids one after the other.
    pub fn of<'a>(answers: impl IntoIterator<Item = &'a Answer>) -> Self {
        let mut summary = Self::default();
        for answer in answers {
            summary.add_ids(&answer.ids);
            summary.add_stats(&answer.stats);
        }
        summary
    }

    /// More ids, in order.
    pub fn add_ids(&mut self, ids: &[u32]) {
        for id in ids {
            self.hash.update(id.to_le_bytes());
        }
    }

    /// A finished answer.
    pub fn add_stats(&mut self, stats: &Stats) {
        self.completion += stats.completion_tokens;
        self.cycles += stats.cycles;
        self.drafted += stats.drafted;
        self.accepted += stats.accepted;
        self.prefill_s = self.prefill_s.max(stats.prefill_s);
        self.decode_s = self.decode_s.max(stats.decode_s);
    }

    /// As it stands in a response. `seed` is the one in use, where the ids depend on it.
    ///
    /// `ids_sha256` is the SHA-256 of the ids, four bytes each, the lowest first: equal hashes, equal answers.
    pub fn to_json(&self, seed: Option<u64>) -> Value {
        let after_first = self.completion.saturating_sub(1) as f64;
        json!({
            "tokens_per_cycle": ratio(self.completion as f64, self.cycles as f64),
            "acceptance_ratio": ratio(self.accepted as f64, self.completion as f64),
            "cycles": self.cycles,
            "drafted": self.drafted,
            "accepted": self.accepted,
            "prefill_s": self.prefill_s,
            "decode_s": self.decode_s,
            "decode_tok_s": ratio(after_first, self.decode_s),
            "ids_sha256": hex(&self.hash.clone().finalize()),
            "seed": seed,
        })
    }
}

fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_goes_over_the_ids_however_they_came() {
        let (mut once, mut twice) = (Summary::default(), Summary::default());
        once.add_ids(&[1, 2, 300_000]);
        twice.add_ids(&[1]);
        twice.add_ids(&[2, 300_000]);
        let hash = |summary: &Summary| summary.to_json(None)["ids_sha256"].clone();
        assert_eq!(hash(&once), hash(&twice));
        twice.add_ids(&[0]);
        assert_ne!(hash(&once), hash(&twice));
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(hash(&Summary::default()), empty);
    }
}
