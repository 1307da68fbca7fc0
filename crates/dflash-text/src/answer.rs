//! An answer taken apart as its ids come.

use std::collections::VecDeque;
use std::sync::Arc;

use serde_json::Value;

use crate::json_scanner::Broken;
use crate::outlet::{Channel, Outlet};
use crate::symbol::{Marker, Symbol, SymbolReader, marker};
use crate::tool_format::{CallEvent, Span, SpanForm, SpanProgress};
use crate::tool_set::ToolSet;
use crate::{Piece, ReasoningMarkers, TextError, Tokenizer, ToolFormat};

/// What an answer may consist of.
#[derive(Debug, Clone)]
pub struct AnswerFormat {
    /// What opens and closes reasoning; without, there is none.
    pub reasoning: Option<ReasoningMarkers>,
    /// Whether the prompt left a block of reasoning open.
    pub in_reasoning: bool,
    /// How calls are written, and the declared tools in OpenAI's form; without, nothing is taken for a call.
    pub tools: Option<(ToolFormat, Vec<Value>)>,
    /// Strings before which the visible text is cut.
    pub stop: Vec<String>,
    /// Whether there may be several calls; else the answer ends with the first.
    pub parallel: bool,
}

impl Default for AnswerFormat {
    /// Text only.
    fn default() -> Self {
        Self { reasoning: None, in_reasoning: false, tools: None, stop: Vec::new(), parallel: true }
    }
}

/// Splits an answer into reasoning, content and calls.
///
/// Nothing of a marker is ever part of the text: what may be the beginning of one is held back. A marker, or part
/// of one, that is a control token of the vocabulary counts as that token only; the rest counts as text, however it
/// is split into ids. Blanks next to a marker are left out, except where text goes on after it. What turns out to be
/// no call, or calls a tool that is not declared, is text as the model wrote it. A call inside of a block of reasoning
/// is found.
///
/// A clone is a checkpoint.
#[derive(Debug, Clone)]
pub struct AnswerParser {
    reader: SymbolReader,
    markers: Arc<Markers>,
    outlet: Outlet,
    in_reasoning: bool,
    reasoning_tokens: usize,
    /// Nothing but blanks since the beginning, a call or the end of reasoning.
    fresh: bool,
    /// May be the beginning of a marker.
    held: Vec<Symbol>,
    span: Option<OpenSpan>,
    finished: bool,
}

#[derive(Debug)]
struct Markers {
    think: Option<(Marker, Marker)>,
    calls: Option<Arc<SpanForm>>,
}

/// A span of calls, and what of it would have to become text again.
#[derive(Debug, Clone)]
struct OpenSpan {
    span: Span,
    /// Symbols of `taken` that opened the span.
    opener: usize,
    taken: Vec<Symbol>,
    /// A call has been told of and is not complete.
    within_call: bool,
}

/// What stands at the front of held symbols.
enum Front {
    /// The marker that opens reasoning, and its length.
    Open(usize),
    /// The one that closes it.
    Close(usize),
    /// One that opens calls.
    Call(usize),
    /// The beginning of something.
    Undecided,
    Text,
}

impl Markers {
    fn new(tokenizer: &Tokenizer, format: &AnswerFormat) -> Self {
        let think = format.reasoning.as_ref();
        let think = think.map(|pair| (marker(tokenizer, &pair.open), marker(tokenizer, &pair.close)));
        let calls = format.tools.as_ref();
        let calls = calls.map(|(format, tools)| SpanForm::new(tokenizer, *format, ToolSet::new(tools)));
        Self { think, calls: calls.map(Arc::new) }
    }

    fn all(&self) -> impl Iterator<Item = &Marker> {
        let think = self.think.iter().flat_map(|(open, close)| [open, close]);
        think.chain(self.calls.iter().flat_map(|form| form.markers()))
    }

    fn front(&self, held: &[Symbol]) -> Front {
        let openers = self.calls.iter().flat_map(|form| form.openers());
        if let Some(opener) = openers.clone().find(|opener| held.starts_with(opener)) {
            return Front::Call(opener.len());
        }
        let think = self.think.iter().flat_map(|(open, close)| [open, close]);
        match &self.think {
            Some((open, _)) if held.starts_with(open) => Front::Open(open.len()),
            Some((_, close)) if held.starts_with(close) => Front::Close(close.len()),
            _ if openers.chain(think).any(|marker| marker.starts_with(held)) => Front::Undecided,
            _ => Front::Text,
        }
    }
}

impl AnswerParser {
    /// A parser at the beginning of an answer.
    pub fn new(tokenizer: &Tokenizer, format: AnswerFormat) -> Result<Self, TextError> {
        let markers = Markers::new(tokenizer, &format);
        let in_reasoning = format.in_reasoning && markers.think.is_some();
        let looks = markers.think.is_some() || markers.calls.is_some();
        Ok(Self {
            reader: SymbolReader::new(tokenizer, markers.all()),
            markers: Arc::new(markers),
            outlet: Outlet::new(&format.stop, format.parallel, looks, in_reasoning)?,
            in_reasoning,
            reasoning_tokens: 0,
            fresh: true,
            held: Vec::new(),
            span: None,
            finished: false,
        })
    }

    /// Takes one id and says what is known now.
    pub fn push(&mut self, id: u32) -> Vec<Piece> {
        if self.finished || self.stopped() {
            return Vec::new();
        }
        let before = self.in_reasoning;
        let symbols = self.reader.push(id);
        self.take(symbols);
        self.reasoning_tokens += usize::from(before || self.in_reasoning);
        self.outlet.take()
    }

    /// Tells the parser that no more ids come: what was held back becomes text. A second time it gives nothing.
    pub fn finish(&mut self) -> Vec<Piece> {
        if self.finished || self.stopped() {
            self.finished = true;
            return Vec::new();
        }
        self.finished = true;
        let rest = self.reader.flush();
        self.take(rest);
        if let Some(span) = self.span.take() {
            // What the end of the answer cuts is looked through for reasoning only.
            self.markers = Arc::new(Markers { think: self.markers.think.clone(), calls: None });
            let mut queue = VecDeque::new();
            self.leave(span, &mut queue);
            self.take(queue);
        }
        for symbol in std::mem::take(&mut self.held) {
            self.write(symbol);
        }
        self.outlet.finish();
        self.outlet.take()
    }

    /// Complete calls so far.
    pub fn calls(&self) -> usize {
        self.outlet.complete()
    }

    /// Whether a block of reasoning is open.
    pub fn in_reasoning(&self) -> bool {
        self.in_reasoning
    }

    /// Ids within blocks of reasoning so far, their markers included.
    pub fn reasoning_tokens(&self) -> usize {
        self.reasoning_tokens
    }

    /// Whether the answer ends here by itself: a stop string is complete, or the only call that may be.
    pub fn stopped(&self) -> bool {
        self.outlet.stopped()
    }

    /// The stop string before which the text was cut.
    pub fn stop_string(&self) -> Option<&str> {
        self.outlet.stop_string()
    }

    fn take(&mut self, symbols: impl Into<VecDeque<Symbol>>) {
        let mut queue = symbols.into();
        while let Some(symbol) = queue.pop_front() {
            if self.stopped() {
                return;
            }
            match self.span.take() {
                Some(span) => self.within(span, symbol, &mut queue),
                None => self.outside(symbol, &mut queue),
            }
        }
    }

    /// A symbol outside of calls.
    fn outside(&mut self, symbol: Symbol, queue: &mut VecDeque<Symbol>) {
        self.held.push(symbol);
        while !self.held.is_empty() {
            match self.markers.front(&self.held) {
                Front::Undecided => return,
                Front::Open(len) => self.reason(true, len),
                Front::Close(len) => self.reason(false, len),
                Front::Call(len) => return self.open(len, queue),
                Front::Text if self.opens_bare(self.held[0]) => return self.open(0, queue),
                Front::Text => {
                    let symbol = self.held.remove(0);
                    self.write(symbol);
                }
            }
        }
    }

    fn opens_bare(&self, symbol: Symbol) -> bool {
        let form = self.markers.calls.as_ref();
        self.fresh && !self.in_reasoning && form.is_some_and(|form| form.opens_bare(symbol))
    }

    fn reason(&mut self, begins: bool, len: usize) {
        self.held.drain(..len);
        self.outlet.mark();
        (self.in_reasoning, self.fresh) = (begins, !begins);
    }

    /// Begins a span of calls after `len` symbols of a marker, or without one.
    fn open(&mut self, len: usize, queue: &mut VecDeque<Symbol>) {
        let Some(form) = &self.markers.calls else { return };
        let rest = self.held.split_off(len);
        let taken = std::mem::take(&mut self.held);
        // Without a marker it is the first symbol that must not open a span again.
        let span = OpenSpan { span: Span::new(form, &taken), opener: len.max(1), taken, within_call: false };
        self.span = Some(span);
        put_back(queue, rest);
    }

    /// A symbol after the opening of a span.
    fn within(&mut self, mut open: OpenSpan, symbol: Symbol, queue: &mut VecDeque<Symbol>) {
        let mut events = Vec::new();
        open.taken.push(symbol);
        let progress = open.span.push(symbol, |symbol| self.spelled(symbol), &mut events);
        for event in events {
            open.within_call = event != CallEvent::End;
            self.outlet.call(event);
        }
        match progress {
            Ok(SpanProgress::Open) => self.span = Some(open),
            Ok(SpanProgress::Settled) => {
                (open.opener, self.fresh) = (0, true);
                open.taken.clear();
                self.span = Some(open);
            }
            Ok(SpanProgress::Closed) => {}
            Err(Broken) => self.leave(open, queue),
        }
    }

    /// What of a span belongs to no call becomes text; another call may begin in it.
    fn leave(&mut self, mut open: OpenSpan, queue: &mut VecDeque<Symbol>) {
        if open.within_call {
            self.outlet.leave_call();
        }
        let rest = open.taken.split_off(open.opener.min(open.taken.len()));
        for symbol in open.taken {
            self.write(symbol);
        }
        put_back(queue, rest);
    }

    fn write(&mut self, symbol: Symbol) {
        let channel = if self.in_reasoning { Channel::Reasoning } else { Channel::Content };
        for c in self.spelled(symbol).chars() {
            self.fresh &= c.is_whitespace();
            self.outlet.text(channel, c);
        }
    }

    fn spelled(&self, symbol: Symbol) -> String {
        let mut text = String::new();
        self.reader.spell(symbol, &mut text);
        text
    }
}

fn put_back(queue: &mut VecDeque<Symbol>, symbols: Vec<Symbol>) {
    for symbol in symbols.into_iter().rev() {
        queue.push_front(symbol);
    }
}

#[cfg(test)]
mod tests;
