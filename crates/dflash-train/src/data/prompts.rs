use std::fs;
use std::path::Path;

use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::TrainError;
use crate::hex::hex;

/// Where prompts come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Prompts {
    /// The target writes them itself.
    SelfMade,
    /// Somebody wrote them.
    Listed(Vec<Prompt>),
}

/// A prompt of a list.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Prompt {
    /// What the user says.
    #[serde(alias = "user")]
    pub prompt: String,
    /// What kind of prompt it is.
    #[serde(default = "unknown", alias = "suite")]
    pub category: String,
}

fn unknown() -> String {
    "prompt".to_owned()
}

impl Prompts {
    /// Reads JSON lines: `{"prompt": "…", "category": "…"}`; the category may be left out.
    ///
    /// # Errors
    /// Files that cannot be read, and the first line that is no such object.
    pub fn read(path: &Path) -> Result<Self, TrainError> {
        let text = fs::read_to_string(path).map_err(TrainError::io(path))?;
        let lines = text
            .trim_start_matches('\u{feff}')
            .lines()
            .enumerate()
            .filter(|(_, line)| !line.trim().is_empty());
        let prompt = |(index, line): (usize, &str)| {
            let bad = |what: String| TrainError::bad(path, format!("line {}: {what}", index + 1));
            let prompt: Prompt = serde_json::from_str(line).map_err(|error| {
                bad(format!("{error}; a line is {{\"prompt\": \"…\", \"category\": \"…\"}}"))
            })?;
            if prompt.prompt.trim().is_empty() { Err(bad("the prompt is empty".into())) } else { Ok(prompt) }
        };
        let prompts = lines.map(prompt).collect::<Result<Vec<_>, _>>()?;
        match prompts.is_empty() {
            true => Err(TrainError::bad(
                path,
                "holds no prompt; a line is {\"prompt\": \"…\", \"category\": \"…\"}",
            )),
            false => Ok(Self::Listed(prompts)),
        }
    }

    /// Prompts there are, where that is known.
    pub(super) fn len(&self) -> Option<u64> {
        match self {
            Self::SelfMade => None,
            Self::Listed(prompts) => Some(prompts.len() as u64),
        }
    }

    /// Names the source: other prompts, another name.
    pub(super) fn name(&self) -> String {
        let Self::Listed(prompts) = self else { return "self-made".to_owned() };
        let mut hash = Sha256::new();
        for Prompt { prompt, category } in prompts {
            [prompt, category].iter().for_each(|text| {
                hash.update((text.len() as u64).to_le_bytes());
                hash.update(text);
            });
        }
        format!("{} prompts {}", prompts.len(), hex(&hash.finalize()[..8]))
    }
}

#[cfg(test)]
mod tests {
    use super::Prompts;

    fn read(text: &str) -> Result<Prompts, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("prompts.jsonl");
        std::fs::write(&path, text).unwrap();
        Prompts::read(&path).map_err(|error| error.to_string())
    }

    #[test]
    fn lines_are_read() {
        let Prompts::Listed(prompts) =
            read("{\"prompt\": \"a\", \"suite\": \"code\"}\n\n{\"user\": \"b\", \"assistant\": \"c\"}\n")
                .unwrap()
        else {
            panic!("a list");
        };
        let pairs: Vec<_> = prompts.iter().map(|it| (it.prompt.as_str(), it.category.as_str())).collect();
        assert_eq!(pairs, [("a", "code"), ("b", "prompt")]);
    }

    #[test]
    fn wrong_lines_are_named() {
        assert!(read("{\"prompt\": \"a\"}\nb").unwrap_err().contains("line 2"));
        assert!(read("{\"prompt\": \" \"}").unwrap_err().contains("line 1: the prompt is empty"));
        assert!(read("\n").unwrap_err().contains("holds no prompt"));
    }
}
