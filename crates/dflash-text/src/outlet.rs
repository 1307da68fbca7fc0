//! The last step of an answer: stop strings, blanks beside markers, and pieces that grow together.

use crate::tool_format::CallEvent;
use crate::{Piece, StopStrings, TextError};

/// Where text belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Channel {
    Reasoning,
    Content,
}

/// Collects what is visible and cuts it before a stop string.
///
/// A stop string has to stand within one run of text: a marker ends what looked like the beginning of one. Blanks
/// next to a marker are no part of the text, unless more of the same text follows: then they keep its words apart,
/// those before the marker if there are any.
#[derive(Debug, Clone)]
pub(crate) struct Outlet {
    pieces: Vec<Piece>,
    stops: StopStrings,
    channel: Channel,
    /// Whether blanks wait for what follows them.
    holds_blanks: bool,
    /// By channel.
    runs: [Run; 2],
    after_mark: bool,
    started: usize,
    complete: usize,
    parallel: bool,
    stopped: bool,
}

/// Where the text of a channel stands.
#[derive(Debug, Clone, Default)]
struct Run {
    /// Whether anything has been shown.
    begun: bool,
    /// Blanks that are shown if more follows.
    gap: String,
    /// Whether the gap stands before a marker, and those after it do not count.
    closed: bool,
}

impl Outlet {
    pub fn new(
        stop: &[String],
        parallel: bool,
        holds_blanks: bool,
        after_mark: bool,
    ) -> Result<Self, TextError> {
        Ok(Self {
            pieces: Vec::new(),
            stops: StopStrings::new(stop)?,
            channel: Channel::Content,
            holds_blanks,
            runs: Default::default(),
            after_mark,
            started: 0,
            complete: 0,
            parallel,
            stopped: false,
        })
    }

    /// What is known since the last time.
    pub fn take(&mut self) -> Vec<Piece> {
        std::mem::take(&mut self.pieces)
    }

    /// Calls that are complete.
    pub fn complete(&self) -> usize {
        self.complete
    }

    /// Whether nothing comes any more.
    pub fn stopped(&self) -> bool {
        self.stopped
    }

    /// The stop string that has ended the text.
    pub fn stop_string(&self) -> Option<&str> {
        self.stops.complete()
    }

    /// Shows one more character.
    pub fn text(&mut self, channel: Channel, c: char) {
        if self.stopped {
            return;
        }
        self.channel = channel;
        if self.after_mark && c.is_whitespace() {
            let run = self.run();
            if run.begun && !run.closed {
                run.gap.push(c);
            }
            return;
        }
        self.after_mark = false;
        self.run().closed = false;
        let push = self.stops.push(c.encode_utf8(&mut [0; 4]));
        self.show(&push.emit);
        if push.stopped {
            self.show_gap();
            self.stopped = true;
        }
    }

    /// A marker: what is held back is no stop string.
    pub fn mark(&mut self) {
        let held = self.stops.flush();
        self.show(&held);
        let run = self.run();
        if !run.begun {
            run.gap.clear();
        }
        run.closed = !run.gap.is_empty();
        self.after_mark = true;
    }

    /// Something about a call.
    pub fn call(&mut self, event: CallEvent) {
        if self.stopped {
            return;
        }
        match event {
            CallEvent::Start(name) => {
                self.mark();
                self.pieces.push(Piece::CallStart { index: self.started, name });
                self.started += 1;
            }
            CallEvent::Arguments(json) => {
                let push = self.stops.push(&json);
                self.arguments(push.emit);
                self.stopped = push.stopped;
            }
            CallEvent::End => {
                self.leave_call();
                self.pieces.push(Piece::CallEnd { index: self.started - 1 });
                self.complete += 1;
                self.stopped = !self.parallel;
            }
        }
    }

    /// The call ends here, complete or not.
    pub fn leave_call(&mut self) {
        let held = self.stops.flush();
        self.arguments(held);
        self.after_mark = true;
    }

    /// No more comes.
    pub fn finish(&mut self) {
        let held = self.stops.flush();
        self.show(&held);
        if !self.after_mark {
            self.show_gap();
        }
    }

    fn run(&mut self) -> &mut Run {
        &mut self.runs[self.channel as usize]
    }

    fn arguments(&mut self, json: String) {
        let index = self.started - 1;
        match self.pieces.last_mut() {
            _ if json.is_empty() => {}
            Some(Piece::CallArguments { json: last, .. }) => *last += &json,
            _ => self.pieces.push(Piece::CallArguments { index, json }),
        }
    }

    fn show(&mut self, text: &str) {
        let solid = if self.holds_blanks { text.trim_end() } else { text };
        if !solid.is_empty() {
            self.show_gap();
            self.push(solid);
        }
        self.run().gap += &text[solid.len()..];
    }

    fn show_gap(&mut self) {
        let gap = std::mem::take(&mut self.run().gap);
        self.push(&gap);
    }

    fn push(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        self.run().begun = true;
        match (self.channel, self.pieces.last_mut()) {
            (Channel::Content, Some(Piece::Content(last))) => *last += text,
            (Channel::Reasoning, Some(Piece::Reasoning(last))) => *last += text,
            (Channel::Content, _) => self.pieces.push(Piece::Content(text.to_owned())),
            (Channel::Reasoning, _) => self.pieces.push(Piece::Reasoning(text.to_owned())),
        }
    }
}
