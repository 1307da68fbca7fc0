use dflash_engine::{TokenGuard, TokenMask, Verdict};
use dflash_text::{TextError, Tokenizer};

use crate::Reasoning;
use crate::guard::mask_of;

/// Closes a block of reasoning that has gone on long enough: after so many ids in it nothing is allowed but what
/// closes it, id by id. A block that is opened later has as many again.
///
/// Markers are found in the ids that the tokenizer writes them in, so a marker that a model spells in other ids is
/// text to it.
pub struct ThinkingBudget {
    open: Vec<u32>,
    close: Vec<u32>,
    budget: usize,
    /// The last ids, as many as the longer marker has.
    last: Vec<u32>,
    /// Ids in the open block, if one is open.
    spent: Option<usize>,
    /// Ids of the closing marker that are written.
    written: usize,
    mask: TokenMask,
}

impl ThinkingBudget {
    /// At most `budget` ids in a block of `reasoning`, beside those that close it.
    ///
    /// # Errors
    ///
    /// When the tokenizer cannot write the markers.
    pub fn new(tokenizer: &Tokenizer, reasoning: &Reasoning, budget: usize) -> Result<Self, TextError> {
        Ok(Self {
            open: tokenizer.encode(&reasoning.markers.open, true)?,
            close: tokenizer.encode(&reasoning.markers.close, true)?,
            budget,
            last: Vec::new(),
            spent: reasoning.begun.then_some(0),
            written: 0,
            mask: TokenMask::default(),
        })
    }

    /// The id that must come next.
    fn forced(&self) -> Option<u32> {
        let over = self.spent.is_some_and(|spent| spent >= self.budget);
        self.close.get(self.written).copied().filter(|_| over)
    }

    fn remember(&mut self, id: u32) {
        self.last.push(id);
        let most = self.open.len().max(self.close.len());
        self.last.drain(..self.last.len().saturating_sub(most));
    }

    fn ends_with(&self, marker: &[u32]) -> bool {
        !marker.is_empty() && self.last.ends_with(marker)
    }
}

impl TokenGuard for ThinkingBudget {
    fn push(&mut self, id: u32) -> Verdict {
        // Something that had to hold more than this may have come instead; then the marker is begun anew.
        self.written = if self.forced() == Some(id) { self.written + 1 } else { 0 };
        self.remember(id);
        self.spent = match self.spent {
            Some(_) if self.ends_with(&self.close) => None,
            Some(spent) => Some(spent + 1),
            None => self.ends_with(&self.open).then_some(0),
        };
        if self.spent.is_none() {
            self.written = 0;
        }
        Verdict::Go
    }

    fn allowed(&mut self) -> Option<&TokenMask> {
        self.mask = mask_of(&[self.forced()?]);
        Some(&self.mask)
    }

    fn fits(&mut self, ids: &[u32]) -> usize {
        // Not worth following a draft through markers: what it says too much of is not chosen.
        let Some(spent) = self.spent else { return ids.len() };
        match self.forced() {
            Some(_) => {
                ids.iter().zip(&self.close[self.written..]).take_while(|(id, forced)| id == forced).count()
            }
            None => ids.len().min(self.budget - spent),
        }
    }

    fn expected(&mut self) -> Vec<u32> {
        self.forced().map_or_else(Vec::new, |_| self.close[self.written..].to_vec())
    }
}
