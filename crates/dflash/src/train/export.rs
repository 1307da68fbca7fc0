use std::path::{Path, PathBuf};
use std::process::ExitCode;

use dflash_models::{TargetFiles, TextAssets};
use dflash_train::export::{
    Existing, GgufFormat, Layout, SpeculatorsFormat, ZlabFormat, export as write, read_zlab,
};
use dflash_train::run::last_draft;

use super::data::{failure, target};
use super::{ExportArgs, FormatArg, LayoutArg};
use crate::env::Environment;
use crate::progress::Progress;
use crate::report::{Failure, Outcome, say};

/// `dflash train export`
pub(super) fn export(args: &ExportArgs, env: &Environment) -> Outcome<ExitCode> {
    let draft = draft_in(&args.draft)?;
    let (shape, weights) = read_zlab(&draft).map_err(failure)?;
    let put = |layout: Layout<'_>| {
        write(&args.out, Existing::ReplaceDraft, &shape, &weights, layout).map_err(failure)
    };
    match (args.layout, args.format) {
        (LayoutArg::Zlab, FormatArg::Bf16) => put(Layout::Zlab(ZlabFormat::Bf16))?,
        (LayoutArg::Zlab, FormatArg::Mlx8) => put(Layout::Zlab(ZlabFormat::Mlx8))?,
        (LayoutArg::Zlab, FormatArg::Mlx4) => put(Layout::Zlab(ZlabFormat::Mlx4))?,
        (LayoutArg::Speculators, FormatArg::Bf16) => {
            let loaded = target(&args.target, env, Progress::of_stderr())?;
            let target = loaded.decoder.target();
            put(Layout::Speculators { format: SpeculatorsFormat::Bf16, target })?;
        }
        (LayoutArg::Zlab, FormatArg::Gguf) => {
            let loaded = target(&args.target, env, Progress::of_stderr())?;
            let files =
                TargetFiles::open(&loaded.info.target_path).map_err(|error| Failure::from_error(&error))?;
            let TextAssets::Gguf(vocabulary) = files.text() else {
                return Err(Failure::new(
                    "a draft in GGUF needs its target in GGUF, whose tokenizer it repeats",
                )
                .hint("name the target's GGUF file with --model"));
            };
            let target = loaded.decoder.target();
            put(Layout::Gguf { format: GgufFormat::Q8_0, target, vocabulary: &vocabulary })?;
        }
        (LayoutArg::Speculators, _) => {
            return Err(Failure::usage("--layout speculators is written as bf16")
                .hint("leave --format out, or leave --layout out"));
        }
    }
    let out = if args.format == FormatArg::Gguf { args.out.join("model.gguf") } else { args.out.clone() };
    say(format_args!("written to {0}; use it with --draft {0}", out.display()));
    Ok(ExitCode::SUCCESS)
}

/// The draft of a run's last checkpoint, or the folder itself.
pub(super) fn draft_in(path: &Path) -> Outcome<PathBuf> {
    let draft = last_draft(path).map_err(failure)?.unwrap_or_else(|| path.to_owned());
    match draft.join("config.json").is_file() {
        true => Ok(draft),
        false => Err(Failure::new(format!(
            "{} is neither a run with a checkpoint nor a draft",
            path.display()
        ))
        .hint("name the --out of a dflash train run, or a folder with config.json and model.safetensors")),
    }
}
