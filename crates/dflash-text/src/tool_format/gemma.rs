//! `call:NAME{key:value,…}`, with strings between `<|"|>`.

use super::call::{CallEvent, Progress, Spelled, object, whole};
use crate::json_scanner::Broken;
use crate::symbol::{Marker, Symbol};
use crate::tool_set::{ParameterKind, ToolSet, quoted};

pub(crate) const CALL: &str = "call:";
pub(crate) const QUOTE: &str = "<|\"|>";
/// Levels of lists and objects.
const DEEPEST: usize = 100;

/// Reads one call.
#[derive(Debug, Clone)]
pub(crate) struct GemmaCall {
    quote: Marker,
    head: String,
    name: String,
    body: Vec<Symbol>,
    depth: usize,
    in_string: bool,
}

impl GemmaCall {
    pub fn new(quote: Marker) -> Self {
        Self { quote, head: String::new(), name: String::new(), body: Vec::new(), depth: 0, in_string: false }
    }

    pub fn push(
        &mut self,
        spelled: Spelled<'_>,
        tools: &ToolSet,
        out: &mut Vec<CallEvent>,
    ) -> Result<Progress, Broken> {
        if self.depth == 0 && spelled.symbol != Symbol::Char('{') {
            return self.head(spelled.text);
        }
        if self.depth == 0 {
            self.name = self.head.strip_prefix(CALL).unwrap_or_default().trim().to_owned();
            tools.declares(&self.name).then_some(()).ok_or(Broken)?;
        }
        self.body.push(spelled.symbol);
        self.measure(spelled.symbol);
        if self.depth > 0 {
            return Ok(Progress::More);
        }
        let reader = Reader { text: &self.body, quote: &self.quote };
        let arguments = reader.arguments(&self.name, tools).ok_or(Broken)?;
        whole(std::mem::take(&mut self.name), arguments, out)
    }

    fn head(&mut self, text: &str) -> Result<Progress, Broken> {
        self.head += text;
        let is_call = CALL.starts_with(&self.head) || self.head.starts_with(CALL);
        if is_call && !text.contains('\n') { Ok(Progress::More) } else { Err(Broken) }
    }

    /// Finds the bracket that closes the arguments.
    fn measure(&mut self, symbol: Symbol) {
        if self.body.ends_with(&self.quote) {
            self.in_string = !self.in_string;
        }
        match symbol {
            Symbol::Char('{') if !self.in_string => self.depth += 1,
            Symbol::Char('}') if !self.in_string => self.depth -= 1,
            _ => {}
        }
    }
}

/// Reads the arguments from the front.
struct Reader<'a> {
    text: &'a [Symbol],
    quote: &'a [Symbol],
}

impl Reader<'_> {
    fn arguments(mut self, tool: &str, tools: &ToolSet) -> Option<String> {
        let pairs = self.pairs(0, |key| tools.kind(tool, key))?;
        self.text.is_empty().then(|| object(&pairs))
    }

    fn pairs(&mut self, depth: usize, kind: impl Fn(&str) -> ParameterKind) -> Option<Vec<(String, String)>> {
        let mut pairs = Vec::new();
        self.eat('{').then_some(())?;
        while !self.eat('}') {
            let key = match self.string() {
                Some(key) => key,
                None => self.bare(":{}[],").trim().to_owned(),
            };
            self.eat(':').then_some(())?;
            let json = self.value(depth + 1, kind(&key))?;
            pairs.push((key, json));
            if !self.eat(',') && self.peek() != Some('}') {
                return None;
            }
        }
        Some(pairs)
    }

    fn value(&mut self, depth: usize, kind: ParameterKind) -> Option<String> {
        if depth == DEEPEST {
            return None;
        }
        if let Some(text) = self.string() {
            return Some(kind.fitted(quoted(&text)));
        }
        match self.peek()? {
            '{' => self.pairs(depth, |_| ParameterKind::Untyped).map(|pairs| object(&pairs)),
            '[' => self.list(depth),
            _ => {
                let bare = self.bare("{}[],").trim().to_owned();
                let is_json = serde_json::from_str::<serde_json::Value>(&bare).is_ok();
                if is_json { Some(kind.fitted(bare)) } else { kind.json(&bare).filter(|_| !bare.is_empty()) }
            }
        }
    }

    fn list(&mut self, depth: usize) -> Option<String> {
        let mut items = Vec::new();
        self.eat('[');
        while !self.eat(']') {
            items.push(self.value(depth + 1, ParameterKind::Untyped)?);
            if !self.eat(',') && self.peek() != Some(']') {
                return None;
            }
        }
        Some(format!("[{}]", items.join(", ")))
    }

    /// Text between two quotes.
    fn string(&mut self) -> Option<String> {
        self.blanks();
        let text = self.text.strip_prefix(self.quote)?;
        let end = text.windows(self.quote.len()).position(|window| window == self.quote)?;
        self.text = &text[end + self.quote.len()..];
        text[..end].iter().map(char_of).collect()
    }

    /// Text up to one of `ends`.
    fn bare(&mut self, ends: &str) -> String {
        let is_end = |symbol: &Symbol| char_of(symbol).is_none_or(|c| ends.contains(c));
        let end = self.text.iter().position(is_end).unwrap_or(self.text.len());
        let (bare, rest) = self.text.split_at(end);
        self.text = rest;
        bare.iter().filter_map(char_of).collect()
    }

    fn eat(&mut self, sign: char) -> bool {
        let found = self.peek() == Some(sign);
        self.text = &self.text[usize::from(found)..];
        found
    }

    fn peek(&mut self) -> Option<char> {
        self.blanks();
        self.text.first().and_then(char_of)
    }

    fn blanks(&mut self) {
        let is_blank = |symbol: &&Symbol| char_of(symbol).is_some_and(char::is_whitespace);
        self.text = &self.text[self.text.iter().take_while(is_blank).count()..];
    }
}

fn char_of(symbol: &Symbol) -> Option<char> {
    match symbol {
        Symbol::Char(c) => Some(*c),
        Symbol::Control(_) => None,
    }
}
