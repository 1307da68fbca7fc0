//! Checkpoints with the shapes of published models and random weights, and what it takes to load them.
//!
//! ```text
//! cargo run --release -p dflash --example shape_true -- write qwen3.5-4b mlx DIR [--layers N] [--tokenizer DIR]
//! cargo run --release -p dflash --example shape_true -- write qwen3.5-4b gguf FILE.gguf
//! cargo run --release -p dflash --example shape_true -- draft TARGET_DIR DIR
//! cargo run --release -p dflash --example shape_true -- load PATH
//! ```
//!
//! `write` makes MLX 4-bit (a directory) or GGUF `Q4_K` files, `draft` a block-diffusion draft for a target that
//! `write` made. With `--tokenizer`, a directory with `tokenizer.json`, `dflash generate` runs on them too; their
//! answers are random text. `load` wants a process of its own, as it reports the peak of its memory (Linux only).

#![recursion_limit = "256"]

mod draft;
mod fill;
mod gguf;
mod load;
mod models;
mod safetensors;
mod tensors;
mod tokenizer;

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> ExitCode {
    let args = std::env::args().skip(1).collect::<Vec<_>>();
    let args = args.iter().map(String::as_str).collect::<Vec<_>>();
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &[&str]) -> Outcome<()> {
    match args {
        ["write", model, layout, path, options @ ..] => write(model, layout, Path::new(path), options),
        ["draft", target, dir] => draft::write(Path::new(target), Path::new(dir)),
        ["load", path] => load::report(Path::new(path)),
        _ => Err(format!(
            "use write MODEL mlx|gguf PATH [--layers N] [--tokenizer DIR], draft TARGET DIR, or load PATH; \
             models: {}",
            models::NAMES.join(", ")
        )
        .into()),
    }
}

fn write(name: &str, layout: &str, path: &Path, options: &[&str]) -> Outcome<()> {
    let layers = option(options, "--layers").map(str::parse).transpose()?;
    let tokenizer = option(options, "--tokenizer").map(Path::new);
    let model = models::of(name, layers)?;
    match layout {
        "mlx" => safetensors::write_model(&model, path, tokenizer),
        "gguf" => gguf::write_model(&model, path, tokenizer),
        _ => Err("layouts: mlx, gguf".into()),
    }
}

fn option<'a>(options: &[&'a str], name: &str) -> Option<&'a str> {
    options.iter().position(|&option| option == name).and_then(|at| options.get(at + 1).copied())
}
