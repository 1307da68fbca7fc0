//! What a server did, kept in a folder: answers and, if asked for, every cycle. It never costs a request: what cannot be
//! written in time is left out and counted.

mod level;
mod summary;
mod writer;

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{SystemTime, UNIX_EPOCH};

use dflash_engine::Cycle;
use serde_json::{Value, json};

pub use level::DiagnosticsLevel;

use crate::metrics::{Ended, Memory, Progress};
use writer::{Entry, Files, Writer};

/// Entries that may wait to be written.
const WAITING: usize = 8192;

/// The way to the folder. Clones share it; the last one waits until everything is written.
#[derive(Clone)]
pub struct Diagnostics(Arc<Open>);

struct Open {
    level: DiagnosticsLevel,
    entries: Mutex<Option<SyncSender<Entry>>>,
    left_out: Arc<AtomicU64>,
    writer: Mutex<Option<JoinHandle<()>>>,
}

impl Diagnostics {
    /// Makes the folder and writes down how the server was called and what its settings came to. Lines are added to
    /// those of an earlier run.
    ///
    /// # Errors
    /// A folder that cannot be written.
    pub fn open(dir: &Path, level: DiagnosticsLevel, invocation: &Value, config: &Value) -> io::Result<Self> {
        fs::create_dir_all(dir)?;
        let file = |name: &str| File::options().create(true).append(true).open(dir.join(name));
        write_json(dir, "invocation.json", invocation)?;
        write_json(dir, "effective_config.json", config)?;
        let mut names = vec!["invocation.json", "effective_config.json", "summary.md"];
        names.extend(["post_events.jsonl", "cache_events.jsonl"]);
        let cycles = match level {
            DiagnosticsLevel::Basic => None,
            DiagnosticsLevel::Full => {
                names.push("cycle_events.jsonl");
                Some(file("cycle_events.jsonl")?)
            }
        };
        let manifest = json!({
            "kind": "serve",
            "started": now(),
            "dflash_version": env!("CARGO_PKG_VERSION"),
            "platform": format!("{}-{}", std::env::consts::OS, std::env::consts::ARCH),
            "level": level.name(),
            "files": names,
            "output_schema_version": 1,
        });
        write_json(dir, "manifest.json", &manifest)?;
        let left_out = Arc::new(AtomicU64::new(0));
        let files = Files {
            answers: file("post_events.jsonl")?,
            lookups: file("cache_events.jsonl")?,
            cycles,
            summary: dir.join("summary.md"),
        };
        let writer = Writer::new(files, Arc::clone(&left_out));
        let (entries, inbox) = sync_channel(WAITING);
        let thread = Builder::new().name("dflash-diagnostics".into()).spawn(move || writer.run(&inbox))?;
        let (entries, writer) = (Mutex::new(Some(entries)), Mutex::new(Some(thread)));
        Ok(Self(Arc::new(Open { level, entries, left_out, writer })))
    }

    /// How much is kept.
    pub fn level(&self) -> DiagnosticsLevel {
        self.0.level
    }

    /// A cycle ended.
    pub(crate) fn cycle(&self, progress: &Progress, cycle: &Cycle) {
        if self.0.level == DiagnosticsLevel::Full {
            self.put(Entry::Cycle(json!({
                "ts": now(),
                "request_id": progress.facts.id,
                "answer": progress.answer,
                "cycle": progress.cycles,
                "draft_source": cycle.proposer.unwrap_or("none"),
                "block_len": cycle.width,
                "depth": cycle.depth,
                "acceptance_len": cycle.accepted,
                "commit_count": cycle.committed,
                "generated_tokens": progress.generated,
                "since_begin_us": (progress.elapsed_s() * 1e6) as u64,
            })));
        }
    }

    /// An answer is over.
    pub(crate) fn answered(&self, ended: &Ended) {
        if let Some(stats) = &ended.stats
            && let Some(lookup) = stats.prefix
        {
            self.put(Entry::Lookup(json!({
                "ts": now(),
                "request_id": ended.progress.facts.id,
                "answer": ended.progress.answer,
                "found": lookup.found.name(),
                "tier": lookup.place(),
                "prompt_tokens": stats.prompt_tokens,
                "restored_tokens": stats.cached_tokens,
            })));
        }
        let mut record = ended.record();
        record["ts"] = now().into();
        if self.0.level == DiagnosticsLevel::Full {
            let Memory { rss, peak } = Memory::now();
            record["memory"] = json!({"rss_bytes": rss, "rss_peak_bytes": peak});
        }
        self.put(Entry::Answer(record));
    }

    fn put(&self, entry: Entry) {
        let entries = self.0.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if entries.as_ref().is_none_or(|entries| entries.try_send(entry).is_err()) {
            self.0.left_out.fetch_add(1, Relaxed);
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        // Without a sender the writer ends what it has and goes.
        drop(self.entries.get_mut().unwrap_or_else(PoisonError::into_inner).take());
        if let Some(writer) = self.writer.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            let _ = writer.join();
        }
    }
}

/// Seconds since 1970.
fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |passed| passed.as_secs_f64())
}

fn write_json(dir: &Path, name: &str, value: &Value) -> io::Result<()> {
    fs::write(dir.join(name), format!("{value:#}\n"))
}

#[cfg(test)]
mod tests {
    use dflash_engine::Decoding;

    use super::*;
    use crate::metrics::{Metrics, RequestFacts, scripted};

    fn files_of(level: DiagnosticsLevel) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let diagnostics =
            Diagnostics::open(dir.path(), level, &json!({"argv": ["serve"]}), &json!({"port": 1}));
        let metrics = Metrics::new(Some(diagnostics.unwrap()));
        let facts = RequestFacts { id: "chat-1".into(), api: "chat", ..RequestFacts::default() };
        scripted::answer(&mut metrics.observe(&facts, 0, Decoding::Speculative));
        drop(metrics.observe(&RequestFacts { id: "a|b".into(), ..facts }, 0, Decoding::Plain));
        dir
    }

    fn lines(dir: &Path, name: &str) -> Vec<Value> {
        let text = fs::read_to_string(dir.join(name)).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[test]
    fn every_answer_has_a_line_and_a_row() {
        let dir = files_of(DiagnosticsLevel::Basic);
        let posts = lines(dir.path(), "post_events.jsonl");
        let ends: Vec<_> = posts.iter().map(|post| post["finish_reason"].as_str().unwrap()).collect();
        assert_eq!(ends, ["stop", "cancelled"]);
        assert!(posts.iter().all(|post| post["ts"].as_f64().unwrap() > 1e9 && post["memory"].is_null()));
        let summary = fs::read_to_string(dir.path().join("summary.md")).unwrap();
        assert!(summary.contains("| chat-1 | chat |") && summary.contains("| a\\|b | chat |"), "{summary}");
        assert!(!dir.path().join("cycle_events.jsonl").exists());
        let lookups = lines(dir.path(), "cache_events.jsonl");
        assert_eq!(lookups.len(), 1);
        assert_eq!((&lookups[0]["found"], &lookups[0]["tier"]), (&json!("beginning"), &json!("disk")));
        assert_eq!((&lookups[0]["prompt_tokens"], &lookups[0]["restored_tokens"]), (&json!(5), &json!(3)));
        for name in ["manifest.json", "invocation.json", "effective_config.json", "cache_events.jsonl"] {
            assert!(dir.path().join(name).exists(), "{name}");
        }
    }

    #[test]
    fn full_has_every_cycle_and_the_memory() {
        let dir = files_of(DiagnosticsLevel::Full);
        let cycles = lines(dir.path(), "cycle_events.jsonl");
        let accepted: Vec<_> = cycles.iter().map(|cycle| cycle["acceptance_len"].as_u64().unwrap()).collect();
        assert_eq!(accepted, [3, 0, 2]);
        assert!(lines(dir.path(), "post_events.jsonl")[0]["memory"].is_object());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_costs_no_request() {
        let left_out = Arc::new(AtomicU64::new(0));
        let full = || File::options().write(true).open("/dev/full").unwrap();
        let files =
            Files { answers: full(), lookups: full(), cycles: Some(full()), summary: "/dev/full".into() };
        let writer = Writer::new(files, Arc::clone(&left_out));
        let (entries, inbox) = sync_channel(8);
        for _ in 0..3 {
            entries.send(Entry::Answer(json!({"request_id": "x".repeat(100_000)}))).unwrap();
        }
        drop(entries);
        writer.run(&inbox);
        assert_eq!(left_out.load(Relaxed), 3);
    }
}
