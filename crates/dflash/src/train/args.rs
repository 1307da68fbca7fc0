use std::path::PathBuf;

use clap::builder::RangedU64ValueParser;
use clap::{Args, Subcommand, ValueEnum};

use crate::suite::SuiteArgs;

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
    /// Train a draft on answers; a second call goes on from the last checkpoint.
    Run(Box<RunArgs>),
    /// Measure drafts: tokens per cycle by category, and what they come to on this machine.
    Evaluate(Box<EvaluateArgs>),
    /// Write a trained draft as the files that runtimes read.
    Export(Box<ExportArgs>),
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
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = RangedU64ValueParser::<usize>::new().range(4..))]
    pub max_tokens: usize,

    /// Prompts that are worked on side by side.
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = RangedU64ValueParser::<usize>::new().range(1..=256))]
    pub max_batch: usize,

    /// Seed of the prompts that the target writes.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
}

/// `dflash train run`
#[derive(Debug, Args)]
pub struct RunArgs {
    /// The target; the one that made the answers.
    #[command(flatten)]
    pub target: TargetArgs,

    /// Folder of answers, from `dflash train data`; may be given several times.
    #[arg(long, value_name = "DIR", required = true)]
    pub data: Vec<PathBuf>,

    /// Folder of the run: its settings, log, curve and checkpoint.
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,

    /// Folder that keeps the target's features; it may be deleted at any time [default: they are computed anew in every
    /// epoch].
    #[arg(long, value_name = "DIR")]
    pub features: Option<PathBuf>,

    /// The draft.
    #[command(flatten)]
    pub draft: ShapeArgs,

    /// The training.
    #[command(flatten)]
    pub recipe: RecipeArgs,
}

/// What the draft is like.
#[derive(Debug, Args)]
#[command(next_help_heading = "Draft")]
pub struct ShapeArgs {
    /// Decoder layers.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = at_least_one())]
    pub layers: usize,

    /// Positions per block, the staged token included.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = RangedU64ValueParser::<usize>::new().range(2..=64))]
    pub block: usize,

    /// Target layers whose outputs it sees, counted from 0, separated by commas [default: five, evenly].
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub taps: Option<Vec<usize>>,

    /// Ids that it can propose, the most frequent ones of the answers; 0 for all.
    #[arg(long, value_name = "N", default_value_t = 8192)]
    pub vocab: usize,

    /// Rank of a head that corrects a position by the token before it; 0 for none.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub markov_rank: usize,

    /// Id that stands for positions to be filled [default: the last control token that no answer
    /// holds].
    #[arg(long, value_name = "ID")]
    pub mask_id: Option<u32>,

    /// What its layers begin as: `target` (the target's own last ones), `random`, or the folder of a draft of this
    /// shape, whose vocabulary is kept.
    #[arg(long, value_name = "target|random|DIR", default_value = "target")]
    pub start: String,
}

/// How it is trained.
#[derive(Debug, Args)]
#[command(next_help_heading = "Training")]
pub struct RecipeArgs {
    /// Times that every answer is seen.
    #[arg(long, value_name = "X", default_value_t = 3.0, value_parser = positive)]
    pub epochs: f64,

    /// Steps in all, instead of --epochs.
    #[arg(long, value_name = "N", conflicts_with = "epochs", value_parser = at_least_one())]
    pub steps: Option<usize>,

    /// Sequences of a step.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = at_least_one())]
    pub sequences: usize,

    /// Random anchors of a sequence in a step.
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = at_least_one())]
    pub anchors: usize,

    /// Weight of position k in the loss is exp(-(k - 1) / gamma) [default: 4 for blocks of up to 8, 7 for longer ones].
    #[arg(long, value_name = "X", value_parser = positive_f32)]
    pub gamma: Option<f32>,

    /// Highest learning rate [default: 1.7 / width of the target, 0.003 for the default one].
    #[arg(long, value_name = "X", value_parser = positive)]
    pub learning_rate: Option<f64>,

    /// Sequences that are held out, to measure with.
    #[arg(long, value_name = "N", default_value_t = 24)]
    pub held_out: usize,

    /// Steps between two evaluations, each with a checkpoint.
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = at_least_one())]
    pub evaluate_every: usize,

    /// Seed of everything that is left to chance.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
}

/// `dflash train evaluate`
#[derive(Debug, Args)]
pub struct EvaluateArgs {
    /// Folder of a run, or of a draft. It alone drafts, always whole blocks.
    #[arg(value_name = "RUN|DRAFT")]
    pub draft: PathBuf,

    /// Its target.
    #[command(flatten)]
    pub target: TargetArgs,

    /// Positions per block, the staged token included; less where the draft has less.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = RangedU64ValueParser::<usize>::new().range(2..=64))]
    pub block: usize,

    /// Most tokens of an answer.
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = at_least_one())]
    pub max_tokens: usize,

    /// Print one JSON object instead of tables.
    #[arg(long)]
    pub json: bool,

    /// What is asked.
    #[command(flatten)]
    pub suite: SuiteArgs,
}

/// `dflash train export`
#[derive(Debug, Args)]
pub struct ExportArgs {
    /// Folder of a run, or of a draft.
    #[arg(value_name = "RUN|DRAFT")]
    pub draft: PathBuf,

    /// The target, for layouts that hold its tables.
    #[command(flatten)]
    pub target: TargetArgs,

    /// New folder for the draft; with `--format gguf` it holds model.gguf.
    #[arg(long, value_name = "PATH")]
    pub out: PathBuf,

    /// Layout of the files.
    #[arg(long, value_enum, default_value_t)]
    pub layout: LayoutArg,

    /// How numbers are kept.
    #[arg(long, value_enum, default_value_t)]
    pub format: FormatArg,
}

/// `--layout`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum LayoutArg {
    /// Without embedding and head: the target's are used.
    #[default]
    Zlab,
    /// With embedding and head, as the speculators toolkit and vLLM read it.
    Speculators,
}

/// `--format`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum FormatArg {
    /// bfloat16.
    #[default]
    Bf16,
    /// 8 bits in groups of 64, as MLX quantises.
    Mlx8,
    /// 4 bits in groups of 64, as MLX quantises.
    Mlx4,
    /// A file for llama.cpp, which this runtime reads too.
    Gguf,
}

/// A number above 0.
fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number > 0.0 && number.is_finite() => Ok(number),
        _ => Err("a number above 0".to_owned()),
    }
}

fn positive_f32(text: &str) -> Result<f32, String> {
    positive(text).map(|number| number as f32)
}

fn at_least_one() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..)
}
