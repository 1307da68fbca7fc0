use std::collections::BTreeMap;
use std::fmt;

use dflash_engine::{PositionCount, Stats};
use serde::Serialize;

/// What was counted while answers were decoded.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Score {
    /// Answers.
    pub prompts: usize,
    /// Ids of these, less the first of each, which comes from reading the prompt.
    pub tokens: usize,
    /// Passes of the target that gave them.
    pub cycles: usize,
    /// Drafted ids by their position behind the staged token.
    pub positions: Vec<PositionCount>,
}

impl Score {
    /// Adds an answer.
    pub fn add(&mut self, stats: &Stats) {
        self.prompts += 1;
        self.tokens += stats.completion_tokens.saturating_sub(1);
        self.cycles += stats.cycles;
        let positions = self.positions.len().max(stats.accepted_by_position.len());
        self.positions.resize(positions, PositionCount::default());
        for (all, count) in self.positions.iter_mut().zip(&stats.accepted_by_position) {
            all.verified += count.verified;
            all.accepted += count.accepted;
        }
    }

    /// Ids per pass of the target; 1 is plain decoding.
    pub fn tokens_per_cycle(&self) -> f64 {
        self.tokens as f64 / self.cycles.max(1) as f64
    }

    /// Of every position, the part of its drafted ids that were accepted, with all before them.
    pub fn acceptance(&self) -> Vec<f64> {
        self.positions.iter().map(|count| count.accepted as f64 / count.verified.max(1) as f64).collect()
    }
}

/// The scores of a draft.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Evaluation {
    /// All answers.
    pub all: Score,
    /// Those to the prompts of each category.
    pub categories: BTreeMap<String, Score>,
}

impl Evaluation {
    /// Adds an answer to a prompt of this category.
    pub fn add(&mut self, category: &str, stats: &Stats) {
        self.all.add(stats);
        self.categories.entry(category.to_owned()).or_default().add(stats);
    }
}

impl fmt::Display for Evaluation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:16} {:>7} {:>8} {:>9}  accepted by position", "", "prompts", "tokens", "per cycle")?;
        let all = (self.categories.len() != 1).then_some(("all", &self.all));
        let named = self.categories.iter().map(|(name, score)| (name.as_str(), score)).chain(all);
        for (name, score) in named {
            let rates: Vec<String> = score.acceptance().iter().map(|rate| format!("{rate:.3}")).collect();
            let Score { prompts, tokens, .. } = score;
            let per_cycle = score.tokens_per_cycle();
            writeln!(f, "{name:16} {prompts:>7} {tokens:>8} {per_cycle:>9.3}  {}", rates.join(" "))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stats(tokens: usize, cycles: usize, accepted: &[usize]) -> Stats {
        let count = |&accepted: &usize| PositionCount { verified: cycles, accepted };
        let accepted_by_position = accepted.iter().map(count).collect();
        Stats { completion_tokens: tokens, cycles, accepted_by_position, ..Stats::default() }
    }

    #[test]
    fn answers_are_counted_by_category_and_together_without_their_first_ids() {
        let mut evaluation = Evaluation::default();
        evaluation.add("code", &stats(9, 4, &[3, 1]));
        evaluation.add("chat", &stats(5, 4, &[0]));
        evaluation.add("chat", &stats(1, 0, &[]));
        let Evaluation { all, categories } = &evaluation;
        assert_eq!((all.prompts, all.tokens, all.cycles), (3, 12, 8));
        assert_eq!((all.tokens_per_cycle(), all.acceptance()), (1.5, vec![0.375, 0.25]));
        assert_eq!(categories["code"].tokens_per_cycle(), 2.0);
        assert_eq!((categories["chat"].prompts, categories["chat"].tokens_per_cycle()), (2, 1.0));
        let told = evaluation.to_string();
        assert!(told.contains("all                    3       12     1.500  0.375 0.250"), "{told}");
        assert_eq!((Score::default().tokens_per_cycle(), Score::default().acceptance()), (0.0, vec![]));
    }
}
