//! Prompts to measure with.

use clap::Args;
use serde::Serialize;

use crate::env::Environment;
use crate::options::Options;
use crate::progress::Progress;
use crate::report::Outcome;

/// Which prompts.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Prompts")]
pub struct SuiteArgs {
    /// Suite.
    #[arg(long, value_name = "NAME")]
    pub suite: Option<String>,
    /// Most prompts.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub limit: Option<String>,
    /// Length.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub ctx_tokens: Option<String>,
    /// File.
    #[arg(long, value_name = "JSONL")]
    pub prompt_file: Option<std::path::PathBuf>,
    /// One prompt instead of a suite.
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub prompt: Option<String>,
    /// Shuffle.
    #[arg(long)]
    pub shuffle: bool,
    /// Seed.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub seed: Option<String>,
}

/// Which prompts are wanted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SuiteRequest {
    suite: &'static str,
    prompt: Option<String>,
}

impl SuiteRequest {
    /// Validates.
    pub fn read(args: &SuiteArgs, _: &Environment) -> Outcome<Self> {
        let suite = match args.suite.as_deref() {
            Some("aime25") => "aime25",
            _ if args.prompt.is_some() => "prompt",
            _ => "smoke",
        };
        Ok(Self { suite, prompt: args.prompt.clone() })
    }

    /// Name.
    pub fn name(&self) -> &'static str {
        self.suite
    }

    /// Default.
    pub fn default_max_tokens(&self) -> usize {
        if self.suite == "aime25" { 65536 } else { 64 }
    }
}

/// One prompt of a suite.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    /// Its name.
    pub id: String,
    /// Category.
    pub category: String,
    /// Text.
    pub text: String,
    /// Right answer.
    pub answer: Option<String>,
    /// Chat.
    pub chat_template: bool,
}

/// Prompts.
pub fn prompts(request: &SuiteRequest, _: &Options, _: &Environment, _: Progress) -> Outcome<Vec<Prompt>> {
    let prompt = |id: &str, category: &str, text: &str| Prompt {
        id: id.to_owned(),
        category: category.to_owned(),
        text: text.to_owned(),
        answer: None,
        chat_template: true,
    };
    Ok(match &request.prompt {
        Some(text) => vec![prompt("prompt", "prompt", text)],
        None => vec![
            prompt("code-1", "code", "Write a function in Python that reverses a list."),
            prompt("chat-1", "chat", "What is a good name for a dog?"),
            prompt("code-2", "code", "Write a function in C that adds two numbers."),
        ],
    })
}
