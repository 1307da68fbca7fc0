use std::fmt::Display;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::progress::Progress;

/// Between two lines where nobody looks at a terminal.
const LOG: Duration = Duration::from_secs(10);
const REDRAW: Duration = Duration::from_millis(200);

/// A line that says how far long work is: it changes in place on a terminal, and comes now and then elsewhere.
pub(super) struct Meter {
    progress: Progress,
    bar: ProgressBar,
    last: Option<Instant>,
}

impl Meter {
    pub(super) fn new(progress: Progress) -> Self {
        let bar = if progress == Progress::Bar { ProgressBar::new_spinner() } else { ProgressBar::hidden() };
        // A line that wraps cannot be redrawn.
        bar.set_style(ProgressStyle::with_template("{wide_msg}").expect("a sound template"));
        Self { progress, bar, last: None }
    }

    /// Shows the line if it is time for it.
    pub(super) fn show(&mut self, line: &dyn Display) {
        let every = if self.progress == Progress::Bar { REDRAW } else { LOG };
        if self.last.is_some_and(|last| last.elapsed() < every) {
            return;
        }
        self.last = Some(Instant::now());
        match self.progress {
            Progress::Bar => {
                self.bar.set_message(line.to_string());
                self.bar.tick();
            }
            _ => self.progress.note(&line.to_string()),
        }
    }

    /// Says something once, above the line.
    pub(super) fn note(&self, line: &dyn Display) {
        self.bar.suspend(|| self.progress.note(&line.to_string()));
    }

    /// Leaves the last line where it is.
    pub(super) fn end(self, line: &dyn Display) {
        self.bar.finish_and_clear();
        self.progress.note(&line.to_string());
    }
}
