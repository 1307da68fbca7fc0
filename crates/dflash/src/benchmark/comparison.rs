use std::process::ExitCode;

use super::bench::Bench;
use super::folder::Folder;
use super::leg::Leg;
use super::manifest::Manifest;
use super::measure::{Course, Measured};
use super::summary::{Summary, Surroundings};
use crate::env::Environment;
use crate::interrupt::Interrupt;
use crate::progress::Progress;
use crate::report::{FailureKind, Outcome, say};
use crate::request::ComparisonRequest;
use crate::run::{print, to_json};
use crate::suite;

/// Decodes the prompts by every leg and reports; the exit code is 1 when a leg gave other ids.
pub fn compare(request: &ComparisonRequest, env: &Environment) -> Outcome<ExitCode> {
    let progress = Progress::of_stderr();
    Folder::check(request.out.as_deref())?;
    let prompts = suite::prompts(&request.suite, &request.options, env, progress)?;
    let bench = Bench::open(request, env, progress)?;
    let questions = bench.read(prompts, request)?;
    let legs = Leg::of(request, &bench.pair.info.draft);

    let manifest = Manifest::new(&bench, request, &questions, env);
    let mut folder = Folder::create(request.out.as_deref(), &manifest.folder_name(request))?;
    manifest.write(&folder, request, &legs)?;

    let (asked, caught) = Interrupt::catch();
    let before = bench.pair.backend.read_bandwidth();
    let course = Course { bench: &bench, request, legs: &legs, asked: &asked };
    let Measured { prompts, stopped } = course.run(&questions, &mut folder, progress);
    let bandwidth = before.max(bench.pair.backend.read_bandwidth());
    let incomplete = stopped.as_ref().map(|failure| {
        let why = match failure.kind() {
            FailureKind::Interrupted => "interrupted",
            _ => "failed",
        };
        format!("INCOMPLETE: {why} after {} of {} prompts", prompts.len(), questions.len())
    });
    if !prompts.is_empty() {
        let surroundings = Surroundings { bandwidth, incomplete };
        let summary = Summary::of(&bench, request, &legs, &prompts, surroundings)?;
        folder.finish(&summary)?;
        folder.json("manifest.json", &manifest.json(Some(&summary)))?;
        print(&if request.json { to_json(&summary)? } else { summary.text() })?;
        say(format_args!("report: {}", folder.path().join("report.html").display()));
        if stopped.is_none() {
            return Ok(ExitCode::from(summary.exit_code()));
        }
    }
    drop(caught);
    Err(stopped.unwrap_or_else(crate::report::Failure::interrupted))
}
