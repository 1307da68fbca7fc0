use std::fmt;
use std::sync::Arc;

use dflash_engine::{TokenGuard, TokenMask, Verdict};
use llguidance::Matcher;

/// One answer's place in its grammar.
///
/// Text that the grammar forces is forced in the ids that the tokenizer would write it in. Where the grammar library
/// gives up (a grammar that grows too complex), only an end is allowed.
pub struct GrammarGuard {
    matcher: Matcher,
    stop_ids: Arc<[u32]>,
    mask: TokenMask,
    /// Whether `mask` is of this position.
    fresh: bool,
}

impl GrammarGuard {
    /// At the beginning. The library writes out all that a grammar forces with the first mask, which can take longer than
    /// to compile it: that is done here, not where ids are decoded.
    ///
    /// # Errors
    /// The library's, where it gives up on that.
    pub(crate) fn new(matcher: Matcher, stop_ids: Arc<[u32]>) -> Result<Self, String> {
        let mut guard = Self { matcher, stop_ids, mask: TokenMask::default(), fresh: false };
        guard.allowed();
        let forced = guard.matcher.compute_ff_tokens();
        let first = forced.first().map(|&id| guard.matcher.clone().consume_token(id));
        first.unwrap_or(Ok(())).map_err(|error| error.to_string())?;
        Ok(guard)
    }

    fn ends(&self, id: u32) -> bool {
        self.stop_ids.contains(&id)
    }
}

impl TokenGuard for GrammarGuard {
    /// Ends the answer with a stop id, with the id that completes it where nothing but a stop id could follow, and
    /// before an id that does not fit.
    fn push(&mut self, id: u32) -> Verdict {
        self.fresh = false;
        if self.ends(id) {
            return Verdict::Stop { keep: true };
        }
        match self.matcher.consume_token(id) {
            Ok(()) if self.matcher.is_stopped() => Verdict::Stop { keep: true },
            Ok(()) => Verdict::Go,
            Err(_) => Verdict::Stop { keep: false },
        }
    }

    fn allowed(&mut self) -> Option<&TokenMask> {
        if !self.fresh {
            self.mask = match self.matcher.compute_mask() {
                Ok(set) => TokenMask::from_words(set.as_slice().to_vec()),
                Err(_) if self.stop_ids.is_empty() => return None,
                Err(_) => mask_of(&self.stop_ids),
            };
            self.fresh = true;
        }
        Some(&self.mask)
    }

    fn fits(&mut self, ids: &[u32]) -> usize {
        let mut trial = self.matcher.clone();
        for (count, &id) in ids.iter().enumerate() {
            if self.ends(id) {
                return count + usize::from(trial.is_accepting().unwrap_or(false));
            }
            if trial.is_stopped() || !may_follow(&mut trial, id) || trial.consume_token(id).is_err() {
                return count;
            }
        }
        ids.len()
    }

    fn expected(&mut self) -> Vec<u32> {
        let mut forced = self.matcher.compute_ff_tokens();
        forced.truncate(self.fits(&forced));
        forced
    }
}

/// Whether `id` is in the mask at the place of `matcher`, without computing it.
fn may_follow(matcher: &mut Matcher, id: u32) -> bool {
    match matcher.compute_ff_tokens().first() {
        Some(&forced) => forced == id,
        None => matcher.validate_tokens(&[id]).is_ok_and(|valid| valid == 1),
    }
}

/// The set of `ids`.
pub(crate) fn mask_of(ids: &[u32]) -> TokenMask {
    let mut mask = TokenMask::new(ids.iter().max().map_or(0, |&id| id as usize + 1));
    ids.iter().for_each(|&id| mask.set(id));
    mask
}

impl fmt::Debug for GrammarGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GrammarGuard").field("stopped", &self.matcher.stop_reason()).finish_non_exhaustive()
    }
}
