//! The commands: one place where a command line becomes work.

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use crate::benchmark::benchmark;
use crate::cache::CacheDir;
use crate::cli::{Cli, Command, ModelsArgs};
use crate::doctor::doctor;
use crate::env::Environment;
use crate::generate::generate;
use crate::hub::HubCache;
use crate::interrupt;
use crate::models::Listing;
use crate::registry::Registry;
use crate::report::{Failure, FailureKind, Outcome, say};
use crate::request::{BenchmarkRequest, DoctorRequest, GenerateRequest};
use crate::serve::{ServeRequest, serve};
use crate::train::train;

/// Runs a command line and reports what went wrong on stderr.
pub fn run(args: impl IntoIterator<Item = OsString>, env: &Environment) -> ExitCode {
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        // Help and version come this way too; clap knows which stream and exit code each has.
        Err(error) => error.exit(),
    };
    match dispatch(&cli, env) {
        Ok(code) => code,
        Err(failure) => report(&failure),
    }
}

fn dispatch(cli: &Cli, env: &Environment) -> Outcome<ExitCode> {
    match &cli.command {
        None => print(&Cli::command().render_help().to_string()),
        Some(Command::Generate(args)) => generate(&GenerateRequest::read(args, env)?, env),
        Some(Command::Serve(args)) => serve(&ServeRequest::read(args, env)?, env),
        Some(Command::Benchmark(args)) => benchmark(&BenchmarkRequest::read(args, env)?, env),
        Some(Command::Doctor(args)) => doctor(&DoctorRequest::read(args, env)?, env),
        Some(Command::Models(args)) => models(args, env),
        Some(Command::Train(args)) => train(args, env),
    }
}

fn models(args: &ModelsArgs, env: &Environment) -> Outcome<ExitCode> {
    let cache = CacheDir::place(env).value.map(CacheDir::new);
    let listing = Listing::of(Registry::built_in(), cache.as_ref(), &HubCache::resolve(env))
        .map_err(|error| Failure::new("cannot list the cache directory").cause(error))?;
    print(&if args.json { to_json(&listing)? } else { listing.table() })
}

/// A value as indented JSON with a final newline.
pub(crate) fn to_json(value: &impl serde::Serialize) -> Outcome<String> {
    let text = serde_json::to_string_pretty(value).map_err(|error| Failure::from_error(&error))?;
    Ok(text + "\n")
}

/// A reader that went away (`| head`) is not a failure.
pub(crate) fn print(text: &str) -> Outcome<ExitCode> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::new("cannot write to standard output").cause(error))
        }
        _ => Ok(ExitCode::SUCCESS),
    }
}

fn report(failure: &Failure) -> ExitCode {
    if failure.kind() != FailureKind::ReaderGone {
        say(failure);
    }
    if failure.kind() == FailureKind::Interrupted {
        interrupt::end_by_signal(signal_hook::consts::SIGINT);
    }
    ExitCode::from(failure.exit_code())
}
