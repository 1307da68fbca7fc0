//! Loads a running server with greedy streams and judges what comes back.
//!
//!     cargo run --release -p dflash-server --example load -- --streams 32 --seconds 120 --slow 4 --drop 10
//!     cargo run --release -p dflash-server --example load -- --throughput 1,2,4,8 --rounds 5
//!
//! The first sends as many requests as fit and compares every answer with the one that its prompt gets alone; it ends
//! with exit code 1 if one differs or any request fails. The second compares ids per second with drafting and without, in
//! turn within one run.

mod args;
mod http;
mod prompts;
mod soak;
mod spread;
mod throughput;

use std::process::ExitCode;

use args::{Args, Mode};

fn main() -> ExitCode {
    let args = match Args::read(std::env::args().skip(1)) {
        Ok(args) => args,
        Err(wrong) => {
            eprintln!("error: {wrong}\n\n{}", args::HELP);
            return ExitCode::from(2);
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let done = runtime.map_err(|error| error.to_string()).and_then(|runtime| {
        runtime.block_on(async {
            match &args.mode {
                Mode::Soak { .. } => soak::run(&args).await,
                Mode::Throughput { .. } => throughput::run(&args).await,
            }
        })
    });
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
