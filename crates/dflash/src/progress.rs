//! What a person sees of something that takes a while. All of it goes to stderr.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::cache::human_bytes;
use crate::report::say;

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

/// One step in bytes, tokens or answers. It disappears when dropped.
#[derive(Debug)]
pub struct Step(Option<ProgressBar>);

const BYTES: &str = "{msg} [{bar:30}] {bytes}/{total_bytes} {elapsed}";
const TRIALS: &str = "[{bar:30}] {pos}/{len} answers {elapsed} {msg}";
const TOKENS: &str = "{msg} [{bar:30}] {pos}/{len} tokens {elapsed}";

impl Progress {
    /// Bars on a terminal, lines elsewhere.
    pub fn of_stderr() -> Self {
        if std::io::stderr().is_terminal() { Self::Bar } else { Self::Lines }
    }

    /// Says one line.
    pub fn note(self, text: &str) {
        if self != Self::Silent {
            say(text.replace('\n', "\n  "));
        }
    }

    /// Says one line when it is called after more than a second.
    pub fn when_long(self, text: &'static str) -> impl FnMut() {
        let (began, mut said) = (Instant::now(), false);
        move || {
            if !said && began.elapsed() > Duration::from_secs(1) {
                said = true;
                self.note(text);
            }
        }
    }

    /// Begins a step of about `bytes` bytes.
    pub fn step(self, label: &str, bytes: u64) -> Step {
        match self {
            Self::Bar => Step(Some(bar(label, bytes, BYTES))),
            Self::Lines => {
                say(format_args!("{label} ({})", human_bytes(bytes)));
                Step(None)
            }
            Self::Silent => Step(None),
        }
    }

    /// Begins a step of at most `tokens` tokens. Only a terminal shows it: a log has no use for it.
    pub fn token_step(self, label: &str, tokens: usize) -> Step {
        Step((self == Self::Bar).then(|| bar(label, tokens as u64, TOKENS)))
    }

    /// Begins a step of so many answers, for a terminal only.
    pub fn trial_step(self, trials: usize) -> Step {
        Step((self == Self::Bar).then(|| bar("", trials as u64, TRIALS)))
    }
}

impl Step {
    /// Says what is being done.
    pub fn label(&self, text: &str) {
        if let Some(bar) = &self.0 {
            bar.set_message(text.to_owned());
        }
    }

    /// Says how much is done.
    pub fn set(&self, done: u64) {
        if let Some(bar) = &self.0 {
            bar.set_position(done);
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

fn bar(label: &str, total: u64, template: &str) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("=> "));
    }
    bar.set_message(label.to_owned());
    bar
}
