//! Pieces of grammars in the Lark syntax of the grammar library.

use std::fmt::Write;

use dflash_text::{TextError, Tokenizer};

/// Any text, of one character at least.
pub(crate) const SOME_TEXT: &str = "/(?s:.+)/";

/// A grammar under construction. Rules get names of their own.
pub(crate) struct Lark<'a> {
    tokenizer: &'a Tokenizer,
    rules: String,
    count: usize,
}

/// What stands literally in a text: characters, or control tokens.
#[derive(Debug, Clone)]
pub(crate) struct Marker {
    /// Alternately text and control tokens.
    parts: Vec<Part>,
}

#[derive(Debug, Clone)]
enum Part {
    Text(String),
    Control(u32),
}

/// Text by what a regular expression in slashes matches.
#[derive(Debug, Clone)]
pub(crate) struct Text {
    /// The expression, or several joined with `&`.
    pub pattern: String,
    /// Whether it matches the empty text.
    pub empty: bool,
}

impl Text {
    /// Any text.
    pub fn any() -> Self {
        Self { pattern: "/(?s:.*)/".into(), empty: true }
    }
}

impl Marker {
    /// `text` in the terms of a vocabulary: what of it is a control token counts only as that.
    pub fn new(tokenizer: &Tokenizer, text: &str) -> Result<Self, TextError> {
        let mut parts: Vec<Part> = Vec::new();
        for id in tokenizer.encode(text, true)? {
            let bytes = tokenizer.token_bytes(id).unwrap_or_default();
            match (parts.last_mut(), tokenizer.is_special(id)) {
                (_, true) => parts.push(Part::Control(id)),
                (Some(Part::Text(text)), false) => text.push_str(&String::from_utf8_lossy(bytes)),
                (_, false) => parts.push(Part::Text(String::from_utf8_lossy(bytes).into_owned())),
            }
        }
        let spelled = parts.iter().any(|part| matches!(part, Part::Control(_)));
        Ok(Self { parts: if spelled { parts } else { vec![Part::Text(text.to_owned())] } })
    }

    /// Characters alone.
    pub fn text(text: &str) -> Self {
        Self { parts: vec![Part::Text(text.to_owned())] }
    }

    /// What it begins with, unless that is a control token.
    pub fn first_text(&self) -> Option<&str> {
        match self.parts.first() {
            Some(Part::Text(text)) => Some(text),
            _ => None,
        }
    }

    /// The expression that matches it.
    pub fn expression(&self) -> String {
        let parts = self.parts.iter().map(|part| match part {
            Part::Text(text) => literal(text),
            Part::Control(id) => format!("<[{id}]>"),
        });
        parts.collect::<Vec<_>>().join(" ")
    }
}

impl<'a> Lark<'a> {
    pub fn new(tokenizer: &'a Tokenizer) -> Self {
        Self { tokenizer, rules: String::new(), count: 0 }
    }

    pub fn tokenizer(&self) -> &'a Tokenizer {
        self.tokenizer
    }

    /// What `text` is in the vocabulary.
    pub fn marker(&self, text: &str) -> Result<Marker, TextError> {
        Marker::new(self.tokenizer, text)
    }

    /// A name for a rule that is still to be defined.
    pub fn name(&mut self) -> String {
        self.count += 1;
        format!("r{}", self.count)
    }

    /// Defines a rule.
    pub fn define(&mut self, name: &str, expression: &str) {
        let _ = writeln!(self.rules, "{name}: {expression}");
    }

    /// A new rule.
    pub fn rule(&mut self, expression: &str) -> String {
        let name = self.name();
        self.define(&name, expression);
        name
    }

    /// A new terminal: one regular expression, however it is put together.
    pub fn terminal(&mut self, expression: &str) -> String {
        let name = self.name().to_uppercase();
        self.define(&name, expression);
        name
    }

    /// Text that the regular expression `body` matches, then `end`, which is not in that text.
    pub fn text_until(&mut self, body: &Text, end: &Marker) -> String {
        let Text { pattern, empty } = body;
        match end.parts.split_first() {
            Some((Part::Text(text), rest)) => {
                let others = self.terminal(&format!("{pattern} & ~/(?s:.*){}(?s:.*)/", escaped(text)));
                let lazy = self.name();
                self.define(&format!("{lazy}[lazy]"), &format!("{others} {}", literal(text)));
                format!("{lazy} {}", Marker { parts: rest.to_vec() }.expression())
            }
            _ => {
                let some = self.terminal(&format!("{pattern} & {SOME_TEXT}"));
                let maybe = if *empty { "?" } else { "" };
                format!("{some}{maybe} {}", end.expression())
            }
        }
    }

    /// Items in their order, those that are not required may be missing; `separator` between those that are there.
    pub fn sequence(&mut self, items: &[(String, bool)], separator: &str) -> String {
        // What may follow when nothing came before, and when something did.
        let (mut first, mut next) = (String::from("\"\""), String::from("\"\""));
        for (item, required) in items.iter().rev() {
            let item = self.rule(item);
            let (alone, after) = match required {
                true => (format!("{item} {next}"), format!("{separator} {item} {next}")),
                false => (format!("{item} {next} | {first}"), format!("({separator} {item})? {next}")),
            };
            (first, next) = (self.rule(&alone), self.rule(&after));
        }
        first
    }

    /// The grammar whose texts `start` matches.
    pub fn finish(mut self, start: &str) -> String {
        self.define("start", start);
        self.rules
    }
}

/// A literal.
pub(crate) fn literal(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// `text` within a regular expression.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_ascii_punctuation()
                && c != '<'
                && c != '>'
                && c != '"'
                && c != '\''
                && c != '='
                && c != '_' =>
            {
                out.push('\\');
                out.push(c);
            }
            c => out.push(c),
        }
    }
    out
}
