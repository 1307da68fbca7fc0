use std::path::Path;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use dflash_text::strftime;
use serde_json::{Value, json};

use super::bench::{Bench, Question};
use super::folder::Folder;
use super::leg::Leg;
use super::machine::Machine;
use super::summary::{Summary, label};
use crate::env::Environment;
use crate::report::Outcome;
use crate::request::ComparisonRequest;

/// When and what: `manifest.json`, `invocation.json` and the name of their folder.
pub struct Manifest {
    began: i64,
    argv: Vec<String>,
    facts: Value,
}

impl Manifest {
    /// Of a benchmark that begins now.
    pub fn new(
        bench: &Bench,
        request: &ComparisonRequest,
        questions: &[Question],
        env: &Environment,
    ) -> Self {
        let began = now();
        let argv: Vec<String> =
            std::env::args_os().map(|argument| argument.to_string_lossy().into_owned()).collect();
        let ids: Vec<&str> = questions.iter().map(|question| question.prompt.id.as_str()).collect();
        let (git_sha, git_dirty) = revision(env);
        let mut facts = json!({
            "kind": "benchmark",
            "label": label(request),
            "timestamp": time(began),
            "argv": argv,
            "cwd": std::env::current_dir().ok().map(|dir| dir.display().to_string()),
            "git_sha": git_sha,
            "git_dirty": git_dirty,
            "dflash_version": env!("CARGO_PKG_VERSION"),
            "platform": format!("{}-{}", std::env::consts::OS, std::env::consts::ARCH),
            "backend": bench.pair.info.backend,
            "machine": Machine::here(),
            "model": request.pair.model,
            "pair": bench.pair.info.names(),
            "effective_config": request.options,
            "output_schema_version": 1,
            "prompt_ids": ids,
            "prompt_count": ids.len(),
            "chat_template": request.chat_template,
        });
        extend(&mut facts, json!(request.suite));
        Self { began, argv, facts }
    }

    /// When it began.
    pub fn timestamp(&self) -> String {
        time(self.began)
    }

    /// `<time>-<suite>-<model>`.
    pub fn folder_name(&self, request: &ComparisonRequest) -> String {
        let time = strftime("%Y%m%d-%H%M%S", self.began).unwrap_or_default();
        format!("{time}-{}-{}", request.suite.name(), slug(&request.pair.model))
    }

    /// What is known before anything is measured.
    fn running(&self) -> Value {
        let mut facts = self.facts.clone();
        extend(&mut facts, json!({"status": "running"}));
        facts
    }

    /// What is known in the end: whether everything was measured, and all prompts together.
    pub fn ended(&self, complete: bool, summary: Option<&Summary>) -> Value {
        let mut facts = self.facts.clone();
        let end = json!({
            "status": if complete { "complete" } else { "incomplete" },
            "ended": time(now()),
            "benchmark_summary": summary.map(|summary| &summary.all),
        });
        extend(&mut facts, end);
        facts
    }

    /// How it was called.
    fn invocation(&self, path: &Path, request: &ComparisonRequest, legs: &[Leg]) -> Value {
        let flags: Vec<&str> = self.argv.iter().skip(1).filter_map(|argument| flag(argument)).collect();
        json!({
            "command": "dflash benchmark",
            "argv": self.argv,
            "output_dir": path.display().to_string(),
            "output_path": path.join("results.json").display().to_string(),
            "explicit_flags": flags,
            "protocol_order": Leg::order(legs, 0).into_iter().chain(Leg::order(legs, 1)).collect::<Vec<_>>(),
            "rounds": request.repeat,
            "same_prompt_token_ids": true,
            "primary_metric": "post_prefill_generation_tps",
        })
    }

    /// Writes both files.
    pub fn write(&self, folder: &Folder, request: &ComparisonRequest, legs: &[Leg]) -> Outcome<()> {
        folder.json("manifest.json", &self.running())?;
        folder.json("invocation.json", &self.invocation(folder.path(), request, legs))
    }
}

/// Adds the fields of one object to those of another.
pub fn extend(facts: &mut Value, more: Value) {
    if let (Value::Object(facts), Value::Object(more)) = (facts, more) {
        facts.extend(more);
    }
}

fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64)
}

/// As RFC 3339 writes it.
fn time(unix: i64) -> String {
    strftime("%FT%TZ", unix).unwrap_or_default()
}

/// The flag in an argument such as `--suite` or `--suite=smoke`.
fn flag(argument: &str) -> Option<&str> {
    argument.starts_with("--").then(|| argument.split('=').next().unwrap_or(argument))
}

/// The last part of a model's name or path, as a folder can be called anywhere.
fn slug(model: &str) -> String {
    let last = model.trim_end_matches(['/', '\\']).rsplit(['/', '\\']).next().unwrap_or(model);
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c.to_ascii_lowercase() } else { '-' };
    let slug: String = last.chars().map(plain).take(60).collect();
    match slug.trim_matches(['-', '.']) {
        "" => "model".to_owned(),
        slug => slug.to_owned(),
    }
}

/// Commit and whether files differ from it, where the working directory belongs to a repository.
fn revision(env: &Environment) -> (Option<String>, Option<bool>) {
    let git = |args: &[&str]| {
        let mut command = Command::new(env.find_program("git")?);
        let output = command.args(args).env_clear().envs(env.iter()).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let sha = git(&["rev-parse", "HEAD"]);
    let dirty = sha.as_ref().and_then(|_| git(&["status", "--porcelain"])).map(|lines| !lines.is_empty());
    (sha, dirty)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slugs_are_names_of_folders_everywhere() {
        for (model, slug_of) in [
            ("Qwen/Qwen3.5-4B", "qwen3.5-4b"),
            ("smollm2-135m", "smollm2-135m"),
            ("/models/a b/Model.gguf", "model.gguf"),
            ("org/name@main:x.gguf", "name-main-x.gguf"),
            ("C:\\models\\tiny\\", "tiny"),
            ("..", "model"),
            ("é", "model"),
        ] {
            assert_eq!(slug(model), slug_of, "{model}");
        }
    }

    #[test]
    fn flags_without_their_values() {
        assert_eq!(
            ["--suite=smoke", "--json", "smoke", "-x"].map(flag),
            [Some("--suite"), Some("--json"), None, None]
        );
    }

    #[test]
    fn times_are_those_of_the_world() {
        assert_eq!(time(1_709_210_096), "2024-02-29T12:34:56Z");
    }
}
