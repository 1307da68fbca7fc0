//! The command line as typed. What it means is decided in [`crate::options`] and [`crate::request`].
//!
//! Numbers stay text here, so that a flag and its environment variable go through one parser and
//! give the same errors.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::prefix::PrefixArgs;
use crate::serve::ServeArgs;
use crate::suite::SuiteArgs;
use crate::train::TrainArgs;

/// Lossless speculative decoding: the text of the target model, in fewer passes.
#[derive(Debug, Parser)]
#[command(name = "dflash", version, disable_help_subcommand = true)]
pub struct Cli {
    /// What to do; without it the help is printed.
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Generate text from a prompt.
    Generate(Box<GenerateArgs>),
    /// Serve a pair over HTTP: the OpenAI and Anthropic APIs.
    Serve(Box<ServeArgs>),
    /// Measure a pair on this machine, beside plain decoding and beside how fast it could be.
    Benchmark(Box<BenchmarkArgs>),
    /// Check this machine, the options and the models.
    Doctor(Box<DoctorArgs>),
    /// List the known target and draft pairs, and what of them is on this machine.
    Models(ModelsArgs),
    /// Make a draft for a target.
    Train(TrainArgs),
}

/// Which target and which draft.
#[derive(Debug, Default, Args)]
pub struct PairArgs {
    /// Target: a GGUF file, a model directory, a name (see `dflash models`), or a repository of the Hugging
    /// Face Hub as `ORG/NAME[@REVISION][:GGUF]`, downloaded once [default: smollm2-135m].
    #[arg(long, value_name = "PATH|NAME")]
    pub model: Option<String>,

    /// Draft: a directory or file, a repository of the Hub, `ngram` (copy from the context), `none` (plain
    /// decoding) or `auto` (the paired one if it can be had, else `ngram`) [default: the draft that the registry pairs with the target].
    #[arg(long, visible_alias = "draft-model", value_name = "PATH|NAME|WORD")]
    pub draft: Option<String>,

    /// Quantise the draft: `none`, or w(2|4|8) with optional a16|a32 (activations are f32 either way) and
    /// :gs(32|64|128), as in w4a16:gs64
    /// [default: what the registry says of the pair].
    #[arg(long, value_name = "SPEC")]
    pub draft_quant: Option<String>,
}

/// Settings of the decoding loop. Each also has an environment variable; the flag wins.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Runtime")]
pub struct RuntimeArgs {
    /// Prompt positions computed per prefill chunk [env: DFLASH_PREFILL_STEP_SIZE] [default: 2048].
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub prefill_step_size: Option<String>,

    /// First positions that a windowed draft always keeps [env: DFLASH_DRAFT_SINK_SIZE] [default: 64].
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub draft_sink_size: Option<String>,

    /// Latest positions that a windowed draft keeps [env: DFLASH_DRAFT_WINDOW_SIZE] [default: 1024].
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub draft_window_size: Option<String>,

    /// Most rows verified per target pass, 0 = the whole block [env: DFLASH_VERIFY_LEN_CAP] [default: 0].
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub verify_len_cap: Option<String>,

    /// What is verified: adaptive (as many drafted ids as promise to pay), ddtree (the same with a tree of the
    /// draft's alternatives), dflash (always the whole block) or off (plain) [env: DFLASH_VERIFY_MODE]
    /// [default: adaptive].
    #[arg(long, value_name = "MODE")]
    pub verify_mode: Option<String>,

    /// Positions per block, the staged token included; a draft takes no more than its own block has
    /// [default and most: 16, or the draft's own block size if that is more].
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub block_tokens: Option<String>,

    /// Compute threads [env: DFLASH_THREADS] [default: one for every physical core that the process may use].
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub threads: Option<String>,

    /// Never reach the network and start no downloader [env: DFLASH_OFFLINE, HF_HUB_OFFLINE].
    #[arg(long)]
    pub offline: bool,

    /// Flags that other runtimes know; see [`crate::refused`].
    #[command(flatten)]
    pub refused: RefusedArgs,
}

/// Flags that are known and not obeyed. They parse, so that the refusal can say why.
#[derive(Debug, Default, Args)]
pub struct RefusedArgs {
    /// See [`crate::refused`].
    #[arg(long, hide = true, num_args = 0..=1, default_missing_value = "", allow_negative_numbers = true)]
    pub target_fa_window: Option<String>,
    /// See [`crate::refused`].
    #[arg(long, hide = true, num_args = 0..=1, default_missing_value = "", allow_negative_numbers = true)]
    pub wired_limit: Option<String>,
    /// See [`crate::refused`].
    #[arg(long, hide = true, num_args = 0..=1, default_missing_value = "", allow_negative_numbers = true)]
    pub cache_limit: Option<String>,
    /// See [`crate::refused`].
    #[arg(long, hide = true)]
    pub clear_cache_boundaries: bool,
    /// See [`crate::refused`].
    #[arg(long, hide = true)]
    pub no_clear_cache_boundaries: bool,
}

/// How tokens are chosen.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Sampling")]
pub struct SamplingArgs {
    /// Temperature, 0 to 100; 0 takes the most probable token [default: 0].
    #[arg(long, visible_alias = "temperature", value_name = "T", allow_negative_numbers = true)]
    pub temp: Option<String>,
    /// Draw among the fewest tokens that together have this probability [default: 1, all].
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    pub top_p: Option<String>,
    /// Draw among so many of the most probable tokens [default: 0, all].
    #[arg(long, value_name = "K", allow_negative_numbers = true)]
    pub top_k: Option<String>,
    /// Draw among tokens with this share of the highest probability [default: 0, all].
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    pub min_p: Option<String>,
    /// Divide the logits of tokens seen in prompt or answer, multiply negative ones [default: 1].
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    pub repetition_penalty: Option<String>,
    /// Take from the logits of tokens in the answer, -2 to 2 [default: 0].
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    pub presence_penalty: Option<String>,
    /// Take from the logits of tokens in the answer for each time they came, -2 to 2 [default: 0].
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    pub frequency_penalty: Option<String>,
    /// Add to the logit of a token, -100 to 100; may be given several times.
    #[arg(long, value_name = "ID=BIAS", allow_hyphen_values = true)]
    pub logit_bias: Vec<String>,
    /// Name the random numbers: the same seed gives the same text [default: drawn, and told].
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub seed: Option<String>,
    /// With --json, tell the log-probability of every token and of so many alternatives, 0 to 20.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub logprobs: Option<String>,
}

/// `dflash generate`
#[derive(Debug, Default, Args)]
pub struct GenerateArgs {
    /// The prompt; without it and --prompt-file, what is piped in.
    #[arg(long, value_name = "TEXT", conflicts_with = "prompt_file", allow_hyphen_values = true)]
    pub prompt: Option<String>,

    /// Read the prompt from a file, `-` for standard input; one final line ending is not part of it.
    #[arg(long, value_name = "PATH")]
    pub prompt_file: Option<PathBuf>,

    /// System message of the chat.
    #[arg(long, value_name = "TEXT", conflicts_with = "no_chat_template", allow_hyphen_values = true)]
    pub system: Option<String>,

    /// Which models.
    #[command(flatten)]
    pub pair: PairArgs,

    /// Most tokens to generate [default: 2048].
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub max_tokens: Option<String>,

    /// Stop before this text; may be given several times.
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub stop: Vec<String>,

    /// Take the prompt as it is, without the model's chat template.
    #[arg(long)]
    pub no_chat_template: bool,

    /// Decode again without the draft and compare token by token.
    #[arg(long)]
    pub check: bool,

    /// Print one JSON object instead of text.
    #[arg(long)]
    pub json: bool,

    /// Sampling.
    #[command(flatten)]
    pub sampling: SamplingArgs,

    /// Settings of the decoding loop.
    #[command(flatten)]
    pub runtime: RuntimeArgs,
}

/// `dflash benchmark`
#[derive(Debug, Default, Args)]
pub struct BenchmarkArgs {
    /// Instead of prompts: steps of the target by rows and blocks of the draft, each with its floor: the time that
    /// reading the weights or multiplying takes at the speed of this machine.
    #[arg(long, conflicts_with_all = ["SuiteArgs", "ComparisonArgs"])]
    pub curve: bool,

    /// Print one JSON object instead of tables.
    #[arg(long)]
    pub json: bool,

    /// Which models.
    #[command(flatten)]
    pub pair: PairArgs,

    /// How they are compared.
    #[command(flatten)]
    pub comparison: ComparisonArgs,

    /// Which prompts.
    #[command(flatten)]
    pub suite: SuiteArgs,

    /// Settings of the decoding loop.
    #[command(flatten)]
    pub runtime: RuntimeArgs,
}

/// How decoding with the draft is compared with plain decoding.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Comparison")]
pub struct ComparisonArgs {
    /// Most tokens to generate [default: 64; 65536 for aime25].
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub max_tokens: Option<String>,

    /// Answers per prompt, with and without the draft; medians count [default: 1].
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub repeat: Option<String>,

    /// Seconds to wait before every answer but the first, so that the machine cools down [default: 0].
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    pub cooldown: Option<String>,

    /// Decode with the draft only: no comparison, no verdict.
    #[arg(long, conflicts_with = "oracle")]
    pub only_dflash: bool,

    /// Let a script draft instead of a model, right with this probability at every position, at the cost of the draft:
    /// what the runtime would make of such a draft. Every report says so.
    #[arg(long, value_name = "RATE", allow_negative_numbers = true)]
    pub oracle: Option<String>,

    /// Take every prompt as it is, without the model's chat template.
    #[arg(long)]
    pub no_chat_template: bool,

    /// Go on to --max-tokens, whatever ids would end the answer.
    #[arg(long)]
    pub no_eos: bool,

    /// Do not look at the memory.
    #[arg(long)]
    pub no_memory: bool,

    /// Directory for the reports [default: a new one in .artifacts/dflash/benchmarks].
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

/// `dflash doctor`
#[derive(Debug, Default, Args)]
pub struct DoctorArgs {
    /// Print one JSON object instead of text.
    #[arg(long)]
    pub json: bool,

    /// Count a warning as a failure.
    #[arg(long)]
    pub strict: bool,

    /// Which models.
    #[command(flatten)]
    pub pair: PairArgs,

    /// Settings of the decoding loop.
    #[command(flatten)]
    pub runtime: RuntimeArgs,

    /// What a server keeps of prompts and answers.
    #[command(flatten)]
    pub prefix: PrefixArgs,
}

/// `dflash models`
#[derive(Debug, Default, Args)]
pub struct ModelsArgs {
    /// Print one JSON object instead of a table.
    #[arg(long)]
    pub json: bool,
}
