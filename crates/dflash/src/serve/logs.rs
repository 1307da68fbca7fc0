use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use dflash_server::logs::LevelFilter;
use dflash_server::logs::{self, LogFormat};
use dflash_server::{Diagnostics, DiagnosticsLevel, ServedModel};
use serde_json::{Value, json};

use super::ServeRequest;
use super::args::LogArgs;
use super::request::setting;
use crate::env::Environment;
use crate::report::{Failure, Outcome, say};

/// What is told while a server runs, and what is kept.
#[derive(Debug, Clone)]
pub struct LogChoice {
    /// How lines are written.
    pub format: LogFormat,
    /// The least important ones.
    pub level: LevelFilter,
    /// How much is kept, and where.
    pub kept: Option<(DiagnosticsLevel, PathBuf)>,
}

impl LogChoice {
    /// Validates the flags.
    ///
    /// # Errors
    /// Another word; a folder for nothing.
    pub fn read(args: &LogArgs, env: &Environment) -> Outcome<Self> {
        let format = |text: &str| LogFormat::named(text).ok_or_else(|| "text or json".to_owned());
        let level =
            |text: &str| logs::level(text).ok_or_else(|| "trace, debug, info, warn, error or off".to_owned());
        Ok(Self {
            format: setting(
                "--log-format",
                "DFLASH_LOG_FORMAT",
                &args.log_format,
                env,
                LogFormat::Text,
                format,
            )?,
            level: setting(
                "--log-level",
                "DFLASH_LOG_LEVEL",
                &args.log_level,
                env,
                LevelFilter::INFO,
                level,
            )?,
            kept: kept(args, env)?,
        })
    }

    /// Opens the folder, where something is kept.
    ///
    /// # Errors
    /// A folder that cannot be written.
    pub fn diagnostics(&self, model: &ServedModel, request: &ServeRequest) -> Outcome<Option<Diagnostics>> {
        let Some((level, dir)) = &self.kept else { return Ok(None) };
        let config = config(model, request);
        let opened = Diagnostics::open(dir, *level, &invocation(), &config).map_err(|error| {
            Failure::new(format!("cannot write diagnostics to {}", dir.display())).cause(error)
        })?;
        say(format!("diagnostics ({}) in {}", level.name(), dir.display()));
        Ok(Some(opened))
    }
}

fn kept(args: &LogArgs, env: &Environment) -> Outcome<Option<(DiagnosticsLevel, PathBuf)>> {
    let parse = |text: &str| match text.to_ascii_lowercase().as_str() {
        "off" => Ok(None),
        "basic" => Ok(Some(DiagnosticsLevel::Basic)),
        "full" => Ok(Some(DiagnosticsLevel::Full)),
        _ => Err("off, basic or full".to_owned()),
    };
    let level = setting("--diagnostics", "DFLASH_DIAGNOSTICS", &args.diagnostics, env, None, parse)?;
    let dir = args.diagnostics_dir.clone().or_else(|| env.path("DFLASH_DIAGNOSTICS_DIR"));
    match (level, dir) {
        (None, None) => Ok(None),
        (None, Some(_)) => Err(Failure::usage("--diagnostics-dir needs --diagnostics")
            .hint("pass --diagnostics basic or full too, or leave --diagnostics-dir out")),
        (Some(level), dir) => Ok(Some((level, dir.unwrap_or_else(|| new_folder(level))))),
    }
}

fn new_folder(level: DiagnosticsLevel) -> PathBuf {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |passed| passed.as_secs());
    PathBuf::from(".artifacts/dflash/diagnostics").join(format!("{now}-serve-{}", level.name()))
}

/// How the process was called, but for what only its owner should know.
fn invocation() -> Value {
    let mut arguments: Vec<String> =
        std::env::args_os().map(|arg| arg.to_string_lossy().into_owned()).collect();
    for index in 0..arguments.len() {
        if arguments[index].starts_with("--api-key=") {
            arguments[index] = "--api-key=…".to_owned();
        } else if index > 0 && arguments[index - 1] == "--api-key" {
            arguments[index] = "…".to_owned();
        }
    }
    json!({"arguments": arguments, "pid": std::process::id()})
}

fn config(model: &ServedModel, request: &ServeRequest) -> Value {
    let settings = &request.settings;
    json!({
        "model": model.id,
        "target": model.facts.target,
        "draft": model.facts.draft,
        "options": request.options,
        "engine": {
            "max_batch": request.engine.max_batch,
            "queue": request.engine.waiting,
            "step_rows": request.engine.step_rows,
        },
        "server": {
            "address": settings.address,
            "allowed_origins": settings.allowed_origins,
            "allowed_hosts": settings.allowed_hosts,
            "api_keys": settings.api_keys.len(),
            "max_body_bytes": settings.max_body_bytes,
            "max_tokens": settings.max_tokens,
            "temperature": settings.sampling.temperature,
            "top_p": settings.sampling.top_p,
            "top_k": settings.sampling.top_k,
            "min_p": settings.sampling.min_p,
            "chat_template_args": settings.template_kwargs,
            "fastpath_max_tokens": settings.fastpath_max_tokens,
            "dflash_max_ctx": settings.speculative_prompt,
            "request_timeout_s": settings.request_timeout.map(|limit| limit.as_secs_f64()),
            "drain_timeout_s": settings.drain.as_secs_f64(),
            "log_prompts": settings.log_prompts,
        },
    })
}
