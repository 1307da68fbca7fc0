use std::collections::VecDeque;

use dflash_engine::{Load, PrefixStats};
use serde_json::Value;

use super::State;
use super::counts::Counts;
use super::memory::Memory;
use super::progress::Progress;
use crate::{App, ModelFacts};

/// The figures of a server at one moment.
#[derive(Debug)]
pub struct Snapshot {
    /// Name of the pair.
    pub model: String,
    /// What is told of it.
    pub facts: ModelFacts,
    /// `off`, `basic` or `full`.
    pub diagnostics: &'static str,
    /// Seconds since the start.
    pub uptime_s: f64,
    /// Seconds since 1970 at the start.
    pub started_at: f64,
    /// Of the process.
    pub memory: Memory,
    /// Of the engine.
    pub load: Load,
    /// What is kept of prompts and answers; `None` for nothing.
    pub prefix: Option<PrefixStats>,
    /// All that is counted.
    pub counts: Counts,
    /// Answers in work or in the queue, the oldest first.
    pub current: Vec<Progress>,
    /// The last answers, the newest at the end.
    pub records: VecDeque<Value>,
    /// Answers per second of late.
    pub requests_per_s: f64,
}

impl Snapshot {
    /// Of now.
    pub fn of(app: &App) -> Self {
        let State { counts, current, recent, .. } = &*app.metrics.state();
        Self {
            model: app.model.id.clone(),
            facts: app.model.facts.clone(),
            diagnostics: app.metrics.diagnostics().map_or("off", |diagnostics| diagnostics.level().name()),
            uptime_s: app.started.elapsed().as_secs_f64(),
            started_at: app.model.created as f64,
            memory: Memory::now(),
            load: app.model.engine.load(),
            prefix: app.model.engine.options().prefix.map(|_| app.model.engine.prefix_stats()),
            counts: counts.clone(),
            current: current.values().cloned().collect(),
            records: recent.records.clone(),
            requests_per_s: recent.per_second(),
        }
    }
}
