//! `<function=NAME> <parameter=KEY> VALUE </parameter> … </function>`, typed by the tool's schema.

use super::call::{CallEvent, Progress, object, whole};
use crate::json_scanner::Broken;
use crate::tool_set::ToolSet;

pub(crate) const FUNCTION: &str = "<function=";
const PARAMETER: &str = "<parameter=";
const END_OF_PARAMETER: &str = "</parameter>";
const END_OF_FUNCTION: &str = "</function>";
/// Ends a function whose own end was forgotten.
const END_OF_CALL: &str = "</tool_call>";

/// Reads one function.
#[derive(Debug, Clone, Default)]
pub(crate) struct XmlCall {
    place: Place,
    text: String,
    name: String,
    key: String,
    arguments: Vec<(String, String)>,
}

#[derive(Debug, Clone, Copy, Default)]
enum Place {
    /// Within `<function=`.
    #[default]
    Opening,
    Name,
    /// Between parameters.
    Between,
    Key,
    Value,
}

impl XmlCall {
    /// A reader of what follows `<function=`.
    pub fn opened() -> Self {
        Self { place: Place::Name, ..Self::default() }
    }

    pub fn push(&mut self, c: char, tools: &ToolSet, out: &mut Vec<CallEvent>) -> Result<Progress, Broken> {
        self.text.push(c);
        match self.place {
            Place::Opening => self.take_tag(FUNCTION, Place::Name),
            Place::Name => self.name(c, tools),
            Place::Between if self.text.trim().is_empty() => {
                self.text.clear();
                Ok(Progress::More)
            }
            Place::Between if END_OF_FUNCTION.starts_with(&self.text) => match self.text == END_OF_FUNCTION {
                true => self.finish(out),
                false => Ok(Progress::More),
            },
            Place::Between => self.take_tag(PARAMETER, Place::Key),
            Place::Key if c == '>' => {
                let key = self.text.trim_end_matches('>').trim();
                self.key = key.to_owned();
                self.go(Place::Value)
            }
            Place::Key if c == '\n' => Err(Broken),
            Place::Key => Ok(Progress::More),
            Place::Value => self.value(tools, out),
        }
    }

    fn go(&mut self, place: Place) -> Result<Progress, Broken> {
        self.place = place;
        self.text.clear();
        Ok(Progress::More)
    }

    fn take_tag(&mut self, tag: &str, then: Place) -> Result<Progress, Broken> {
        match tag.starts_with(&self.text) {
            true if self.text == tag => self.go(then),
            true => Ok(Progress::More),
            false => Err(Broken),
        }
    }

    fn name(&mut self, c: char, tools: &ToolSet) -> Result<Progress, Broken> {
        if c != '>' {
            return Ok(Progress::More);
        }
        let name = self.text.trim_end_matches('>').split_whitespace().next().ok_or(Broken)?;
        if !tools.declares(name) {
            return Err(Broken);
        }
        self.name = name.to_owned();
        self.go(Place::Between)
    }

    fn value(&mut self, tools: &ToolSet, out: &mut Vec<CallEvent>) -> Result<Progress, Broken> {
        let ends = [END_OF_PARAMETER, PARAMETER, END_OF_FUNCTION, END_OF_CALL];
        let Some(end) = ends.into_iter().find(|end| self.text.ends_with(end)) else {
            return Ok(Progress::More);
        };
        let value = &self.text[..self.text.len() - end.len()];
        let value = value.strip_prefix('\n').unwrap_or(value);
        let value = value.strip_suffix('\n').unwrap_or(value);
        let json = tools.kind(&self.name, &self.key).json(value).ok_or(Broken)?;
        self.arguments.push((std::mem::take(&mut self.key), json));
        match end {
            PARAMETER => self.go(Place::Key),
            END_OF_PARAMETER => self.go(Place::Between),
            _ => self.finish(out),
        }
    }

    fn finish(&mut self, out: &mut Vec<CallEvent>) -> Result<Progress, Broken> {
        whole(std::mem::take(&mut self.name), object(&self.arguments), out)
    }
}
