//! Where the prompt comes from.

use std::fs;
use std::io::{self, IsTerminal, Read};
use std::path::Path;

use crate::report::{Failure, Outcome};

/// Standard input, as far as the prompt needs it.
pub struct Stdin<'a> {
    /// Whether a person types into it: then nothing is read, so that nobody waits for nothing.
    pub is_terminal: bool,
    /// Its bytes.
    pub bytes: &'a mut dyn Read,
}

/// Reads the prompt from `--prompt`, `--prompt-file`, or what is piped in.
pub fn read(text: Option<&str>, file: Option<&Path>) -> Outcome<String> {
    let mut bytes = io::stdin();
    let is_terminal = bytes.is_terminal();
    read_from(text, file, Stdin { is_terminal, bytes: &mut bytes })
}

/// [`read`] with another standard input.
pub fn read_from(text: Option<&str>, file: Option<&Path>, stdin: Stdin<'_>) -> Outcome<String> {
    let prompt = match (text, file) {
        (Some(text), _) => text.to_owned(),
        (None, Some(path)) if path != Path::new("-") => from_bytes(read_file(path)?, "the prompt file")?,
        (None, Some(_)) => from_stdin(stdin)?,
        (None, None) if stdin.is_terminal => return Err(no_prompt("there is no prompt")),
        (None, None) => from_stdin(stdin)?,
    };
    if prompt.is_empty() { Err(no_prompt("the prompt is empty")) } else { Ok(prompt) }
}

fn no_prompt(what: &str) -> Failure {
    Failure::usage(what).hint("give --prompt TEXT or --prompt-file PATH, or pipe a text in")
}

fn read_file(path: &Path) -> Outcome<Vec<u8>> {
    fs::read(path)
        .map_err(|error| Failure::new(format!("cannot read the prompt file {}", path.display())).cause(error))
}

fn from_stdin(stdin: Stdin<'_>) -> Outcome<String> {
    let mut bytes = Vec::new();
    let read = stdin.bytes.read_to_end(&mut bytes);
    read.map_err(|error| Failure::new("cannot read the prompt from standard input").cause(error))?;
    from_bytes(bytes, "standard input")
}

/// Editors and `echo` end a text with a line ending that nobody meant as part of the prompt.
fn from_bytes(bytes: Vec<u8>, whence: &str) -> Outcome<String> {
    let mut text = String::from_utf8(bytes)
        .map_err(|error| Failure::new(format!("{whence} is not UTF-8 text")).cause(error.utf8_error()))?;
    if text.ends_with('\n') {
        text.pop();
        if text.ends_with('\r') {
            text.pop();
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piped(bytes: &[u8]) -> Outcome<String> {
        read_from(None, None, Stdin { is_terminal: false, bytes: &mut &*bytes })
    }

    #[test]
    fn one_final_line_ending_is_not_part_of_the_prompt() {
        for (bytes, prompt) in
            [("hi", "hi"), ("hi\n", "hi"), ("hi\r\n", "hi"), ("hi\n\n", "hi\n"), ("\nhi \n", "\nhi ")]
        {
            assert_eq!(piped(bytes.as_bytes()).unwrap(), prompt);
        }
    }

    #[test]
    fn the_flag_is_taken_as_it_is_and_standard_input_stays_unread() {
        let mut bytes: &[u8] = b"piped";
        let prompt = read_from(Some("typed\n"), None, Stdin { is_terminal: false, bytes: &mut bytes });
        assert_eq!(prompt.unwrap(), "typed\n");
        assert_eq!(bytes, b"piped");
    }

    #[test]
    fn a_terminal_is_not_waited_for() {
        let failure = read_from(None, None, Stdin { is_terminal: true, bytes: &mut &b"x"[..] }).unwrap_err();
        assert_eq!(failure.exit_code(), 2);
    }

    #[test]
    fn empty_and_broken_texts_are_refused() {
        assert_eq!(piped(b"").unwrap_err().message(), "the prompt is empty");
        assert_eq!(piped(b"\n").unwrap_err().message(), "the prompt is empty");
        assert_eq!(piped(b"\xff").unwrap_err().message(), "standard input is not UTF-8 text");
    }
}
