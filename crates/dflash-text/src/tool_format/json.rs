//! `{"name": …, "arguments": {…}}`: the arguments go out as the model writes them.

use serde_json::Value;

use super::call::{CallEvent, Progress};
use crate::json_scanner::{Broken, JsonScanner, Part};
use crate::tool_set::ToolSet;

/// Reads one JSON object that is a call, possibly with name and arguments inside `"function"`.
#[derive(Debug, Clone)]
pub(crate) struct JsonCall {
    scanner: JsonScanner,
    /// Whether keys that calls do not have make it something else.
    strict: bool,
    /// Depth of the keys in question.
    level: usize,
    key: String,
    field: Field,
    value: String,
    name: Option<String>,
    /// Arguments that came before the name.
    early: Option<String>,
    streaming: bool,
    started: bool,
    ended: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    Name,
    Arguments,
    Function,
    Other,
}

impl JsonCall {
    pub fn new(strict: bool) -> Self {
        Self {
            scanner: JsonScanner::new(),
            strict,
            level: 1,
            key: String::new(),
            field: Field::Other,
            value: String::new(),
            name: None,
            early: None,
            streaming: false,
            started: false,
            ended: false,
        }
    }

    pub fn push(&mut self, c: char, tools: &ToolSet, out: &mut Vec<CallEvent>) -> Result<Progress, Broken> {
        let part = self.scanner.push(c)?;
        let depth = self.scanner.depth();
        if self.streaming {
            self.stream(c, part, depth, out);
        } else {
            self.outline(c, part, depth, tools, out)?;
        }
        Ok(if self.scanner.done() { Progress::Whole } else { Progress::More })
    }

    /// One character within the arguments.
    fn stream(&mut self, c: char, part: Part, depth: usize, out: &mut Vec<CallEvent>) {
        match &mut self.early {
            Some(early) => push_faithfully(c, part, early),
            None => out.push(CallEvent::Arguments(faithfully(c, part))),
        }
        if part == Part::Close && depth == self.level {
            self.streaming = false;
            self.ended = self.early.is_none();
            if self.ended {
                out.push(CallEvent::End);
            }
        }
    }

    /// One character around the arguments.
    fn outline(
        &mut self,
        c: char,
        part: Part,
        depth: usize,
        tools: &ToolSet,
        out: &mut Vec<CallEvent>,
    ) -> Result<(), Broken> {
        match part {
            Part::Key if depth == self.level => self.key.push(c),
            Part::KeyEnd if depth == self.level => {
                self.key.push(c);
                self.field = self.field_of_key()?;
                self.value.clear();
            }
            Part::Open if depth == self.level + 1 => self.open(c, out)?,
            Part::Scalar if depth == self.level => self.value.push(c),
            Part::StringEnd if depth == self.level => {
                self.value.push(c);
                self.scalar(tools, out)?;
            }
            Part::Punctuation if depth == self.level => self.scalar(tools, out)?,
            Part::Close if depth + 1 == self.level => {
                self.scalar(tools, out)?;
                self.level = 1;
                if depth == 0 {
                    self.close(out)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn field_of_key(&mut self) -> Result<Field, Broken> {
        let key: String = serde_json::from_str(&std::mem::take(&mut self.key)).map_err(|_| Broken)?;
        match key.as_str() {
            "name" if self.name.is_none() => Ok(Field::Name),
            "arguments" | "parameters" if !self.ended && self.early.is_none() => Ok(Field::Arguments),
            "function" if self.name.is_none() => Ok(Field::Function),
            "name" | "arguments" | "parameters" | "function" | "type" | "id" => Ok(Field::Other),
            _ if self.strict => Err(Broken),
            _ => Ok(Field::Other),
        }
    }

    /// A list or an object begins as a value.
    fn open(&mut self, c: char, out: &mut Vec<CallEvent>) -> Result<(), Broken> {
        match (self.field, c) {
            (Field::Function, '{') if self.level == 1 => {
                self.level = 2;
                Ok(())
            }
            (Field::Arguments, '{') => {
                self.streaming = true;
                match self.name.clone() {
                    Some(name) => {
                        self.start(name, out);
                        out.push(CallEvent::Arguments("{".to_owned()));
                    }
                    None => self.early = Some("{".to_owned()),
                }
                Ok(())
            }
            (Field::Other, _) => Ok(()),
            _ => Err(Broken),
        }
    }

    /// A value that is neither list nor object has ended, if there is one.
    fn scalar(&mut self, tools: &ToolSet, out: &mut Vec<CallEvent>) -> Result<(), Broken> {
        let value = std::mem::take(&mut self.value);
        if value.is_empty() {
            return Ok(());
        }
        match std::mem::replace(&mut self.field, Field::Other) {
            Field::Name | Field::Function => {
                let name: String = serde_json::from_str(&value).map_err(|_| Broken)?;
                if !tools.declares(&name) {
                    return Err(Broken);
                }
                self.name = Some(name);
                self.deliver_early(out);
            }
            Field::Arguments => {
                self.early = Some(written_as_text(&value).ok_or(Broken)?);
                self.deliver_early(out);
            }
            Field::Other => {}
        }
        Ok(())
    }

    /// Sends the arguments that waited for the name.
    fn deliver_early(&mut self, out: &mut Vec<CallEvent>) {
        let Some(name) = self.name.clone() else { return };
        if let Some(arguments) = self.early.take() {
            self.start(name, out);
            out.extend([CallEvent::Arguments(arguments), CallEvent::End]);
            self.ended = true;
        }
    }

    fn close(&mut self, out: &mut Vec<CallEvent>) -> Result<(), Broken> {
        if self.name.is_none() {
            return Err(Broken);
        }
        if !self.started {
            self.early = Some("{}".to_owned());
            self.deliver_early(out);
        }
        Ok(())
    }

    fn start(&mut self, name: String, out: &mut Vec<CallEvent>) {
        self.started = true;
        out.push(CallEvent::Start(name));
    }
}

/// Arguments that are a JSON string of an object, or null.
fn written_as_text(value: &str) -> Option<String> {
    let text = match serde_json::from_str(value).ok()? {
        Value::Null => String::new(),
        Value::String(text) => text,
        _ => return None,
    };
    match text.trim() {
        "" | "null" => Some("{}".to_owned()),
        object => matches!(serde_json::from_str(object), Ok(Value::Object(_))).then(|| object.to_owned()),
    }
}

/// The character itself; only what no reader of JSON takes inside a string is escaped.
pub(crate) fn faithfully(c: char, part: Part) -> String {
    let mut out = String::new();
    push_faithfully(c, part, &mut out);
    out
}

fn push_faithfully(c: char, part: Part, out: &mut String) {
    match (part, c) {
        (Part::Key | Part::Scalar, '\n') => out.push_str("\\n"),
        (Part::Key | Part::Scalar, '\r') => out.push_str("\\r"),
        (Part::Key | Part::Scalar, '\t') => out.push_str("\\t"),
        (Part::Key | Part::Scalar, c) if c < ' ' => *out += &format!("\\u{:04x}", u32::from(c)),
        _ => out.push(c),
    }
}
