use std::fs;
use std::path::Path;

use serde_json::Value;

use super::{Prompt, parquet};
use crate::env::Environment;
use crate::hub::{Hub, HubError, HubId, HubSettings};
use crate::options::Options;
use crate::progress::Progress;
use crate::report::{Failure, Outcome};

/// A published set of problems on the Hub; of each its test split.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dataset {
    /// Python functions to be completed from signature and docstring (164 rows).
    HumanEval,
    /// Word problems of primary schools (1,319 rows).
    Gsm8k,
    /// Problems of mathematics competitions (500 rows).
    Math500,
    /// The American Invitational Mathematics Examination of 2025 (30 rows).
    Aime25,
}

/// How a dataset is stored.
struct Stored {
    repo: &'static str,
    file: &'static str,
    /// Where a row has its problem.
    problem: &'static str,
}

impl Dataset {
    /// Every dataset.
    pub const ALL: [Self; 4] = [Self::HumanEval, Self::Gsm8k, Self::Math500, Self::Aime25];

    /// Its name, and that of its suite.
    pub fn name(self) -> &'static str {
        match self {
            Self::HumanEval => "humaneval",
            Self::Gsm8k => "gsm8k",
            Self::Math500 => "math500",
            Self::Aime25 => "aime25",
        }
    }

    /// `organisation/name` of its repository.
    pub fn repo(self) -> &'static str {
        self.stored().repo
    }

    fn stored(self) -> Stored {
        let (repo, file, problem) = match self {
            Self::HumanEval => {
                ("openai/openai_humaneval", "openai_humaneval/test-00000-of-00001.parquet", "prompt")
            }
            Self::Gsm8k => ("openai/gsm8k", "main/test-00000-of-00001.parquet", "question"),
            Self::Math500 => ("HuggingFaceH4/MATH-500", "test.jsonl", "problem"),
            Self::Aime25 => ("math-ai/aime25", "test.jsonl", "problem"),
        };
        Stored { repo, file, problem }
    }

    /// Most prompts, unless more or fewer are asked for.
    pub(super) fn limit(self) -> usize {
        if self == Self::Aime25 { 30 } else { 10 }
    }

    /// Tokens that an answer may have, unless more or fewer are asked for.
    pub(super) fn max_tokens(self) -> usize {
        if self == Self::Aime25 { 65_536 } else { 64 }
    }

    /// All its prompts, in the order of its rows; an id ends with the number of the row, from 0.
    pub(super) fn prompts(
        self,
        options: &Options,
        env: &Environment,
        progress: Progress,
    ) -> Outcome<Vec<Prompt>> {
        let (Stored { repo, file, problem }, id) = (self.stored(), HubId::of_dataset(self.repo()));
        let settings = HubSettings::resolve(env, options.offline.value);
        let endpoint = settings.as_ref().map(|settings| settings.endpoint.clone()).unwrap_or_default();
        let path = settings.and_then(|settings| Hub { settings, progress }.fetch_file(&id, file));
        let path = path.map_err(|error: HubError| error.into_failure(&id, &endpoint))?;
        let unreadable = |cause: String| {
            Failure::new(format!("cannot read {file} of the dataset '{repo}'"))
                .cause(cause)
                .hint(format!("remove {} to have it fetched again", path.display()))
        };
        let bytes = fs::read(&path).map_err(|error| unreadable(error.to_string()))?;
        let problems = column(&bytes, file, problem).map_err(unreadable)?;
        let answers = match self {
            Self::Aime25 => {
                column(&bytes, file, "answer").map_err(unreadable)?.into_iter().map(Some).collect()
            }
            _ => vec![None; problems.len()],
        };
        if problems.is_empty() {
            return Err(unreadable("it has no rows".to_owned()));
        }
        let rows = problems.into_iter().zip(answers).enumerate();
        Ok(rows.map(|(row, (problem, answer))| self.prompt(row, &problem, answer)).collect())
    }

    fn prompt(self, row: usize, problem: &str, answer: Option<String>) -> Prompt {
        let text = match self {
            Self::HumanEval => problem.to_owned(),
            Self::Gsm8k => format!("Question: {problem}\nAnswer: "),
            Self::Math500 => format!("Problem: {problem}\nSolution: "),
            Self::Aime25 => format!(
                "Problem: {problem}\n\nThink step by step. The answer is a whole number from 0 to 999; end with it in a \
                 box, as in \\boxed{{7}}."
            ),
        };
        Prompt {
            id: format!("{}-{row}", self.name()),
            category: self.name().to_owned(),
            text,
            answer,
            // The beginning of a file is to be continued, not talked about.
            chat_template: self != Self::HumanEval,
        }
    }
}

/// The texts of a column of `bytes`, which are a file called `file`.
fn column(bytes: &[u8], file: &str, name: &str) -> Result<Vec<String>, String> {
    match Path::new(file).extension().is_some_and(|extension| extension == "parquet") {
        true => parquet::texts(bytes, name).map_err(|error| error.to_string()),
        false => json_column(bytes, name),
    }
}

/// A column of JSON lines; numbers are taken as they are written.
fn json_column(bytes: &[u8], name: &str) -> Result<Vec<String>, String> {
    let text = std::str::from_utf8(bytes).map_err(|error| error.to_string())?;
    let lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
    let cell = |(number, line): (usize, &str)| {
        let row: Value = serde_json::from_str(line).map_err(|error| format!("line {number}: {error}"))?;
        match &row[name] {
            Value::String(text) => Ok(text.clone()),
            Value::Number(value) => Ok(value.to_string()),
            _ => Err(format!("line {number} has no '{name}'")),
        }
    };
    lines.map(cell).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_of_json_lines() {
        let text = b"{\"problem\":\"1+1?\",\"answer\":2}\n\n{\"problem\":\"x\",\"answer\":\"70\",\"id\":0}\n";
        assert_eq!(column(text, "test.jsonl", "answer").unwrap(), ["2", "70"]);
        assert_eq!(column(text, "test.jsonl", "id").unwrap_err(), "line 1 has no 'id'");
        assert!(column(b"{}\n{", "test.jsonl", "id").unwrap_err().starts_with("line 1 has no"));
        assert!(column(b"{", "test.jsonl", "id").unwrap_err().starts_with("line 1: EOF"));
        assert!(column(b"\xff", "test.jsonl", "id").is_err());
    }

    #[test]
    fn problems_are_put_as_their_suites_put_them() {
        let prompt = |dataset: Dataset| dataset.prompt(17, "p", None);
        assert_eq!(prompt(Dataset::HumanEval).text, "p");
        assert_eq!(prompt(Dataset::Gsm8k).text, "Question: p\nAnswer: ");
        assert_eq!(prompt(Dataset::Math500).text, "Problem: p\nSolution: ");
        assert!(prompt(Dataset::Aime25).text.ends_with(r"\boxed{7}."));
        assert_eq!(prompt(Dataset::Gsm8k).id, "gsm8k-17");
        let templates = Dataset::ALL.map(|dataset| prompt(dataset).chat_template);
        assert_eq!(templates, [false, true, true, true]);
    }
}
