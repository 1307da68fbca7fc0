use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use dflash_server::logs::{self, LogFormat, LogLevel};
use dflash_server::{Diagnostics, DiagnosticsLevel};
use dflash_text::strftime;
use serde_json::{Value, json};

use super::args::LogArgs;
use super::request::ServeRequest;
use crate::env::Environment;
use crate::report::{Failure, Outcome};
use crate::setting::Names;

/// Where folders of diagnostics are made.
const DIAGNOSTICS: &str = ".artifacts/dflash/diagnostics";

/// What a server tells of its work: lines on stderr, and a folder if asked for.
#[derive(Debug, Clone)]
pub struct Watch {
    format: LogFormat,
    level: LogLevel,
    diagnostics: Option<(DiagnosticsLevel, Option<PathBuf>)>,
}

impl Watch {
    /// Validates the arguments.
    ///
    /// # Errors
    /// A value that is not known; a folder for nothing.
    pub fn read(args: &LogArgs, env: &Environment) -> Outcome<Self> {
        let format = Names::new("--log-format", "DFLASH_LOG_FORMAT");
        let level = Names::new("--log-level", "DFLASH_LOG_LEVEL");
        let diagnostics = Names::new("--diagnostics", "DFLASH_DIAGNOSTICS");
        let kept = |text: &str| match text {
            "off" => Ok(None),
            "basic" => Ok(Some(DiagnosticsLevel::Basic)),
            "full" => Ok(Some(DiagnosticsLevel::Full)),
            _ => Err("off, basic or full".to_owned()),
        };
        let named = |text: &str| LogFormat::named(text).ok_or_else(|| "text or json".to_owned());
        let least =
            |text: &str| LogLevel::named(text).ok_or_else(|| "debug, info, warn, error or off".to_owned());
        let kept = diagnostics.resolve(args.diagnostics.as_deref(), env, None, kept)?.value;
        let dir = args.diagnostics_dir.clone().or_else(|| env.path("DFLASH_DIAGNOSTICS_DIR"));
        if kept.is_none() && args.diagnostics_dir.is_some() {
            return Err(Failure::usage("--diagnostics-dir needs --diagnostics basic or full"));
        }
        Ok(Self {
            format: format.resolve(args.log_format.as_deref(), env, LogFormat::Text, named)?.value,
            level: level.resolve(args.log_level.as_deref(), env, LogLevel::INFO, least)?.value,
            diagnostics: kept.map(|level| (level, dir)),
        })
    }

    /// Begins to tell.
    ///
    /// # Errors
    /// A folder that cannot be written.
    pub fn begin(&self, request: &ServeRequest) -> Outcome<Option<Diagnostics>> {
        logs::init(self.format, self.level);
        let Some((level, dir)) = &self.diagnostics else { return Ok(None) };
        let dir = dir.clone().unwrap_or_else(|| new_folder(*level));
        let invocation = json!({"command": "serve", "argv": without_keys(std::env::args())});
        let opened = Diagnostics::open(&dir, *level, &invocation, &config(request));
        opened.map(Some).map_err(|error| {
            Failure::new(format!("cannot keep diagnostics in {}", dir.display()))
                .cause(error)
                .hint("--diagnostics-dir names another folder")
        })
    }
}

fn new_folder(level: DiagnosticsLevel) -> PathBuf {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |passed| passed.as_secs() as i64);
    let time = strftime("%Y%m%d-%H%M%S", now).unwrap_or_default();
    PathBuf::from(DIAGNOSTICS).join(format!("{time}-serve-{}", level.name()))
}

/// A command line without what opens the server.
fn without_keys(words: impl Iterator<Item = String>) -> Vec<String> {
    let mut hide = false;
    words
        .map(|word| {
            let secret = std::mem::replace(&mut hide, word == "--api-key");
            match word.split_once('=') {
                _ if secret => "…".to_owned(),
                Some(("--api-key", _)) => "--api-key=…".to_owned(),
                _ => word,
            }
        })
        .collect()
}

fn config(request: &ServeRequest) -> Value {
    let (engine, settings) = (&request.engine, &request.settings);
    json!({
        "options": request.options,
        "engine": {"max_batch": engine.max_batch, "waiting": engine.waiting, "step_rows": engine.step_rows},
        "server": {
            "address": settings.address.to_string(),
            "allowed_origins": settings.allowed_origins,
            "api_keys": settings.api_keys.len(),
            "max_body_bytes": settings.max_body_bytes,
            "max_tokens": settings.max_tokens,
            "sampling": format!("{:?}", settings.sampling),
            "template_kwargs": settings.template_kwargs,
            "fastpath_max_tokens": settings.fastpath_max_tokens,
            "request_timeout_s": settings.request_timeout.map(|timeout| timeout.as_secs_f64()),
            "drain_s": settings.drain.as_secs_f64(),
            "log_prompts": settings.log_prompts,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_not_written_down() {
        let words = ["dflash", "serve", "--api-key", "secret", "--port", "1", "--api-key=secret"];
        let kept = without_keys(words.into_iter().map(str::to_owned)).join(" ");
        assert_eq!(kept, "dflash serve --api-key … --port 1 --api-key=…");
    }
}
