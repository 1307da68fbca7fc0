//! What a person sees of something that takes a while. All of it goes to stderr.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::cache::human_bytes;

/// How progress is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// A bar that redraws itself.
    Bar,
    /// One line per step: for logs and pipes.
    Lines,
    /// Nothing.
    Silent,
}

/// One step in bytes. It disappears when dropped.
#[derive(Debug)]
pub struct Step(Option<ProgressBar>);

impl Progress {
    /// Bars on a terminal, lines elsewhere.
    pub fn of_stderr() -> Self {
        if std::io::stderr().is_terminal() { Self::Bar } else { Self::Lines }
    }

    /// Says one line.
    pub fn note(self, text: &str) {
        if self != Self::Silent {
            eprintln!("{text}");
        }
    }

    /// Begins a step of about `bytes` bytes.
    pub fn step(self, label: &str, bytes: u64) -> Step {
        match self {
            Self::Bar => Step(Some(bar(label, bytes))),
            Self::Lines => {
                eprintln!("{label} ({})", human_bytes(bytes));
                Step(None)
            }
            Self::Silent => Step(None),
        }
    }
}

impl Step {
    /// Says how many bytes are done.
    pub fn set(&self, bytes: u64) {
        if let Some(bar) = &self.0 {
            bar.set_position(bytes);
        }
    }
}

impl Drop for Step {
    fn drop(&mut self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}

fn bar(label: &str, bytes: u64) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(bytes), ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template("{msg} [{bar:30}] {bytes}/{total_bytes} {elapsed}") {
        bar.set_style(style.progress_chars("=> "));
    }
    bar.set_message(label.to_owned());
    bar
}
