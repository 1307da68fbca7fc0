//! What stands between the markers of calls: one call or several.

use std::sync::Arc;

use super::ToolFormat;
use super::call::{CallEvent, CallReader, Progress, Spelled};
use super::gemma::{CALL, GemmaCall, QUOTE};
use super::json::JsonCall;
use super::lfm2::PythonCall;
use super::mistral::{ARGUMENTS, ID, NamedCall};
use super::qwen_xml::{FUNCTION, XmlCall};
use crate::Tokenizer;
use crate::json_scanner::Broken;
use crate::symbol::{Marker, Symbol, marker};
use crate::tool_set::ToolSet;

/// A form of calls in the terms of one vocabulary, and the tools that may be called.
#[derive(Debug)]
pub(crate) struct SpanForm {
    format: ToolFormat,
    openers: Vec<Marker>,
    closer: Option<Marker>,
    quote: Marker,
    /// Control tokens that have to be seen within calls.
    inner: Vec<Marker>,
    tools: ToolSet,
}

impl SpanForm {
    pub fn new(tokenizer: &Tokenizer, format: ToolFormat, tools: ToolSet) -> Self {
        let spell = |text: &&str| marker(tokenizer, text);
        let inner: &[&str] = match format {
            ToolFormat::Gemma => &[QUOTE],
            ToolFormat::Mistral => &[ARGUMENTS, ID],
            _ => &[],
        };
        Self {
            format,
            openers: format.openers().iter().map(spell).collect(),
            closer: format.closer().as_ref().map(spell),
            quote: spell(&QUOTE),
            inner: inner.iter().map(spell).collect(),
            tools,
        }
    }

    /// Everything that has to be recognised in the ids.
    pub fn markers(&self) -> impl Iterator<Item = &Marker> {
        self.openers.iter().chain(&self.closer).chain(&self.inner)
    }

    /// What opens a call.
    pub fn openers(&self) -> &[Marker] {
        &self.openers
    }

    /// Whether `symbol` at the start of an answer may be the first of a call.
    pub fn opens_bare(&self, symbol: Symbol) -> bool {
        matches!(symbol, Symbol::Char(c) if self.format.bare_openers().contains(c))
    }

    /// Whether `symbol` may stand before the first call, or after one.
    fn is_around(&self, symbol: Symbol, after: bool) -> bool {
        let Symbol::Char(c) = symbol else { return false };
        c.is_whitespace() || if after { self.format.after().contains(c) } else { c == '[' }
    }

    fn ends_in_marker(&self, symbols: &[Symbol]) -> bool {
        self.openers.iter().chain(&self.closer).any(|marker| symbols.ends_with(marker))
    }

    fn json(&self) -> CallReader {
        CallReader::Json(JsonCall::new(self.format.is_strict()))
    }

    /// The reader of a call that begins with `head`; `None` while that is open.
    fn reader(&self, head: &[Symbol]) -> Result<Option<CallReader>, Broken> {
        let may_close = self.closer.as_ref().is_some_and(|closer| closer.starts_with(head));
        let Symbol::Char(first) = head[0] else { return may_close.then_some(None).ok_or(Broken) };
        let is_name = first.is_alphabetic() || first == '_';
        match self.format {
            _ if first == '{' => Ok(Some(self.json())),
            ToolFormat::Lfm2 if is_name => Ok(Some(CallReader::Python(PythonCall::default()))),
            ToolFormat::Mistral if is_name => Ok(Some(CallReader::Named(NamedCall::new()))),
            ToolFormat::Gemma if begins(head, CALL) => {
                Ok(Some(CallReader::Gemma(GemmaCall::new(self.quote.clone()))))
            }
            ToolFormat::JsonTags | ToolFormat::QwenXml if spells(head, FUNCTION) => {
                Ok(Some(CallReader::Xml(XmlCall::default())))
            }
            ToolFormat::JsonTags | ToolFormat::QwenXml if begins(head, FUNCTION) => Ok(None),
            _ => may_close.then_some(None).ok_or(Broken),
        }
    }
}

fn begins(head: &[Symbol], text: &str) -> bool {
    let mut chars = text.chars();
    head.iter().all(|&symbol| chars.next().map(Symbol::Char) == Some(symbol))
}

fn spells(head: &[Symbol], text: &str) -> bool {
    head.len() == text.chars().count() && begins(head, text)
}

/// How far a span has come with a symbol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SpanProgress {
    /// It may go on; what was taken so far may still have to become text.
    Open,
    /// It may go on, and everything taken so far belongs to calls that were told of.
    Settled,
    /// The closing marker is there.
    Closed,
}

/// Reads the calls after an opening marker.
#[derive(Debug, Clone)]
pub(crate) struct Span {
    form: Arc<SpanForm>,
    call: Option<CallReader>,
    /// Symbols of the call, where a marker cuts it.
    read: Vec<Symbol>,
    /// The first symbols of a call or of the closing marker.
    head: Vec<Symbol>,
    /// Whether a call has been whole.
    found: bool,
}

impl Span {
    /// A span after `opener`, which may be the beginning of a call itself.
    pub fn new(form: &Arc<SpanForm>, opener: &[Symbol]) -> Self {
        let call = spells(opener, FUNCTION).then(|| CallReader::Xml(XmlCall::opened()));
        Self { form: Arc::clone(form), call, read: Vec::new(), head: Vec::new(), found: false }
    }

    /// Takes one symbol; broken where the span cannot go on.
    pub fn push(
        &mut self,
        symbol: Symbol,
        spell: impl Fn(Symbol) -> String,
        out: &mut Vec<CallEvent>,
    ) -> Result<SpanProgress, Broken> {
        if self.call.is_some() {
            return self.advance(symbol, &spell, out);
        }
        if self.head.is_empty() && self.form.is_around(symbol, self.found) {
            return Ok(if self.found { SpanProgress::Settled } else { SpanProgress::Open });
        }
        self.head.push(symbol);
        if self.form.closer.as_ref() == Some(&self.head) {
            return if self.found { Ok(SpanProgress::Closed) } else { Err(Broken) };
        }
        self.call = self.form.reader(&self.head)?;
        let mut progress = SpanProgress::Open;
        if self.call.is_some() {
            for symbol in std::mem::take(&mut self.head) {
                progress = self.advance(symbol, &spell, out)?;
            }
        }
        Ok(progress)
    }

    fn advance(
        &mut self,
        symbol: Symbol,
        spell: impl Fn(Symbol) -> String,
        out: &mut Vec<CallEvent>,
    ) -> Result<SpanProgress, Broken> {
        let Some(call) = &mut self.call else { return Err(Broken) };
        if self.form.format.is_cut_by_markers() {
            self.read.push(symbol);
            if self.form.ends_in_marker(&self.read) {
                return Err(Broken);
            }
        }
        let told = out.len();
        let text = spell(symbol);
        let progress = call.push(Spelled { symbol, text: &text }, &self.form.tools, out)?;
        if progress == Progress::Whole {
            (self.call, self.found) = (None, true);
            self.read.clear();
        }
        Ok(if out.len() > told || progress == Progress::Whole {
            SpanProgress::Settled
        } else {
            SpanProgress::Open
        })
    }
}
