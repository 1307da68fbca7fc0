use dflash_engine::{Event, FinishReason, Stats};

use super::ended::{Ended, Outcome};
use super::progress::Gap;
use super::{Metrics, State};
use crate::logs;

/// Sees every event of one answer; one that is dropped before the last of them was cancelled.
pub struct Observer {
    metrics: Metrics,
    key: u64,
    /// Of its request.
    id: String,
}

impl Observer {
    pub(super) fn new(metrics: Metrics, key: u64, id: String) -> Self {
        Self { metrics, key, id }
    }

    /// The next event.
    pub fn see(&mut self, event: &Event) {
        match event {
            Event::PrefillProgress { done, total } => {
                self.watch(event);
                logs::prefill(&self.id, *done, *total);
            }
            Event::Finished { reason, stats } => {
                let outcome = match reason {
                    FinishReason::Stop => Outcome::Stop,
                    FinishReason::Length => Outcome::Length,
                };
                self.end(outcome, None, Some(stats));
            }
            Event::Failed(error) => self.end(Outcome::Failed, Some(error.to_string()), None),
            event => self.watch(event),
        }
    }

    fn watch(&self, event: &Event) {
        let State { counts, current, .. } = &mut *self.metrics.state();
        let Some(progress) = current.get_mut(&self.key) else { return };
        match event {
            Event::Admitted { queued_s } => {
                counts.queue.observe(*queued_s, 1);
                progress.queue_s = Some(*queued_s);
            }
            Event::PrefillProgress { done, total } => {
                counts.prompt_tokens += done.saturating_sub(progress.prefill.0) as u64;
                progress.prefill = (*done, *total);
            }
            Event::Tokens(ids) => {
                counts.generated_tokens += ids.len() as u64;
                match progress.tokens(ids.len()) {
                    Gap::First(seconds) => counts.ttft.observe(seconds, 1),
                    Gap::Next(seconds) => {
                        counts.between.observe(seconds / ids.len() as f64, ids.len() as u64);
                    }
                }
            }
            Event::Cycle(cycle) => {
                counts.cycle(cycle);
                progress.cycle(cycle);
                if let Some(diagnostics) = self.metrics.diagnostics() {
                    diagnostics.cycle(progress, cycle);
                }
            }
            _ => {}
        }
    }

    fn end(&self, outcome: Outcome, error: Option<String>, stats: Option<&Stats>) {
        let Some(ended) = self.count(outcome, error, stats) else { return };
        logs::answered(&ended);
        if let Some(diagnostics) = self.metrics.diagnostics() {
            diagnostics.answered(&ended);
        }
    }

    /// Counts the end; `None` where it was counted before.
    fn count(&self, outcome: Outcome, error: Option<String>, stats: Option<&Stats>) -> Option<Ended> {
        let State { counts, current, recent, .. } = &mut *self.metrics.state();
        let progress = current.remove(&self.key)?;
        if let Some(stats) = stats {
            counts.complete(stats);
        }
        let ended = Ended::new(progress, outcome, error, stats.cloned());
        let generated = ended.progress.generated as u64;
        counts.ended(ended.progress.facts.api, outcome.name(), generated, ended.wall_s);
        recent.push(ended.record());
        Some(ended)
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        self.end(Outcome::Cancelled, None, None);
    }
}
