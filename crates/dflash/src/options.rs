//! The settings as meant: resolved once at start, flag over environment over default.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Serialize, Serializer};

use crate::cache::CacheDir;
use crate::cli::{PairArgs, RuntimeArgs};
use crate::draft_quant::DraftQuant;
use crate::env::Environment;
use crate::refused;
use crate::report::{Failure, Outcome};
use crate::setting::{Names, Origin, Setting, boolean, whole_number};

/// How many rows a verify pass takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum VerifyMode {
    /// The width follows measured costs and the acceptance seen so far.
    Adaptive,
    /// As adaptive, over trees of the draft's alternatives.
    Ddtree,
    /// The whole block, always.
    Dflash,
    /// One row: plain decoding.
    Off,
}

/// Every setting that commands share, with its origin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Options {
    /// Prompt positions per prefill chunk.
    pub prefill_step_size: Setting<usize>,
    /// First positions that a windowed draft keeps.
    pub draft_sink_size: Setting<usize>,
    /// Latest positions that a windowed draft keeps.
    pub draft_window_size: Setting<usize>,
    /// Most rows per verify pass; 0 is the whole block.
    pub verify_len_cap: Setting<usize>,
    /// How the width is chosen.
    pub verify_mode: Setting<VerifyMode>,
    /// Positions per block; `None` is the draft's own block size.
    pub block_tokens: Setting<Option<usize>>,
    /// Compute threads; `None` is one for every physical core.
    pub threads: Setting<Option<usize>>,
    /// Whether the network may be reached: never when true.
    pub offline: Setting<bool>,
    /// The draft's quantisation; `None` follows the registry.
    pub draft_quant: Setting<Option<DraftQuant>>,
    /// Where downloaded weights are kept; `None` where the platform names no place.
    #[serde(serialize_with = "lossy_path")]
    pub cache_dir: Setting<Option<PathBuf>>,
}

const PREFILL_STEP_SIZE: Names = Names::new("--prefill-step-size", "DFLASH_PREFILL_STEP_SIZE");
const DRAFT_SINK_SIZE: Names = Names::new("--draft-sink-size", "DFLASH_DRAFT_SINK_SIZE");
const DRAFT_WINDOW_SIZE: Names = Names::new("--draft-window-size", "DFLASH_DRAFT_WINDOW_SIZE");
const VERIFY_LEN_CAP: Names = Names::new("--verify-len-cap", "DFLASH_VERIFY_LEN_CAP");
const VERIFY_MODE: Names = Names::new("--verify-mode", "DFLASH_VERIFY_MODE");
const BLOCK_TOKENS: Names = Names::flag("--block-tokens");
const THREADS: Names = Names::new("--threads", "DFLASH_THREADS");
/// More threads than any machine this runs on has cores.
const MOST_THREADS: usize = 1024;
/// An hour.
const LONGEST_COOLDOWN: u64 = 3600;
const DRAFT_QUANT: Names = Names::flag("--draft-quant");
/// The variable that other tools of the same models know stands behind our own.
const OFFLINE: [Names; 2] =
    [Names::new("--offline", "DFLASH_OFFLINE"), Names::new("--offline", "HF_HUB_OFFLINE")];

impl Options {
    /// Resolves every setting, or says which one is wrong.
    pub fn resolve(pair: &PairArgs, runtime: &RuntimeArgs, env: &Environment) -> Outcome<Self> {
        refused::check_memory(&runtime.refused, env)?;
        Self::for_server(pair, runtime, env)
    }

    /// As [`Options::resolve`], for a server: what tunes the memory of another backend is not refused.
    pub fn for_server(pair: &PairArgs, runtime: &RuntimeArgs, env: &Environment) -> Outcome<Self> {
        refused::check_text(&runtime.refused, env)?;
        let number = |names: Names, typed: &Option<String>, default, min| {
            names.resolve(typed.as_deref(), env, default, whole_number(min))
        };
        let maybe = |names: Names, typed: &Option<String>| {
            names.resolve(typed.as_deref(), env, None, |text| whole_number(1)(text).map(Some))
        };
        Ok(Self {
            prefill_step_size: number(PREFILL_STEP_SIZE, &runtime.prefill_step_size, 2048, 1)?,
            draft_sink_size: number(DRAFT_SINK_SIZE, &runtime.draft_sink_size, 64, 0)?,
            draft_window_size: number(DRAFT_WINDOW_SIZE, &runtime.draft_window_size, 1024, 1)?,
            verify_len_cap: number(VERIFY_LEN_CAP, &runtime.verify_len_cap, 0, 0)?,
            verify_mode: verify_mode(runtime.verify_mode.as_deref(), env)?,
            block_tokens: maybe(BLOCK_TOKENS, &runtime.block_tokens)?,
            threads: THREADS.resolve(runtime.threads.as_deref(), env, None, threads)?,
            offline: offline(runtime.offline, env)?,
            draft_quant: draft_quant(pair.draft_quant.as_deref(), env)?,
            cache_dir: CacheDir::place(env),
        })
    }

    /// The directory that keeps downloaded weights.
    pub fn cache(&self) -> Outcome<CacheDir> {
        CacheDir::at(self.cache_dir.value.as_deref())
    }
}

fn threads(text: &str) -> Result<Option<usize>, String> {
    match text.parse() {
        Ok(count @ 1..=MOST_THREADS) => Ok(Some(count)),
        _ => Err(format!("a whole number from 1 to {MOST_THREADS}")),
    }
}

fn verify_mode(typed: Option<&str>, env: &Environment) -> Outcome<Setting<VerifyMode>> {
    VERIFY_MODE.resolve(typed, env, VerifyMode::Adaptive, |text| match text.to_ascii_lowercase().as_str() {
        "adaptive" => Ok(VerifyMode::Adaptive),
        "ddtree" => Ok(VerifyMode::Ddtree),
        "dflash" => Ok(VerifyMode::Dflash),
        "off" => Ok(VerifyMode::Off),
        _ => Err("adaptive, ddtree, dflash or off".to_owned()),
    })
}

fn offline(typed: bool, env: &Environment) -> Outcome<Setting<bool>> {
    let typed = typed.then_some("true");
    let ours = OFFLINE[0].resolve(typed, env, false, boolean)?;
    match ours.origin {
        Origin::Default => OFFLINE[1].resolve(None, env, false, boolean),
        _ => Ok(ours),
    }
}

fn draft_quant(typed: Option<&str>, env: &Environment) -> Outcome<Setting<Option<DraftQuant>>> {
    DRAFT_QUANT.resolve(typed, env, None, |text| text.parse().map(Some))
}

/// Reads `--max-tokens`.
pub fn max_tokens(typed: Option<&str>, env: &Environment, default: usize) -> Outcome<Setting<usize>> {
    Names::flag("--max-tokens").resolve(typed, env, default, whole_number(1))
}

/// Reads `--repeat`.
pub fn repeat(typed: Option<&str>, env: &Environment) -> Outcome<Setting<usize>> {
    Names::flag("--repeat").resolve(typed, env, 1, whole_number(1))
}

/// Reads `--cooldown`, whole seconds.
pub fn cooldown(typed: Option<&str>, env: &Environment) -> Outcome<Setting<Duration>> {
    Names::flag("--cooldown").resolve(typed, env, Duration::ZERO, |text| match text.parse() {
        Ok(seconds @ 0..=LONGEST_COOLDOWN) => Ok(Duration::from_secs(seconds)),
        _ => Err(format!("whole seconds, 0 to {LONGEST_COOLDOWN}")),
    })
}

/// Reads `--oracle`.
pub fn oracle(typed: Option<&str>, env: &Environment) -> Outcome<Setting<Option<f64>>> {
    Names::flag("--oracle").resolve(typed, env, None, |text| match text.parse() {
        Ok(rate) if (0.0..=1.0).contains(&rate) => Ok(Some(rate)),
        _ => Err("a probability from 0 to 1".to_owned()),
    })
}

/// Checks `--stop`: an empty string would stop everything.
pub fn stop_strings(typed: &[String]) -> Outcome<Vec<String>> {
    match typed.iter().any(String::is_empty) {
        true => Err(Failure::usage("invalid value '' for --stop").cause("a stop string is not empty")),
        false => Ok(typed.to_vec()),
    }
}

/// A path need not be UTF-8, and a report about it must not fail for that.
fn lossy_path<S: Serializer>(setting: &Setting<Option<PathBuf>>, serializer: S) -> Result<S::Ok, S::Error> {
    let path = setting.value.as_ref().map(|path| path.to_string_lossy());
    Setting::new(path, setting.origin).serialize(serializer)
}
