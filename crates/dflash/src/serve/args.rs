use std::path::PathBuf;

use clap::Args;

use crate::cli::{PairArgs, RuntimeArgs};
use crate::prefix::PrefixArgs;

/// `dflash serve`
#[derive(Debug, Default, Args)]
pub struct ServeArgs {
    /// Which models [env: DFLASH_MODEL, DFLASH_DRAFT].
    #[command(flatten)]
    pub pair: PairArgs,

    /// Where and for whom.
    #[command(flatten)]
    pub address: AddressArgs,

    /// What a request gets that says nothing else.
    #[command(flatten)]
    pub defaults: DefaultArgs,

    /// How many at once.
    #[command(flatten)]
    pub load: LoadArgs,

    /// What is kept of prompts and answers.
    #[command(flatten)]
    pub prefix: PrefixArgs,

    /// What it says.
    #[command(flatten)]
    pub logs: LogArgs,

    /// Settings of the decoding loop.
    #[command(flatten)]
    pub runtime: RuntimeArgs,

    /// Flags that parse and have no effect; see [`super::idle`].
    #[command(flatten)]
    pub idle: IdleArgs,
}

/// Where a server listens, and who may call it.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Address")]
pub struct AddressArgs {
    /// Address to listen on [env: DFLASH_HOST] [default: 127.0.0.1, this machine alone].
    #[arg(long, value_name = "ADDRESS")]
    pub host: Option<String>,

    /// Port to listen on, 0 for any free one [env: DFLASH_PORT] [default: 8000].
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub port: Option<String>,

    /// Demand this API key of every request, as `Authorization: Bearer KEY` or `x-api-key: KEY`
    /// [env: DFLASH_API_KEY, which other processes of this machine cannot read].
    #[arg(long, value_name = "KEY")]
    pub api_key: Option<String>,

    /// Demand one of the keys in this file, one a line, `#` begins a remark [env: DFLASH_API_KEY_FILE].
    #[arg(long, value_name = "PATH")]
    pub api_key_file: Option<PathBuf>,

    /// Origins of web pages that may call, separated by commas, `*` for all; where they are named, others are
    /// refused, and so are hosts that are not this machine [env: DFLASH_ALLOWED_ORIGINS] [default: *].
    #[arg(long, value_name = "ORIGIN,…")]
    pub allowed_origins: Option<String>,

    /// Hosts that lead here beside this machine's own names, separated by commas [env: DFLASH_ALLOWED_HOSTS].
    #[arg(long, value_name = "HOST,…")]
    pub allowed_hosts: Option<String>,

    /// Name of the model in requests and answers; may be given several times, the first one stands in answers
    /// [default: its name in the registry, else that of its file or folder].
    #[arg(long, value_name = "NAME")]
    pub served_model_name: Vec<String>,
}

/// What requests get that say nothing else.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Defaults of requests")]
pub struct DefaultArgs {
    /// Temperature, 0 to 100; 0 takes the most probable token [env: DFLASH_TEMP] [default: 0].
    #[arg(long, visible_alias = "temperature", value_name = "T", allow_negative_numbers = true)]
    pub temp: Option<String>,

    /// Draw among the fewest tokens that together have this probability [env: DFLASH_TOP_P] [default: 1, all].
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    pub top_p: Option<String>,

    /// Draw among so many of the most probable tokens [env: DFLASH_TOP_K] [default: 0, all].
    #[arg(long, value_name = "K", allow_negative_numbers = true)]
    pub top_k: Option<String>,

    /// Draw among tokens with this share of the highest probability [env: DFLASH_MIN_P] [default: 0, all].
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    pub min_p: Option<String>,

    /// Most tokens of an answer [env: DFLASH_MAX_TOKENS] [default: 512].
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub max_tokens: Option<String>,

    /// Decode requests for at most so many tokens plainly [env: DFLASH_FASTPATH_MAX_TOKENS] [default: 0, none].
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub fastpath_max_tokens: Option<String>,

    /// Decode requests with longer prompts plainly [env: DFLASH_MAX_CTX] [default: 0, none].
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub dflash_max_ctx: Option<String>,

    /// Chat template instead of the model's own: the template itself, or `@PATH` of its file
    /// [env: DFLASH_CHAT_TEMPLATE].
    #[arg(long, value_name = "TEMPLATE|@PATH", allow_hyphen_values = true)]
    pub chat_template: Option<String>,

    /// Variables of the chat template, a JSON object [env: DFLASH_CHAT_TEMPLATE_ARGS].
    #[arg(long, value_name = "JSON")]
    pub chat_template_args: Option<String>,

    /// Let models think that can: the template's variable `enable_thinking`.
    #[arg(long)]
    pub enable_thinking: bool,
}

/// How much a server does at once.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Load")]
pub struct LoadArgs {
    /// Answers that are decoded side by side at most [env: DFLASH_MAX_BATCH] [default: 8].
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub max_batch: Option<String>,

    /// Answers that may wait behind those; more are refused [env: DFLASH_QUEUE] [default: 64].
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub queue: Option<String>,

    /// Most prompt positions of a step while answers are decoded [env: DFLASH_STEP_ROWS]
    /// [default: as many as take about as long as a step without them].
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub step_rows: Option<String>,

    /// End requests that take longer, 0 for never [env: DFLASH_REQUEST_TIMEOUT] [default: 0].
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    pub request_timeout: Option<String>,

    /// Time for answers in work once the server shall end; a second signal ends it at once
    /// [env: DFLASH_DRAIN_TIMEOUT] [default: 30].
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    pub drain_timeout: Option<String>,

    /// Largest body of a request, as in 4MiB [env: DFLASH_MAX_BODY] [default: 16MiB].
    #[arg(long, value_name = "BYTES", allow_negative_numbers = true)]
    pub max_body: Option<String>,
}

/// What a server tells while it runs.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Logs")]
pub struct LogArgs {
    /// Least important lines on stderr: debug, info, warn, error or off [env: DFLASH_LOG_LEVEL] [default: info].
    #[arg(long, value_name = "LEVEL")]
    pub log_level: Option<String>,

    /// Lines for people or for machines: text or json [env: DFLASH_LOG_FORMAT] [default: text].
    #[arg(long, value_name = "FORMAT")]
    pub log_format: Option<String>,

    /// Write prompts into the log.
    #[arg(long)]
    pub log_prompts: bool,

    /// Keep what happens in a folder: off, basic (answers) or full (cycles too) [env: DFLASH_DIAGNOSTICS]
    /// [default: off].
    #[arg(long, value_name = "LEVEL")]
    pub diagnostics: Option<String>,

    /// That folder [env: DFLASH_DIAGNOSTICS_DIR] [default: a new one in .artifacts/dflash/diagnostics].
    #[arg(long, value_name = "DIR")]
    pub diagnostics_dir: Option<PathBuf>,
}

/// Flags of the reference that have no effect here and would not change an answer.
#[derive(Debug, Default, Args)]
pub struct IdleArgs {
    /// See [`super::idle`].
    #[arg(long, hide = true)]
    pub use_default_chat_template: bool,
    /// See [`super::idle`].
    #[arg(long, hide = true, allow_negative_numbers = true)]
    pub prompt_cache_size: Option<String>,
}
