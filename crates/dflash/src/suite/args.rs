use std::path::PathBuf;

use clap::Args;

/// Which prompts.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Prompts")]
pub struct SuiteArgs {
    /// Built-in prompts: smoke (one of every category), builtin (all), or one category (code, maths, chat,
    /// summary, translation, copy, tools, long). Datasets of the Hub: humaneval, gsm8k, math500, aime25. Prompts of
    /// any length: longctx [default: smoke].
    #[arg(long, value_name = "NAME")]
    pub suite: Option<String>,

    /// Most prompts [default: all of the built-in ones, 1 of longctx, 30 of aime25, 10 of other datasets].
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub limit: Option<String>,

    /// Length of the prompts of longctx in tokens of four characters; without --suite it chooses longctx
    /// [default: 8192].
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub ctx_tokens: Option<String>,

    /// Own prompts instead of a suite: one JSON object a line, {"id": …, "suite": …, "prompt": …}; `suite` is their
    /// category and may be left out.
    #[arg(long, value_name = "JSONL", conflicts_with_all = ["suite", "ctx_tokens"])]
    pub prompt_file: Option<PathBuf>,

    /// One prompt instead of a suite.
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["suite", "ctx_tokens", "prompt_file"], allow_hyphen_values = true)]
    pub prompt: Option<String>,

    /// Take the prompts in a random order, which the seed decides.
    #[arg(long)]
    pub shuffle: bool,

    /// Seed of --shuffle [default: 0].
    #[arg(long, value_name = "N", requires = "shuffle", allow_negative_numbers = true)]
    pub seed: Option<String>,
}
