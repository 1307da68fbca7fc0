use crate::{Detokenizer, StopStrings};

/// Whether generation may go on after an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing stops here.
    Go,
    /// A stop string is complete: this id is the last.
    Stop,
}

/// A place in the ids to come back to.
///
/// It holds only what is undecided (at most three bytes and less than one stop string), not the text so far.
#[derive(Debug, Clone)]
pub struct GuardCheckpoint {
    detokenizer: Detokenizer,
    stops: StopStrings,
    emitted: usize,
}

/// Stop strings over token ids: a [`Detokenizer`] followed by [`StopStrings`].
///
/// It is made to be walked along a drafted path id by id and taken back to where the path was rejected.
#[derive(Debug, Clone)]
pub struct TextGuard {
    detokenizer: Detokenizer,
    stops: StopStrings,
    text: String,
    taken: usize,
}

impl TextGuard {
    /// A guard at the beginning of a text.
    pub fn new(detokenizer: Detokenizer, stops: StopStrings) -> Self {
        Self { detokenizer, stops, text: String::new(), taken: 0 }
    }

    /// Takes one id. After [`Verdict::Stop`] every further id stops too and adds no text.
    pub fn push(&mut self, id: u32) -> Verdict {
        if !self.stops.stopped() {
            let new = self.detokenizer.push(id);
            self.text += &self.stops.push(&new).emit;
        }
        self.verdict()
    }

    /// Tells the guard that no more ids come: what was held back becomes text.
    pub fn finish(&mut self) -> Verdict {
        let rest = self.detokenizer.flush();
        self.text += &self.stops.push(&rest).emit;
        self.text += &self.stops.flush();
        self.verdict()
    }

    /// The text that may be shown and has not been taken yet.
    pub fn take_text(&mut self) -> String {
        self.taken += self.text.len();
        std::mem::take(&mut self.text)
    }

    /// Remembers this place.
    pub fn checkpoint(&self) -> GuardCheckpoint {
        GuardCheckpoint {
            detokenizer: self.detokenizer.clone(),
            stops: self.stops.clone(),
            emitted: self.taken + self.text.len(),
        }
    }

    /// Goes back to `to`. Text taken since then cannot be untaken: take text only of committed ids.
    pub fn restore(&mut self, to: &GuardCheckpoint) {
        self.detokenizer.clone_from(&to.detokenizer);
        self.stops.clone_from(&to.stops);
        self.text.truncate(to.emitted.saturating_sub(self.taken));
    }

    fn verdict(&self) -> Verdict {
        if self.stops.stopped() { Verdict::Stop } else { Verdict::Go }
    }
}

#[cfg(test)]
mod tests {
    use crate::samples;

    use super::*;

    fn guard(stop: &str) -> TextGuard {
        TextGuard::new(Detokenizer::new(&samples::bytes_only()), StopStrings::new([stop]).unwrap())
    }

    fn walk(guard: &mut TextGuard, text: &str) -> Vec<Verdict> {
        text.bytes().map(|byte| guard.push(samples::id_of_byte(byte))).collect()
    }

    #[test]
    fn stops_on_the_id_that_completes_the_string() {
        let mut guard = guard("žb");
        let verdicts = walk(&mut guard, "aéžbc");
        assert_eq!(verdicts.iter().filter(|v| **v == Verdict::Go).count(), "aéž".len());
        assert_eq!(guard.finish(), Verdict::Stop);
        assert_eq!(guard.take_text(), "aé");
    }

    #[test]
    fn rejected_ids_leave_no_trace() {
        let mut guard = guard("stop");
        let mut twin = guard.clone();
        for (accepted, rejected) in [("as", "top"), ("ž", "\u{20ac}"), ("st", "op!"), ("x\u{0}", "stop")] {
            walk(&mut guard, accepted);
            walk(&mut twin, accepted);
            let mark = guard.checkpoint();
            for cut in 0..=rejected.len() {
                for &byte in &rejected.as_bytes()[..cut] {
                    guard.push(samples::id_of_byte(byte));
                }
                guard.restore(&mark);
            }
        }
        assert_eq!((guard.finish(), twin.finish()), (Verdict::Go, Verdict::Go));
        assert_eq!(guard.take_text(), twin.take_text());
    }

    #[test]
    fn unfinished_bytes_come_out_once_at_the_end() {
        let mut guard = guard("zz");
        walk(&mut guard, "az");
        guard.push(samples::id_of_byte(0xE2));
        assert_eq!(guard.finish(), Verdict::Go);
        assert_eq!(guard.take_text(), "az\u{FFFD}");
        assert_eq!(guard.finish(), Verdict::Go);
        assert_eq!(guard.take_text(), "");
    }
}
