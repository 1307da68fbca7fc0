//! Prompts as JSON lines.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::Deserialize;

use super::Prompt;
use crate::report::{Failure, Outcome};

/// The category of own prompts that name none.
const NO_CATEGORY: &str = "prompts";

#[derive(Deserialize)]
struct Line {
    id: String,
    suite: Option<String>,
    prompt: String,
}

/// Reads the prompts of a file.
pub(super) fn read_file(path: &Path) -> Outcome<Vec<Prompt>> {
    let whence = path.display().to_string();
    let unreadable = |cause: String| {
        Failure::new(format!("cannot read the prompt file {whence}"))
            .cause(cause)
            .hint(r#"it has one JSON object a line: {"id": "a", "suite": "own", "prompt": "Say hello."}"#)
    };
    let text = fs::read_to_string(path).map_err(|error| unreadable(error.to_string()))?;
    match read(&text, &whence, NO_CATEGORY)? {
        prompts if prompts.is_empty() => Err(unreadable("there is no prompt in it".to_owned())),
        prompts => Ok(prompts),
    }
}

/// Reads `text`, which came from `whence`; blank lines do not count. `category` is for lines that name none.
pub(super) fn read(text: &str, whence: &str, category: &str) -> Outcome<Vec<Prompt>> {
    let mut lines_of = BTreeMap::new();
    let mut prompts = Vec::new();
    for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()) {
        let bad = |what: &str| Failure::new(format!("{whence}, line {number}: {what}"));
        let no_prompt = |cause: String| {
            bad("it is no prompt")
                .cause(cause)
                .hint(r#"a line is one JSON object: {"id": "a", "suite": "own", "prompt": "Say hello."}"#)
        };
        // It would be taken for the fields in their order.
        if line.trim_start().starts_with('[') {
            return Err(no_prompt("it is a list".to_owned()));
        }
        let Line { id, suite, prompt } =
            serde_json::from_str(line).map_err(|error| no_prompt(about(&error)))?;
        for (name, value) in [("id", Some(&id)), ("suite", suite.as_ref()), ("prompt", Some(&prompt))] {
            if value.is_some_and(|value| value.trim().is_empty()) {
                return Err(bad(&format!("the {name} is empty")));
            }
        }
        if let Some(earlier) = lines_of.insert(id.clone(), number) {
            return Err(bad(&format!("line {earlier} has the id '{id}' already"))
                .hint("give every prompt an id of its own"));
        }
        prompts.push(Prompt::plain(id, suite.unwrap_or_else(|| category.to_owned()), prompt));
    }
    Ok(prompts)
}

/// What JSON's error says, without its own count of lines: it is given one at a time.
fn about(error: &serde_json::Error) -> String {
    error.to_string().replace(" line 1 ", " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> String {
        read(text, "own.jsonl", "c").unwrap_err().to_string()
    }

    #[test]
    fn fields_and_blank_lines() {
        let text = "{\"id\":\"a\",\"prompt\":\"x \\u00fc\",\"more\":1}\r\n\n{\"id\":\"b\",\"suite\":\"s\",\"prompt\":\"y\"}";
        let expected = [Prompt::plain("a", "c", "x ü"), Prompt::plain("b", "s", "y")];
        assert_eq!(read(text, "own.jsonl", "c").unwrap(), expected);
    }

    #[test]
    fn a_fault_names_file_and_line() {
        let good = r#"{"id":"a","prompt":"x"}"#;
        for (line, what) in [
            ("hello", "own.jsonl, line 2: it is no prompt\ncaused by: expected value at column 1"),
            (r#" ["b", "s", "x"]"#, "own.jsonl, line 2: it is no prompt\ncaused by: it is a list"),
            (r#"{"id":"b"}"#, "own.jsonl, line 2: it is no prompt\ncaused by: missing field `prompt`"),
            (r#"{"id":1,"prompt":"x"}"#, "own.jsonl, line 2: it is no prompt\ncaused by: invalid type"),
            (r#"{"id":"b","prompt":" "}"#, "own.jsonl, line 2: the prompt is empty"),
            (r#"{"id":"","prompt":"x"}"#, "own.jsonl, line 2: the id is empty"),
            (r#"{"id":"b","suite":"","prompt":"x"}"#, "own.jsonl, line 2: the suite is empty"),
            (good, "own.jsonl, line 2: line 1 has the id 'a' already"),
        ] {
            let said = said(&format!("{good}\n{line}\n"));
            assert!(said.starts_with(&format!("error: {what}")), "{said} for {line}");
        }
    }

    #[test]
    fn a_file_that_is_absent_or_empty_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("own.jsonl");
        for content in [None, Some("\n \n".as_bytes()), Some(b"\xff")] {
            if let Some(content) = content {
                fs::write(&path, content).unwrap();
            }
            let failure = read_file(&path).unwrap_err();
            assert_eq!(failure.message(), format!("cannot read the prompt file {}", path.display()));
            assert_eq!((failure.exit_code(), failure.hints().len()), (1, 1));
        }
    }
}
