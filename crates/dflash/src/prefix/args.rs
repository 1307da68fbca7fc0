use std::path::PathBuf;

use clap::Args;

/// What is kept of prompts and answers.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Prefix cache")]
pub struct PrefixArgs {
    /// Keep the states of prompts and answers, so that nothing is prefilled twice [env: DFLASH_PREFIX_CACHE]
    /// [default: yes].
    #[arg(long, overrides_with = "no_prefix_cache")]
    pub prefix_cache: bool,

    /// Keep nothing, on disk neither.
    #[arg(long)]
    pub no_prefix_cache: bool,

    /// States in memory at most [env: DFLASH_PREFIX_CACHE_MAX_ENTRIES] [default: 64].
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub prefix_cache_max_entries: Option<String>,

    /// Memory for states at most, as in 2GiB [env: DFLASH_PREFIX_CACHE_MAX_BYTES]
    /// [default: 8GiB, or a quarter of the memory if that is less].
    #[arg(long, value_name = "BYTES", allow_negative_numbers = true)]
    pub prefix_cache_max_bytes: Option<String>,

    /// Longest state that is kept in memory, in tokens, 0 for any [env: DFLASH_MAX_SNAPSHOT_TOKENS] [default: 32000].
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub max_snapshot_tokens: Option<String>,

    /// Keep states on disk too, for the time after a restart [env: DFLASH_PREFIX_CACHE_L2_ENABLED] [default: yes].
    #[arg(long, overrides_with = "no_prefix_cache_l2")]
    pub prefix_cache_l2: bool,

    /// Keep states in memory alone.
    #[arg(long)]
    pub no_prefix_cache_l2: bool,

    /// Folder of the states on disk [env: DFLASH_PREFIX_CACHE_L2_DIR] [default: prefix in the cache directory].
    #[arg(long, value_name = "DIR")]
    pub prefix_cache_l2_dir: Option<PathBuf>,

    /// Disk for states at most, as in 20GiB [env: DFLASH_PREFIX_CACHE_L2_MAX_BYTES] [default: 50GiB; 4GiB of the disk stay
    /// free, or a twentieth].
    #[arg(long, value_name = "BYTES", allow_negative_numbers = true)]
    pub prefix_cache_l2_max_bytes: Option<String>,
}
