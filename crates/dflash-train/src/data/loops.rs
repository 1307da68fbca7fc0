use dflash_engine::{TokenGuard, Verdict};

/// Longest repeated unit that is looked for, in ids.
const LONGEST: usize = 96;
/// So many ids that repeat what stood a period earlier are a loop, if they are also two whole periods.
const REPEATED: usize = 64;

/// Ends an answer that goes round in circles: what repeats for ever teaches a draft nothing new.
#[derive(Debug)]
pub(super) struct LoopGuard {
    ids: Vec<u32>,
    /// For every period: how many of the last ids equal the one a period before.
    equal: [usize; LONGEST],
}

impl LoopGuard {
    pub(super) fn new() -> Self {
        Self { ids: Vec::new(), equal: [0; LONGEST] }
    }
}

impl TokenGuard for LoopGuard {
    fn push(&mut self, id: u32) -> Verdict {
        let mut loops = false;
        for (index, equal) in self.equal.iter_mut().enumerate() {
            let period = index + 1;
            let same = self.ids.len() >= period && self.ids[self.ids.len() - period] == id;
            *equal = if same { *equal + 1 } else { 0 };
            loops |= *equal >= REPEATED.max(2 * period);
        }
        self.ids.push(id);
        if loops { Verdict::Stop { keep: true } } else { Verdict::Go }
    }
}

#[cfg(test)]
mod tests {
    use dflash_engine::{TokenGuard, Verdict};

    use super::LoopGuard;

    fn taken(ids: impl Iterator<Item = u32>) -> usize {
        let mut guard = LoopGuard::new();
        ids.take_while(|&id| guard.push(id) == Verdict::Go).count()
    }

    #[test]
    fn circles_end_and_lists_go_on() {
        assert_eq!(taken((0..1000).map(|i| i % 7)), 7 + 63);
        assert_eq!(taken((0..1000).map(|i| i % 50)), 50 + 99);
        // A list whose items differ in one id each.
        let list = (0..1000).map(|i| if i % 10 == 3 { 500 + i } else { i % 10 });
        assert_eq!(taken(list), 1000);
    }
}
