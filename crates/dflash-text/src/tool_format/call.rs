use crate::json_scanner::Broken;
use crate::tool_set::{ToolSet, quoted};

use super::gemma::GemmaCall;
use super::json::JsonCall;
use super::lfm2::PythonCall;
use super::mistral::NamedCall;
use super::qwen_xml::XmlCall;
use crate::symbol::Symbol;

/// What is known of a call by now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CallEvent {
    /// The call is one, and its tool is declared.
    Start(String),
    /// More of its arguments, which together are a JSON object.
    Arguments(String),
    /// The arguments are complete.
    End,
}

/// Whether more of a call is to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    More,
    /// The last symbol was the last of the call.
    Whole,
}

/// A symbol that may belong to a marker inside a call, and its text.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spelled<'a> {
    pub symbol: Symbol,
    pub text: &'a str,
}

/// Reads one call.
#[derive(Debug, Clone)]
pub(crate) enum CallReader {
    Json(JsonCall),
    Xml(XmlCall),
    Gemma(GemmaCall),
    Python(PythonCall),
    Named(NamedCall),
}

impl CallReader {
    /// Takes one symbol. A call is broken where it cannot be one, or its tool is not declared.
    pub fn push(
        &mut self,
        spelled: Spelled<'_>,
        tools: &ToolSet,
        out: &mut Vec<CallEvent>,
    ) -> Result<Progress, Broken> {
        match self {
            Self::Json(call) => each(spelled.text, |c| call.push(c, tools, out)),
            Self::Xml(call) => each(spelled.text, |c| call.push(c, tools, out)),
            Self::Gemma(call) => call.push(spelled, tools, out),
            Self::Python(call) => each(spelled.text, |c| call.push(c, tools, out)),
            Self::Named(call) => each(spelled.text, |c| call.push(c, tools, out)),
        }
    }
}

fn each(text: &str, mut push: impl FnMut(char) -> Result<Progress, Broken>) -> Result<Progress, Broken> {
    text.chars().try_fold(Progress::More, |progress, c| match progress {
        Progress::More => push(c),
        // A control token that goes on after the end of the call.
        Progress::Whole => Err(Broken),
    })
}

/// A call that is known only when it is whole.
pub(crate) fn whole(name: String, arguments: String, out: &mut Vec<CallEvent>) -> Result<Progress, Broken> {
    out.extend([CallEvent::Start(name), CallEvent::Arguments(arguments), CallEvent::End]);
    Ok(Progress::Whole)
}

/// The object of `key: value` pairs, the values JSON already; of a key that comes twice the last counts.
pub(crate) fn object(pairs: &[(String, String)]) -> String {
    let last =
        |(at, (key, _)): &(usize, &(String, String))| pairs[at + 1..].iter().all(|(other, _)| other != key);
    let pairs = pairs.iter().enumerate().filter(last);
    let pairs = pairs.map(|(_, (key, json))| format!("{}: {json}", quoted(key)));
    format!("{{{}}}", pairs.collect::<Vec<_>>().join(", "))
}
