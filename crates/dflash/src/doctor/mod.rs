//! `dflash doctor`: what this machine is, what the options mean here, and whether the pair fits.

mod machine;
mod models;
mod report;

use std::process::ExitCode;

use dflash_cpu::CpuBackend;

use crate::env::Environment;
use crate::report::Outcome;
use crate::request::DoctorRequest;
use crate::run::{print, to_json};

pub use report::{Check, DoctorReport, EffectiveConfig, Status};

/// Runs every check; the exit code is 1 on a fatal finding, 2 on a warning (1 with `--strict`).
pub fn doctor(request: &DoctorRequest, env: &Environment) -> Outcome<ExitCode> {
    let report = examine(request, env);
    print(&if request.json { to_json(&report)? } else { report.text() })?;
    Ok(ExitCode::from(report.exit_code(request.strict)))
}

/// Runs every check.
pub fn examine(request: &DoctorRequest, env: &Environment) -> DoctorReport {
    let mut checks = Vec::new();
    let (options, prefix) = match (&request.options, &request.prefix) {
        (Ok(options), Ok(prefix)) => (options, prefix),
        (options, prefix) => {
            let failures = [options.as_ref().err(), prefix.as_ref().err()];
            checks.extend(
                failures.into_iter().flatten().map(|failure| Check::fatal("options", failure.to_string())),
            );
            checks.extend(machine_checks(&CpuBackend::detect()));
            return DoctorReport::new(None, checks);
        }
    };
    let config = EffectiveConfig { options: options.clone(), prefix: prefix.clone() };
    checks.push(chosen(&config));
    checks.extend(machine_checks(&crate::runtime::backend(options)));
    checks.push(machine::cache(options));
    checks.push(machine::prefix(prefix, options));
    checks.extend(models::pair(request, options, env));
    DoctorReport::new(Some(config), checks)
}

fn machine_checks(backend: &CpuBackend) -> [Check; 2] {
    [machine::cpu(backend), machine::bandwidth(backend)]
}

/// The options that somebody chose, with where; the report's configuration has all of them.
fn chosen(config: &EffectiveConfig) -> Check {
    let all = serde_json::to_value(config).unwrap_or_default();
    let chosen = all.as_object().into_iter().flatten().filter(|(_, setting)| setting["origin"] != "default");
    let lines: Vec<String> = chosen
        .map(|(name, setting)| {
            let origin = setting["origin"].as_str().unwrap_or_default();
            format!("{name} = {} ({origin})", setting["value"])
        })
        .collect();
    Check::ok("options", if lines.is_empty() { "all at their defaults".to_owned() } else { lines.join("\n") })
}
