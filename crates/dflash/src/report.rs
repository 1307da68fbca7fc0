//! How the binary says that something went wrong, and with which exit code.
//!
//! Every failure reaches the user as one `error:` line, then `caused by:` lines from the outermost
//! cause inwards, then `hint:` lines that say what to do. All of it goes to stderr: stdout carries data.

use std::error::Error;
use std::fmt;
use std::io::Write;

/// What kind of failure it is; decides the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    /// The command line or an environment variable is wrong: exit code 2.
    Usage,
    /// The command was understood and did not work: exit code 1.
    Failed,
    /// The user stopped it: `main` ends by the signal itself, so that a calling shell sees it.
    Interrupted,
    /// Nobody reads standard output any more (`| head`): the work ends, nothing is said.
    ReaderGone,
    /// The model is not here yet, and this run may not fetch it: exit code 1.
    NotFetched,
}

/// A failure with its causes and with what the user can do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    kind: FailureKind,
    message: String,
    causes: Vec<String>,
    hints: Vec<String>,
}

/// The result of what the binary does.
pub type Outcome<T> = Result<T, Failure>;

impl Failure {
    /// A command that did not work.
    pub fn new(message: impl Into<String>) -> Self {
        Self::of_kind(FailureKind::Failed, message)
    }

    /// A command line or environment that cannot be obeyed.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::of_kind(FailureKind::Usage, message)
    }

    /// The user stopped it.
    pub fn interrupted() -> Self {
        Self::of_kind(FailureKind::Interrupted, "interrupted")
    }

    /// The model is not here yet, and this run may not fetch it.
    pub fn not_fetched(message: impl Into<String>) -> Self {
        Self::of_kind(FailureKind::NotFetched, message)
    }

    /// Nobody reads standard output any more.
    pub fn reader_gone() -> Self {
        Self::of_kind(FailureKind::ReaderGone, "the reader of standard output has gone")
    }

    fn of_kind(kind: FailureKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), causes: Vec::new(), hints: Vec::new() }
    }

    /// A failure from a library's error: its text, then the chain of its sources as causes.
    pub fn from_error(error: &dyn Error) -> Self {
        let mut failure = Self::new(error.to_string());
        let mut next = error.source();
        while let Some(source) = next {
            failure.causes.push(source.to_string());
            next = source.source();
        }
        failure
    }

    /// Adds a cause (the outermost first).
    pub fn cause(mut self, cause: impl fmt::Display) -> Self {
        self.causes.push(cause.to_string());
        self
    }

    /// Adds a piece of advice.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// What kind of failure it is.
    pub fn kind(&self) -> FailureKind {
        self.kind
    }

    /// The `error:` line without its prefix.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The pieces of advice.
    pub fn hints(&self) -> &[String] {
        &self.hints
    }

    /// The process exit code: 1, 2 for a usage error, 0 when only the reader went away.
    pub fn exit_code(&self) -> u8 {
        match self.kind {
            FailureKind::Usage => 2,
            FailureKind::Failed | FailureKind::Interrupted | FailureKind::NotFetched => 1,
            FailureKind::ReaderGone => 0,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_line(f, "error: ", &self.message)?;
        for cause in &self.causes {
            write_line(f, "\ncaused by: ", cause)?;
        }
        for hint in &self.hints {
            write_line(f, "\nhint: ", hint)?;
        }
        Ok(())
    }
}

/// Says a line on stderr. Where nobody can hear it there is nothing more to do.
pub fn say(line: impl fmt::Display) {
    let _ = writeln!(std::io::stderr(), "{}", harmless(&line.to_string()));
}

/// Text of files and servers is quoted in lines for people: what a terminal would obey is spelled out.
fn harmless(text: &str) -> String {
    let spell = |c: char| match c {
        '\n' | '\t' => c.to_string(),
        c if c.is_control() => c.escape_unicode().to_string(),
        c => c.to_string(),
    };
    text.chars().map(spell).collect()
}

/// Continuation lines are indented, so that a line's prefix tells what it is.
fn write_line(f: &mut fmt::Formatter<'_>, prefix: &str, text: &str) -> fmt::Result {
    f.write_str(prefix)?;
    f.write_str(&harmless(text.trim_end()).replace('\n', "\n  "))
}

impl Error for Failure {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_in_order_and_continuations_are_indented() {
        let failure = Failure::new("it broke").cause("outer\ninner detail\n").cause("root").hint("mend it");
        let expected = "error: it broke\ncaused by: outer\n  inner detail\ncaused by: root\nhint: mend it";
        assert_eq!(failure.to_string(), expected);
    }

    #[test]
    fn names_in_files_cannot_speak_to_the_terminal() {
        let failure = Failure::new("the key \u{1b}[2Jx\rhint: y\u{9b} is odd").cause("a\nhint: b");
        let expected = "error: the key \\u{1b}[2Jx\\u{d}hint: y\\u{9b} is odd\ncaused by: a\n  hint: b";
        assert_eq!(failure.to_string(), expected);
    }

    #[test]
    fn only_usage_errors_exit_with_two() {
        assert_eq!(Failure::usage("x").exit_code(), 2);
        assert_eq!(Failure::new("x").exit_code(), 1);
    }
}
