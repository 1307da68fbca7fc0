//! What the server says on stderr while it runs: lines for people, or JSON for machines.

use std::fmt::{self, Debug, Write};
use std::io;

use tracing::field::{Field, Visit};
pub use tracing::level_filters::LevelFilter;
use tracing::{Event, Subscriber, debug, info, warn};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, MakeWriter};
use tracing_subscriber::registry::LookupSpan;

use crate::metrics::{Ended, Memory, Outcome};

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
    let _ = tracing::subscriber::set_global_default(subscriber(format, level, io::stderr));
}

fn subscriber<W>(format: LogFormat, level: LevelFilter, to: W) -> Box<dyn Subscriber + Send + Sync>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let lines = tracing_subscriber::fmt().with_max_level(level).with_writer(to);
    match format {
        LogFormat::Text => Box::new(lines.event_format(Line).finish()),
        LogFormat::Json => Box::new(lines.json().flatten_event(true).with_current_span(false).finish()),
    }
}

/// A prompt begins its way; only where logs may hold prompts.
pub fn prompt(request_id: &str, prompt: &str) {
    info!(request_id, prompt, "prompt");
}

/// More of a prompt was read.
pub(crate) fn prefill(request_id: &str, done: usize, total: usize) {
    debug!(request_id, done, total, "prefill");
}

/// An answer is over.
pub(crate) fn answered(ended: &Ended) {
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
    let Memory { rss, peak } = Memory::now();
    debug!(request_id = facts.id, rss_bytes = rss, rss_peak_bytes = peak, "memory");
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

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use dflash_engine::Decoding;
    use serde_json::Value;

    use super::*;
    use crate::metrics::{Metrics, RequestFacts, scripted};

    #[derive(Clone, Default)]
    struct Page(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Page {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// What is written of a complete answer, one that was left and an event of others.
    fn written(format: LogFormat, level: LevelFilter) -> String {
        let page = Page::default();
        let to = page.clone();
        tracing::subscriber::with_default(subscriber(format, level, move || to.clone()), || {
            let metrics = Metrics::default();
            let facts =
                RequestFacts { id: "chat-1".into(), api: "chat", stream: true, ..RequestFacts::default() };
            scripted::answer(&mut metrics.observe(&facts, 0, Decoding::Speculative));
            scripted::begin(&mut metrics.observe(&facts, 0, Decoding::Speculative));
            info!(bytes = 7, name = "a\nb", "something else");
        });
        let bytes = page.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn people_read_a_sentence_for_every_answer() {
        let text = written(LogFormat::Text, LevelFilter::INFO);
        let lines: Vec<&str> = text.lines().map(|line| line.split_once(' ').unwrap().1).collect();
        assert!(
            lines[0]
                .starts_with("INFO  chat-1 chat (stream) stop: prompt 0, 9 tokens, queued 0.250 s, first ")
        );
        assert!(lines[0].ends_with(", 4.0 tok/s, 3.00 tokens/cycle, 56 % accepted"), "{}", lines[0]);
        assert!(lines[1].starts_with("INFO  chat-1 chat (stream) cancelled: "), "{}", lines[1]);
        assert_eq!(lines[2], r#"INFO  something else bytes=7 name="a\nb""#);
        assert_eq!(lines.len(), 3);
        assert!(written(LogFormat::Text, LevelFilter::DEBUG).contains("DEBUG memory "));
    }

    #[test]
    fn machines_read_fields() {
        let text = written(LogFormat::Json, LevelFilter::INFO);
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let answer = &lines[0];
        assert_eq!((&answer["request_id"], &answer["finish"]), (&"chat-1".into(), &"stop".into()));
        assert_eq!((&answer["generated_tokens"], &answer["widths"]), (&9.into(), &"1:1 4:1 8:1".into()));
        assert_eq!((&answer["client_gone"], &lines[1]["client_gone"]), (&false.into(), &true.into()));
        assert_eq!((&answer["queue_s"], &answer["tok_s"]), (&0.25.into(), &4.0.into()));
    }

    #[test]
    fn levels_are_known_by_both_names() {
        assert_eq!((level("WARNING"), level("Info")), (Some(LevelFilter::WARN), Some(LevelFilter::INFO)));
        assert_eq!((level("loud"), LogFormat::named("xml")), (None, None));
    }
}
