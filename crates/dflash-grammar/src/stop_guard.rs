use dflash_engine::{TokenGuard, Verdict};
use dflash_text::TextGuard;

/// Stop strings as the engine sees them.
pub struct StopGuard(pub TextGuard);

impl TokenGuard for StopGuard {
    fn push(&mut self, id: u32) -> Verdict {
        let verdict = self.0.push(id);
        // The engine needs no text, and what is taken need not be kept.
        self.0.take_text();
        match verdict {
            dflash_text::Verdict::Go => Verdict::Go,
            // The id that completes a stop string is delivered, its text is cut.
            dflash_text::Verdict::Stop => Verdict::Stop { keep: true },
        }
    }
}
