//! `f(a=1, b="x")`: a call as Python writes it.

use super::call::{CallEvent, Progress, object, whole};
use crate::json_scanner::Broken;
use crate::python_literal::LiteralReader;
use crate::tool_set::ToolSet;

/// Reads one call.
#[derive(Debug, Clone, Default)]
pub(crate) struct PythonCall {
    name: String,
    /// What stands between the brackets.
    body: String,
    depth: usize,
    quote: Option<char>,
    escaped: bool,
}

impl PythonCall {
    pub fn push(&mut self, c: char, tools: &ToolSet, out: &mut Vec<CallEvent>) -> Result<Progress, Broken> {
        if self.depth == 0 {
            return self.head(c, tools);
        }
        self.measure(c);
        if self.depth > 0 {
            self.body.push(c);
            return Ok(Progress::More);
        }
        let arguments = arguments(&self.body, &self.name, tools).ok_or(Broken)?;
        whole(std::mem::take(&mut self.name), arguments, out)
    }

    fn head(&mut self, c: char, tools: &ToolSet) -> Result<Progress, Broken> {
        match c {
            '(' if tools.declares(&self.name) => self.depth = 1,
            c if c.is_alphanumeric() || "_.-".contains(c) => self.name.push(c),
            _ => return Err(Broken),
        }
        Ok(Progress::More)
    }

    /// Finds the bracket that closes the call.
    fn measure(&mut self, c: char) {
        match (self.quote, c) {
            _ if std::mem::take(&mut self.escaped) => {}
            (Some(_), '\\') => self.escaped = true,
            (Some(quote), c) if c == quote => self.quote = None,
            (None, '"' | '\'') => self.quote = Some(c),
            (None, '(' | '[' | '{') => self.depth += 1,
            (None, ')' | ']' | '}') => self.depth -= 1,
            _ => {}
        }
    }
}

fn arguments(body: &str, tool: &str, tools: &ToolSet) -> Option<String> {
    let mut reader = LiteralReader::new(body);
    let mut pairs = Vec::new();
    reader.blanks();
    while !reader.rest().is_empty() {
        let key = reader.name()?.to_owned();
        reader.eat('=').then_some(())?;
        let json = tools.kind(tool, &key).fitted(reader.value(0)?);
        pairs.push((key, json));
        let more = reader.eat(',');
        reader.blanks();
        if !more && !reader.rest().is_empty() {
            return None;
        }
    }
    Some(object(&pairs))
}
