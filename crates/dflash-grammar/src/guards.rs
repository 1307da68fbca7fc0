use dflash_engine::{TokenGuard, TokenMask, Verdict};

/// Several guards of one request: an id must be allowed by all, and any may end the answer.
///
/// Where they leave nothing together, those that come later give way: put what must hold, a grammar, first.
#[derive(Default)]
pub struct Guards {
    guards: Vec<Box<dyn TokenGuard>>,
    mask: TokenMask,
}

impl Guards {
    /// No guard yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one after those that are there.
    pub fn add(&mut self, guard: impl TokenGuard + 'static) {
        self.guards.push(Box::new(guard));
    }

    /// The guard that does what all of them do; `None` where there is nothing to do.
    pub fn boxed(mut self) -> Option<Box<dyn TokenGuard>> {
        match self.guards.len() {
            0 | 1 => self.guards.pop(),
            _ => Some(Box::new(self)),
        }
    }
}

impl TokenGuard for Guards {
    fn push(&mut self, id: u32) -> Verdict {
        let verdicts = self.guards.iter_mut().map(|guard| guard.push(id));
        verdicts.fold(Verdict::Go, |so_far, verdict| match (so_far, verdict) {
            (Verdict::Stop { keep }, Verdict::Stop { keep: also }) => Verdict::Stop { keep: keep && also },
            (Verdict::Go, verdict) => verdict,
            (stop, Verdict::Go) => stop,
        })
    }

    fn allowed(&mut self) -> Option<&TokenMask> {
        let mut masks = self.guards.iter_mut().filter_map(|guard| guard.allowed());
        let first = masks.next()?;
        let rest: Vec<&TokenMask> = masks.collect();
        if rest.is_empty() {
            return Some(first);
        }
        let words = rest.into_iter().fold(first.words().to_vec(), |words, mask| {
            let both: Vec<u32> = words.iter().zip(mask.words()).map(|(a, b)| a & b).collect();
            if both.iter().any(|&word| word != 0) { both } else { words }
        });
        self.mask = TokenMask::from_words(words);
        Some(&self.mask)
    }

    fn fits(&mut self, ids: &[u32]) -> usize {
        self.guards.iter_mut().map(|guard| guard.fits(ids)).min().unwrap_or(ids.len())
    }

    /// What the first that expects anything expects, as far as all others let it.
    fn expected(&mut self) -> Vec<u32> {
        let expected = self.guards.iter_mut().map(|guard| guard.expected());
        let mut expected = expected.into_iter().find(|ids| !ids.is_empty()).unwrap_or_default();
        expected.truncate(self.fits(&expected));
        expected
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::mask_of;

    struct Fixed {
        verdict: Verdict,
        mask: Option<TokenMask>,
        fits: usize,
    }

    impl TokenGuard for Fixed {
        fn push(&mut self, _: u32) -> Verdict {
            self.verdict
        }

        fn allowed(&mut self) -> Option<&TokenMask> {
            self.mask.as_ref()
        }

        fn fits(&mut self, ids: &[u32]) -> usize {
            self.fits.min(ids.len())
        }

        fn expected(&mut self) -> Vec<u32> {
            vec![7; 2 * self.fits]
        }
    }

    fn guard(verdict: Verdict, ids: Option<&[u32]>, fits: usize) -> Fixed {
        Fixed { verdict, mask: ids.map(mask_of), fits }
    }

    fn both(first: Fixed, second: Fixed) -> Box<dyn TokenGuard> {
        let mut guards = Guards::new();
        guards.add(first);
        guards.add(second);
        guards.boxed().unwrap()
    }

    #[test]
    fn any_of_them_stops() {
        let of = |a, b| both(guard(a, None, 0), guard(b, None, 0)).push(1);
        let (keep, drop) = (Verdict::Stop { keep: true }, Verdict::Stop { keep: false });
        assert_eq!((of(Verdict::Go, Verdict::Go), of(Verdict::Go, keep)), (Verdict::Go, keep));
        assert_eq!((of(keep, Verdict::Go), of(keep, drop), of(drop, keep)), (keep, drop, drop));
    }

    #[test]
    fn an_id_must_be_allowed_by_all() {
        let masks = |a: Option<&[u32]>, b: Option<&[u32]>| {
            let mut guards = both(guard(Verdict::Go, a, 3), guard(Verdict::Go, b, 2));
            guards.allowed().map(|mask| (0..100).filter(|&id| mask.contains(id)).collect::<Vec<u32>>())
        };
        assert_eq!(masks(None, None), None);
        assert_eq!(masks(None, Some(&[3])), Some(vec![3]));
        assert_eq!(masks(Some(&[3, 70]), Some(&[2, 3])), Some(vec![3]));
        assert_eq!(masks(Some(&[3, 70]), Some(&[2])), Some(vec![3, 70]), "the later gives way");
        let mut guards = both(guard(Verdict::Go, None, 3), guard(Verdict::Go, None, 2));
        assert_eq!((guards.fits(&[1, 2, 3, 4]), guards.expected().len()), (2, 2));
    }

    #[test]
    fn one_stands_alone() {
        assert!(Guards::new().boxed().is_none());
        let mut guards = Guards::new();
        guards.add(guard(Verdict::Go, None, 1));
        assert_eq!(guards.boxed().unwrap().fits(&[1, 2]), 1);
    }
}
