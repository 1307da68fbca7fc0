use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::Receiver;

use serde_json::Value;
use tracing::warn;

use super::summary::Summary;

/// Something to keep.
pub enum Entry {
    /// An answer that is over.
    Answer(Value),
    /// A cycle of one.
    Cycle(Value),
    /// What the prefix cache had for one.
    Lookup(Value),
}

/// Writes on a thread of its own. A file that cannot be written any more is left alone; the others go on.
pub struct Writer {
    answers: Lines,
    lookups: Lines,
    cycles: Option<Lines>,
    summary: Summary,
    summary_at: PathBuf,
    left_out: Arc<AtomicU64>,
}

/// Where it writes.
pub struct Files {
    /// Answers that are over.
    pub answers: File,
    /// What the prefix cache had for them.
    pub lookups: File,
    /// Their cycles.
    pub cycles: Option<File>,
    /// The last answers as a table.
    pub summary: PathBuf,
}

/// A file of JSON lines, while it can be written.
struct Lines(Option<BufWriter<File>>);

impl Writer {
    /// Over open files.
    pub fn new(files: Files, left_out: Arc<AtomicU64>) -> Self {
        let Files { answers, lookups, cycles, summary: summary_at } = files;
        let lines = |file| Lines(Some(BufWriter::new(file)));
        Self {
            answers: lines(answers),
            lookups: lines(lookups),
            cycles: cycles.map(lines),
            summary: Summary::default(),
            summary_at,
            left_out,
        }
    }

    /// Until nobody is left who could send anything.
    pub fn run(mut self, inbox: &Receiver<Entry>) {
        while let Ok(entry) = inbox.recv() {
            self.write(entry);
            while let Ok(entry) = inbox.try_recv() {
                self.write(entry);
            }
            self.flush();
        }
    }

    fn write(&mut self, entry: Entry) {
        let written = match &entry {
            Entry::Answer(answer) => {
                self.summary.push(answer);
                self.answers.push(answer)
            }
            Entry::Lookup(lookup) => self.lookups.push(lookup),
            Entry::Cycle(cycle) => self.cycles.as_mut().is_some_and(|cycles| cycles.push(cycle)),
        };
        if !written {
            self.left_out.fetch_add(1, Relaxed);
        }
    }

    fn flush(&mut self) {
        self.answers.settle(io::Write::flush);
        self.lookups.settle(io::Write::flush);
        if let Some(cycles) = &mut self.cycles {
            cycles.settle(io::Write::flush);
        }
        // A summary that cannot be written is written the next time.
        let _ = fs::write(&self.summary_at, self.summary.text(self.left_out.load(Relaxed)));
    }
}

impl Lines {
    /// Whether it could be written.
    fn push(&mut self, value: &Value) -> bool {
        self.settle(|file| writeln!(file, "{value}"))
    }

    fn settle(&mut self, work: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>) -> bool {
        let Some(file) = &mut self.0 else { return false };
        let done = work(file);
        if let Err(error) = &done {
            warn!(%error, "diagnostics cannot be written any more; answers go on");
            // What is buffered cannot be written either.
            let _ = self.0.take().map(BufWriter::into_parts);
        }
        done.is_ok()
    }
}
