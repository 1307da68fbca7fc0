//! The dflash binary.

use std::process::ExitCode;

use dflash::env::Environment;

fn main() -> ExitCode {
    dflash::run(std::env::args_os(), &Environment::of_process())
}
