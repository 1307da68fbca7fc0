use serde::Serialize;
use serde_json::Value;

use crate::options::Options;
use crate::prefix::PrefixChoice;

/// How a check came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Nothing to do.
    Ok,
    /// Works, but the user may want to know.
    Warning,
    /// Does not work.
    Fatal,
}

/// One finding.
#[derive(Debug, Clone, Serialize)]
pub struct Check {
    /// What was looked at.
    pub name: &'static str,
    /// How it came out.
    pub status: Status,
    /// In a sentence or a few lines.
    pub message: String,
    /// The same in figures.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub details: Value,
}

impl Check {
    fn new(name: &'static str, status: Status, message: impl Into<String>) -> Self {
        Self { name, status, message: message.into(), details: Value::Null }
    }

    /// Nothing to do.
    pub fn ok(name: &'static str, message: impl Into<String>) -> Self {
        Self::new(name, Status::Ok, message)
    }

    /// Works, but.
    pub fn warning(name: &'static str, message: impl Into<String>) -> Self {
        Self::new(name, Status::Warning, message)
    }

    /// Does not work.
    pub fn fatal(name: &'static str, message: impl Into<String>) -> Self {
        Self::new(name, Status::Fatal, message)
    }

    /// Adds figures.
    #[must_use]
    pub fn with(mut self, details: Value) -> Self {
        self.details = details;
        self
    }
}

/// Counts of all checks.
#[derive(Debug, Clone, Serialize)]
pub struct Summary {
    /// The worst status.
    pub status: Status,
    /// Checks run.
    pub checks: usize,
    /// Of those fatal.
    pub fatals: usize,
    /// Of those warnings.
    pub warnings: usize,
}

/// Every option with its origin.
#[derive(Debug, Clone, Serialize)]
pub struct EffectiveConfig {
    /// Those that commands share.
    #[serde(flatten)]
    pub options: Options,
    /// What a server keeps of prompts and answers.
    #[serde(flatten)]
    pub prefix: PrefixChoice,
}

/// What `dflash doctor --json` prints.
#[derive(Debug, Clone, Serialize)]
pub struct DoctorReport {
    /// Counts.
    pub summary: Summary,
    /// This build.
    pub version: &'static str,
    /// Every option with its origin; absent when one cannot be understood.
    pub effective_config: Option<EffectiveConfig>,
    /// The findings.
    pub checks: Vec<Check>,
}

impl DoctorReport {
    /// Sums the checks up.
    pub fn new(effective_config: Option<EffectiveConfig>, checks: Vec<Check>) -> Self {
        let count = |status| checks.iter().filter(|check| check.status == status).count();
        let summary = Summary {
            status: checks.iter().map(|check| check.status).max().unwrap_or(Status::Ok),
            checks: checks.len(),
            fatals: count(Status::Fatal),
            warnings: count(Status::Warning),
        };
        Self { summary, version: env!("CARGO_PKG_VERSION"), effective_config, checks }
    }

    /// 0 when all is well, 1 on a fatal finding, 2 on a warning (1 when `strict`).
    pub fn exit_code(&self, strict: bool) -> u8 {
        match (self.summary.status, strict) {
            (Status::Ok, _) => 0,
            (Status::Warning, false) => 2,
            _ => 1,
        }
    }

    /// For people.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for check in &self.checks {
            let mark = match check.status {
                Status::Ok => "ok     ",
                Status::Warning => "WARNING",
                Status::Fatal => "FATAL  ",
            };
            let message = check.message.replace('\n', &format!("\n{:20}", ""));
            text += &format!("{mark} {:<11} {message}\n", check.name);
        }
        let Summary { checks, fatals, warnings, .. } = self.summary;
        text + &format!("{checks} checks, {fatals} fatal, {warnings} warnings\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_finding_decides_the_exit_code() {
        let report = |checks| DoctorReport::new(None, checks);
        let fine = report(vec![Check::ok("a", "")]);
        let warned = report(vec![Check::ok("a", ""), Check::warning("b", "")]);
        let broken = report(vec![Check::fatal("a", ""), Check::warning("b", "")]);
        assert_eq!([&fine, &warned, &broken].map(|report| report.exit_code(false)), [0, 2, 1]);
        assert_eq!([&fine, &warned, &broken].map(|report| report.exit_code(true)), [0, 1, 1]);
        assert!(broken.text().ends_with("2 checks, 1 fatal, 1 warnings\n"));
    }
}
