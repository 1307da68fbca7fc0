use std::ops::Range;

use crate::{Node, Plan, TokenLogprobs};

/// The rows of a sequence in a step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Part {
    /// None.
    #[default]
    Idle,
    /// So many of its prompt.
    Prompt(usize),
    /// The staged token and what was drafted after it.
    Block,
}

/// What was drafted for a sequence in a step, and what became of it. Reused from step to step.
pub(crate) struct Block {
    pub plan: Plan,
    /// Rows that may be verified: the plan's width may be more, for the sake of a shared pass.
    pub limit: usize,
    /// Class of the proposer's offer.
    pub class: usize,
    /// Whether the proposer was not asked yet.
    pub wanted: bool,
    /// Sequences that shared the proposer's pass; 0 without one.
    pub mates: usize,
    /// What the proposer said, position by position.
    pub said: Vec<u32>,
    pub confidence: Vec<f32>,
    /// What of it shall be verified; row `i + 1` of the span is node `i`.
    pub nodes: Vec<Node>,
    /// Of every node, its number in what the policy asked for.
    pub origin: Vec<usize>,
    /// The ids of the nodes.
    pub drafted: Vec<u32>,
    /// Of all rows; empty for a chain.
    pub parents: Vec<Option<usize>>,
    /// Rows by which the proposer is judged.
    pub judged: usize,
    /// First row of the span in the batch.
    pub first_row: usize,
    /// Rows of the batch that an id is chosen at.
    pub chosen: Range<usize>,
    /// Whether the rows are among those that were chosen at together, and where these begin.
    pub choices: Option<usize>,
    /// The same among stored logits.
    pub logits: Option<usize>,
    /// Rows that were accepted, the staged one first.
    pub path: Vec<usize>,
    /// The target's choices at these.
    pub accepted: Vec<u32>,
    /// Ids of those that are delivered.
    pub delivered: usize,
    pub logprobs: Vec<TokenLogprobs>,
    /// Ids on the way to a node.
    pub way: Vec<u32>,
    pub laps: BlockLaps,
}

/// Seconds that a sequence took in a step for itself.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct BlockLaps {
    pub draft_s: f64,
    pub choose_s: f64,
    pub rollback_s: f64,
    pub observe_s: f64,
}

impl Block {
    /// With room for `width` rows.
    pub fn new(width: usize) -> Self {
        Self {
            plan: Plan::PLAIN,
            limit: 1,
            class: 0,
            wanted: false,
            mates: 0,
            said: Vec::with_capacity(width),
            confidence: Vec::with_capacity(width),
            nodes: Vec::with_capacity(width),
            origin: Vec::with_capacity(width),
            drafted: Vec::with_capacity(width),
            parents: Vec::new(),
            judged: 1,
            first_row: 0,
            chosen: 0..0,
            choices: None,
            logits: None,
            path: Vec::with_capacity(width + 1),
            accepted: Vec::with_capacity(width),
            delivered: 0,
            logprobs: Vec::new(),
            way: Vec::with_capacity(width),
            laps: BlockLaps::default(),
        }
    }

    /// Nothing drafted.
    pub fn clear(&mut self) {
        self.plan = Plan::PLAIN;
        (self.class, self.wanted, self.mates, self.judged) = (0, false, 0, 1);
        self.said.clear();
        self.confidence.clear();
        self.keep(0);
        self.parents.clear();
        self.path.clear();
        self.accepted.clear();
        self.delivered = 0;
        self.logprobs.clear();
        (self.choices, self.logits) = (None, None);
        self.laps = BlockLaps::default();
    }

    /// Rows of the span.
    pub fn rows(&self) -> usize {
        self.drafted.len() + 1
    }

    /// Drops all nodes but the first ones, for the sake of other sequences: the proposer is not judged by the others.
    pub fn cut(&mut self, nodes: usize) {
        if nodes < self.nodes.len() {
            self.judged = nodes.checked_sub(1).map_or(1, |last| self.origin[last] + 2);
            self.keep(nodes);
        }
    }

    /// Drops all nodes but the first ones.
    fn keep(&mut self, nodes: usize) {
        self.nodes.truncate(nodes);
        self.origin.truncate(nodes);
        self.drafted.truncate(nodes);
        self.parents.truncate(if nodes == 0 { 0 } else { nodes + 1 });
    }

    /// Drafted positions among the nodes.
    pub fn depth(&self) -> usize {
        self.nodes.iter().map(|node| node.position + 1).max().unwrap_or(0)
    }

    /// The row that follows `row` with `id`, which then belongs to the path.
    pub fn step(&mut self, row: usize, id: u32) -> Option<usize> {
        let follows = |next: &usize| match self.parents.get(*next) {
            Some(parent) => *parent == Some(row),
            None => *next == row + 1,
        };
        let right = |next: &usize| self.drafted[next - 1] == id;
        let next = (row + 1..self.rows()).filter(follows).find(right)?;
        self.path.push(next);
        Some(next)
    }
}
