use serde::{Deserialize, Serialize};

/// How a draft is trained. A run keeps them: it is resumed with the same ones only.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunSettings {
    /// The target, as its user calls it.
    pub model: String,
    /// Names the data: other sequences, another name.
    pub data: String,
    /// Decoder layers of the draft.
    pub layers: usize,
    /// Block length, the staged token included.
    pub block: usize,
    /// Target layers whose outputs are the features, from 0; `None` for the usual ones.
    pub taps: Option<Vec<usize>>,
    /// Ids that the draft can propose, the most frequent of the answers; 0 for all.
    pub vocab: usize,
    /// Rank of the Markov head; 0 for none.
    pub markov_rank: usize,
    /// Id that stands for positions to be filled.
    pub mask_id: u32,
    /// What the draft begins as.
    pub start: Start,
    /// Steps in all.
    pub steps: usize,
    /// Sequences of a step.
    pub sequences: usize,
    /// Random anchors of a sequence in a step.
    pub anchors: usize,
    /// The loss of slot `k` counts `exp(-(k - 1) / gamma)`.
    pub gamma: f32,
    /// Highest learning rate.
    pub learning_rate: f64,
    /// Share of the steps in which the learning rate rises.
    pub warmup: f64,
    /// Of AdamW, for matrices.
    pub weight_decay: f64,
    /// Longest gradient; a longer one is shortened.
    pub clip: f64,
    /// Sequences that are not trained on, to measure with.
    pub held_out: usize,
    /// Steps between two evaluations, each with a checkpoint.
    pub evaluate_every: usize,
    /// Of everything that is left to chance.
    pub seed: u64,
}

/// What a draft begins as.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Start {
    /// Layers of the target, one for each of the draft's; random where they do not fit.
    Target(Vec<usize>),
    /// Random matrices.
    Random,
    /// The weights of another draft of the same shape, in a folder.
    Draft(std::path::PathBuf),
}
