use std::ops::Range;

use dflash_engine::{Node, Offer, Outcome, Plan, ProposeRequest, Proposer, ProposerState, WidthPolicy};
use dflash_tensor::{BackendError, Tensor};

use crate::Rng;

/// What a scripted draft says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Script {
    /// The true continuation.
    Oracle,
    /// The true continuation for so many ids, then wrong ones.
    RightFor(usize),
    /// Random ids of the vocabulary.
    Random,
    /// Random ids, many outside of the vocabulary.
    Hostile,
}

/// A draft that follows a script instead of a model.
pub struct Scripted {
    /// Prompt and true continuation.
    pub truth: Vec<u32>,
    /// What it says.
    pub script: Script,
    /// Ids of the target.
    pub vocab: u32,
    /// Rows of a block.
    pub block: usize,
    /// Of the random ids.
    pub seed: u64,
}

impl Scripted {
    fn draft(&self, at: usize, offset: usize, rng: &mut Rng) -> u32 {
        let truth = self.truth.get(at + offset).copied().unwrap_or(0);
        match self.script {
            Script::Oracle => truth,
            Script::RightFor(k) if offset < k => truth,
            Script::RightFor(_) => (truth + 1) % self.vocab,
            Script::Random => rng.below(self.vocab),
            Script::Hostile => [rng.below(self.vocab), self.vocab, u32::MAX, truth][rng.below(4) as usize],
        }
    }
}

impl Proposer for Scripted {
    fn name(&self) -> &'static str {
        "scripted"
    }

    fn new_state(&self) -> ProposerState {
        Box::new(Rng::new(self.seed))
    }

    fn observe(&self, _: &mut ProposerState, _: Option<&Tensor>, _: Range<usize>, _: usize) {}

    fn offer(&self, _: &mut ProposerState, _: &[u32]) -> Offer {
        Offer { ids: self.block - 1, class: 0 }
    }

    fn propose(&self, requests: &mut [ProposeRequest<'_>]) -> Result<(), BackendError> {
        for request in requests {
            let rng = request.state.downcast_mut::<Rng>().expect("state of this proposer");
            for offset in 0..request.width - 1 {
                let id = self.draft(request.ids.len(), offset, rng);
                // Among alternatives it stands anywhere, and the others are not it.
                let place = rng.below(request.ranks as u32);
                let others = (1..request.ranks as u32).map(|step| id.wrapping_add(step) % self.vocab);
                let mut alternatives: Vec<u32> = others.collect();
                alternatives.insert(place as usize, id);
                request.drafted.append(&mut alternatives);
            }
        }
        Ok(())
    }
}

/// Picks proposer and width by lot, and what of a drafted block is verified.
pub struct RandomWidths(pub Rng);

impl WidthPolicy for RandomWidths {
    fn plan(&mut self, offers: &[Offer], limit: usize) -> Plan {
        let index = self.0.below(offers.len() as u32) as usize;
        let width = 1 + self.0.below(limit.min(offers[index].ids + 1) as u32) as usize;
        if width > 1 {
            Plan { ranks: 1 + self.0.below(3) as usize, ..Plan::chain(index, width) }
        } else {
            Plan::PLAIN
        }
    }

    /// A chain of some rows, or a tree of some of the alternatives.
    fn grow(&mut self, plan: &Plan, _: usize, _: &[f32], nodes: &mut Vec<Node>) {
        if plan.ranks == 1 {
            let rows = self.0.below(plan.width as u32) as usize;
            return nodes.extend(Node::chain(rows, 1.0));
        }
        for _ in 0..self.0.below(2 * plan.width as u32) {
            let parent =
                (!nodes.is_empty() && self.0.below(4) > 0).then(|| self.0.below(nodes.len() as u32) as usize);
            let position = parent.map_or(0, |parent| nodes[parent].position + 1);
            let rank = self.0.below(plan.ranks as u32) as usize;
            let twin = nodes.iter().any(|node| (node.parent, node.rank) == (parent, rank));
            if position < plan.width - 1 && !twin {
                nodes.push(Node { parent, position, rank, reach: 1.0 });
            }
        }
    }

    fn record(&mut self, _: &Outcome<'_>) {}
}
