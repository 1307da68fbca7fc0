use std::path::PathBuf;

use clap::builder::RangedU64ValueParser;
use clap::{Args, Subcommand};

/// `dflash train`
#[derive(Debug, Args)]
pub struct TrainArgs {
    /// Which step of it.
    #[command(subcommand)]
    pub step: TrainStep,
}

/// The steps, in their order.
#[derive(Debug, Subcommand)]
pub enum TrainStep {
    /// Let the target answer prompts, its own or yours: what a draft learns from.
    Data(Box<DataArgs>),
}

/// The target and what computes it.
#[derive(Debug, Args)]
pub struct TargetArgs {
    /// Target: a GGUF file, a model directory, a name (see `dflash models`), or a repository of the Hugging
    /// Face Hub [default: smollm2-135m].
    #[arg(long, value_name = "PATH|NAME")]
    pub model: Option<String>,

    /// Compute threads [env: DFLASH_THREADS] [default: one for every physical core that the process may use].
    #[arg(long, value_name = "N")]
    pub threads: Option<String>,
}

/// `dflash train data`
#[derive(Debug, Args)]
pub struct DataArgs {
    /// The target.
    #[command(flatten)]
    pub target: TargetArgs,

    /// Folder of the answers; a second call goes on with it.
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,

    /// Prompts as JSON lines, {"prompt": "…", "category": "…"} [default: the target writes its own].
    #[arg(long, value_name = "JSONL")]
    pub prompts: Option<PathBuf>,

    /// Tokens of answers that are wished for.
    #[arg(long, value_name = "N", default_value_t = 2_000_000, value_parser = at_least_one())]
    pub tokens: usize,

    /// Most tokens of an answer.
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = at_least_one())]
    pub max_tokens: usize,

    /// Prompts that are worked on side by side.
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = RangedU64ValueParser::<usize>::new().range(1..=256))]
    pub max_batch: usize,

    /// Seed of the prompts that the target writes.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
}

fn at_least_one() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..)
}
