//! `NAME[ARGS]{…}`: the later of Mistral's two ways to write a call.

use super::call::{CallEvent, Progress};
use super::json::faithfully;
use crate::json_scanner::{Broken, JsonScanner};
use crate::tool_set::ToolSet;

pub(crate) const ARGUMENTS: &str = "[ARGS]";
/// Some versions put an id of the call before the arguments.
pub(crate) const ID: &str = "[CALL_ID]";
/// Longer than any name and id.
const LONGEST_HEAD: usize = 256;

/// Reads one call.
#[derive(Debug, Clone)]
pub(crate) struct NamedCall {
    head: String,
    arguments: Option<JsonScanner>,
}

impl NamedCall {
    pub fn new() -> Self {
        Self { head: String::new(), arguments: None }
    }

    pub fn push(&mut self, c: char, tools: &ToolSet, out: &mut Vec<CallEvent>) -> Result<Progress, Broken> {
        let Some(scanner) = &mut self.arguments else { return self.head(c, tools) };
        let first = scanner.depth() == 0;
        let part = scanner.push(c)?;
        if first && c.is_whitespace() {
            return Ok(Progress::More);
        }
        if first {
            (c == '{').then(|| out.push(CallEvent::Start(std::mem::take(&mut self.head)))).ok_or(Broken)?;
        }
        out.push(CallEvent::Arguments(faithfully(c, part)));
        if !scanner.done() {
            return Ok(Progress::More);
        }
        out.push(CallEvent::End);
        Ok(Progress::Whole)
    }

    fn head(&mut self, c: char, tools: &ToolSet) -> Result<Progress, Broken> {
        let is_name = c.is_alphanumeric() || "_.-".contains(c);
        if self.head.len() > LONGEST_HEAD || !(is_name || c == '[' || self.head.contains('[')) {
            return Err(Broken);
        }
        self.head.push(c);
        let Some(head) = self.head.strip_suffix(ARGUMENTS) else { return Ok(Progress::More) };
        let name = head.split(ID).next().unwrap_or_default().trim();
        if !tools.declares(name) {
            return Err(Broken);
        }
        (self.head, self.arguments) = (name.to_owned(), Some(JsonScanner::new()));
        Ok(Progress::More)
    }
}
