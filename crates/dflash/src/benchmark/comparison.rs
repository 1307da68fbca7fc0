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
        let why = if failure.kind() == FailureKind::Interrupted { "interrupted" } else { "failed" };
        format!("INCOMPLETE: {why} after {} of {} prompts", prompts.len(), questions.len())
    });
    let surroundings = Surroundings { bandwidth, timestamp: manifest.timestamp(), incomplete };
    let summary = (!prompts.is_empty())
        .then(|| Summary::of(&bench, request, &legs, &prompts, surroundings))
        .transpose()?;
    folder.json("manifest.json", &manifest.ended(stopped.is_none(), summary.as_ref()))?;
    if let Some(summary) = &summary {
        folder.finish(summary)?;
        print(&if request.json { to_json(summary)? } else { summary.text() })?;
        say(format_args!("report: {}", folder.path().join("report.html").display()));
    }
    drop(caught);
    match stopped {
        Some(failure) => Err(failure),
        None => Ok(ExitCode::from(summary.map_or(0, |summary| summary.exit_code()))),
    }
}
