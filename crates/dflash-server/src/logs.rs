//! What the server says on stderr while it runs: lines for people, or JSON for machines.

use std::fmt::{self, Debug, Write};
use std::io;

use tracing::field::{Field, Visit};
pub use tracing::level_filters::LevelFilter;
use tracing::{Event, Subscriber, info, warn};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use crate::metrics::{Ended, Outcome};

/// Lines about answers; what their fields say stands in their message too.
const ANSWERS: &str = "dflash::answer";

/// How lines are written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One object a line.
    Json,
}

impl LogFormat {
    /// By its name, `text` or `json`.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "text" => Some(Self::Text),
            "json" => Some(Self::Json),
            _ => None,
        }
    }
}

/// The least important lines that are written, by a level's name in any case; Python's names are known too.
pub fn level(name: &str) -> Option<LevelFilter> {
    match name.to_ascii_lowercase().as_str() {
        "trace" => Some(LevelFilter::TRACE),
        "debug" => Some(LevelFilter::DEBUG),
        "info" => Some(LevelFilter::INFO),
        "warn" | "warning" => Some(LevelFilter::WARN),
        "error" | "critical" => Some(LevelFilter::ERROR),
        "off" => Some(LevelFilter::OFF),
        _ => None,
    }
}

/// Begins to write lines on stderr. A process that writes already goes on as it does.
pub fn init(format: LogFormat, level: LevelFilter) {
    let lines = tracing_subscriber::fmt().with_max_level(level).with_writer(io::stderr);
    let _ = match format {
        LogFormat::Text => lines.event_format(Line).try_init(),
        LogFormat::Json => lines.json().flatten_event(true).with_current_span(false).try_init(),
    };
}

/// A prompt begins its way; only where logs may hold prompts.
pub fn prompt(request_id: &str, prompt: &str) {
    info!(request_id, prompt, "prompt");
}

/// An answer is over.
pub fn answered(ended: &Ended) {
    let (progress, facts) = (&ended.progress, &ended.progress.facts);
    let widths: Vec<String> =
        progress.widths.iter().map(|(width, cycles)| format!("{width}:{cycles}")).collect();
    info!(
        target: ANSWERS,
        request_id = facts.id,
        answer = progress.answer,
        api = facts.api,
        stream = facts.stream,
        finish = ended.outcome.name(),
        client_gone = ended.outcome == Outcome::Cancelled,
        prompt_tokens = facts.prompt_tokens,
        generated_tokens = progress.generated,
        queue_s = progress.queue_s,
        ttft_s = progress.ttft_s(),
        total_s = ended.wall_s,
        tok_s = ended.tokens_per_second(),
        tokens_per_cycle = progress.tokens_per_cycle(),
        acceptance = progress.acceptance(),
        drafted_tokens = progress.drafted,
        accepted_tokens = progress.accepted,
        widths = widths.join(" "),
        "{}",
        Sentence(ended),
    );
    if let Some(error) = &ended.error {
        warn!(request_id = facts.id, error, "an answer failed");
    }
}

/// An answer in one line.
struct Sentence<'a>(&'a Ended);

impl fmt::Display for Sentence<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(ended) = self;
        let (progress, facts) = (&ended.progress, &ended.progress.facts);
        let stream = if facts.stream { " (stream)" } else { "" };
        write!(f, "{} {}{stream} {}: ", facts.id, facts.api, ended.outcome.name())?;
        write!(f, "prompt {}, {} tokens", facts.prompt_tokens, progress.generated)?;
        if let Some(queue_s) = progress.queue_s.filter(|&seconds| seconds >= 0.001) {
            write!(f, ", queued {queue_s:.3} s")?;
        }
        if let Some(ttft_s) = progress.ttft_s() {
            write!(f, ", first after {ttft_s:.3} s")?;
        }
        write!(f, ", {:.2} s in all", ended.wall_s)?;
        if progress.cycles > 0 {
            write!(f, ", {:.1} tok/s", ended.tokens_per_second())?;
            write!(f, ", {:.2} tokens/cycle", progress.tokens_per_cycle())?;
            write!(f, ", {:.0} % accepted", 100.0 * progress.acceptance())?;
        }
        Ok(())
    }
}

/// A line for people: time, level, message, then the fields that the message does not tell.
struct Line;

impl<S, N> FormatEvent<S, N> for Line
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut to: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        SystemTime.format_time(&mut to)?;
        write!(to, " {:<5} ", event.metadata().level())?;
        let mut words = Words { message: String::new(), fields: String::new() };
        event.record(&mut words);
        let fields = if event.metadata().target() == ANSWERS { "" } else { &words.fields };
        writeln!(to, "{}{fields}", words.message)
    }
}

/// What an event says.
struct Words {
    message: String,
    fields: String,
}

impl Visit for Words {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }
}
