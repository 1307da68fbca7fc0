//! One content on its way into the cache: resumed where it stopped, checked, then named.
//!
//! What arrives is appended to `ETAG.incomplete`, so a run that is killed at any moment leaves what the next
//! one goes on with, and nothing has to be tidied up.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use ureq::http::header::CONTENT_RANGE;
use ureq::http::{Response, StatusCode};

use super::client::Client;
use super::digest::Digest;
use super::listing::Content;
use super::lock::Lock;
use super::{HubError, place};
use crate::progress::{Progress, Step};

/// A content to be brought into the cache.
pub(super) struct Blob<'a> {
    pub(super) client: &'a Client<'a>,
    pub(super) progress: Progress,
    /// The file's name in its repository.
    pub(super) name: &'a str,
    /// How its progress is called.
    pub(super) label: String,
    pub(super) content: &'a Content,
    /// Where the server has it.
    pub(super) url: String,
}

/// How one connection ended.
enum End {
    /// All bytes are here; their hash, where there is one to compare.
    Whole(Option<String>),
    /// It has more bytes than announced.
    TooLong,
    /// So many bytes are here.
    Cut(u64),
}

const CHUNK: usize = 1 << 20;

impl Blob<'_> {
    /// Makes `link` lead to the content, which lies at `blob`; `lock` is the content's lock file.
    pub(super) fn bring(&self, blob: &Path, lock: &Path, link: &Path) -> Result<(), HubError> {
        if self.is_at(link) {
            return Ok(());
        }
        let _lock = Lock::acquire(lock, self.progress)?;
        // Whoever had the lock may have placed it, and be reading it: it must not go away for a moment.
        if self.is_at(link) {
            return Ok(());
        }
        if !self.is_at(blob) {
            self.download(blob).map_err(|error| error.of_size(self.content.size))?;
        }
        place::link(blob, link)
    }

    fn is_at(&self, path: &Path) -> bool {
        path.metadata().is_ok_and(|meta| meta.is_file() && meta.len() == self.content.size)
    }

    fn download(&self, blob: &Path) -> Result<(), HubError> {
        let dir = blob.parent().unwrap_or(blob);
        fs::create_dir_all(dir).map_err(HubError::io("create", dir))?;
        let part = part_of(blob);
        if let Some(found) = self.wrong_hash(&part)? {
            self.progress.note(&format!("{} arrived damaged; fetching it once more", self.name));
            remove(&part)?;
            if self.wrong_hash(&part)?.is_some() {
                remove(&part)?;
                let (file, wanted) = (self.name.to_owned(), self.content.etag.clone());
                return Err(HubError::WrongHash { file, wanted, found });
            }
        }
        match fs::rename(&part, blob) {
            // Where there are no locks, another process may have been quicker.
            Err(_) if self.is_at(blob) => Ok(()),
            renamed => renamed.map_err(HubError::io("move the file to", blob)),
        }
    }

    /// Brings all bytes into `part`; what their hash is where it is not the announced one.
    fn wrong_hash(&self, part: &Path) -> Result<Option<String>, HubError> {
        let step = self.progress.step(&self.label, self.content.size);
        let (mut failed, mut best) = (0, length(part));
        loop {
            match self.go_on(part, &step)? {
                End::Whole(found) => return Ok(found.filter(|found| *found != self.content.etag)),
                End::TooLong => return Ok(Some(format!("of more than {} bytes", self.content.size))),
                End::Cut(got) if got > best => (failed, best) = (0, got),
                End::Cut(_) => {}
            }
            self.client.wait(failed, None, self.cut_short(best))?;
            failed += 1;
        }
    }

    fn cut_short(&self, got: u64) -> HubError {
        let (file, size) = (self.name.to_owned(), self.content.size);
        HubError::CutShort { file, got, size }
    }

    /// One connection's worth.
    fn go_on(&self, part: &Path, step: &Step) -> Result<End, HubError> {
        let mut sink = Sink::open(part, self.content, step)?;
        if sink.have < self.content.size {
            let answer = self.client.content(&self.url, sink.have)?;
            let answer = if sink.have == 0 || continues(&answer, sink.have) {
                answer
            } else {
                let whole = answer.status() == StatusCode::OK;
                sink.restart()?;
                if whole { answer } else { self.client.content(&self.url, 0)? }
            };
            sink.fill(&mut answer.into_body().into_reader())?;
        }
        sink.end()
    }
}

/// The file that grows.
struct Sink<'a> {
    path: &'a Path,
    file: File,
    content: &'a Content,
    digest: Digest,
    have: u64,
    step: &'a Step,
}

impl<'a> Sink<'a> {
    /// Opens what is here already and hashes it.
    fn open(path: &'a Path, content: &'a Content, step: &'a Step) -> Result<Self, HubError> {
        let file = File::options().create(true).truncate(false).read(true).append(true).open(path);
        let file = file.map_err(HubError::io("open", path))?;
        let digest = Digest::of_kind(&content.etag, content.size);
        let mut sink = Self { path, file, content, digest, have: 0, step };
        if length(path) > content.size {
            sink.restart()?;
        }
        sink.hash_what_is_here()?;
        Ok(sink)
    }

    fn hash_what_is_here(&mut self) -> Result<(), HubError> {
        let mut chunk = vec![0; CHUNK];
        while self.have < length(self.path) {
            match self.file.read(&mut chunk).map_err(HubError::io("read", self.path))? {
                0 => break,
                read => self.take_in(&chunk[..read]),
            }
        }
        Ok(())
    }

    fn take_in(&mut self, bytes: &[u8]) {
        self.digest.update(bytes);
        self.have += bytes.len() as u64;
        self.step.set(self.have);
    }

    fn restart(&mut self) -> Result<(), HubError> {
        self.file.set_len(0).map_err(HubError::io("empty", self.path))?;
        self.digest = Digest::of_kind(&self.content.etag, self.content.size);
        self.have = 0;
        Ok(())
    }

    /// Appends what `source` gives until it ends or breaks: both are the same to the caller.
    fn fill(&mut self, source: &mut dyn Read) -> Result<(), HubError> {
        let mut chunk = vec![0; CHUNK];
        while let Ok(read @ 1..) = source.read(&mut chunk) {
            self.file.write_all(&chunk[..read]).map_err(HubError::io("write", self.path))?;
            self.take_in(&chunk[..read]);
            if self.have > self.content.size {
                break;
            }
        }
        Ok(())
    }

    fn end(self) -> Result<End, HubError> {
        match self.have.cmp(&self.content.size) {
            std::cmp::Ordering::Less => Ok(End::Cut(self.have)),
            std::cmp::Ordering::Greater => Ok(End::TooLong),
            std::cmp::Ordering::Equal => {
                self.file.sync_all().map_err(HubError::io("flush", self.path))?;
                Ok(End::Whole(self.digest.finish()))
            }
        }
    }
}

/// Whether an answer begins at byte `from`, as it was asked to.
fn continues<T>(answer: &Response<T>, from: u64) -> bool {
    let range = answer.headers().get(CONTENT_RANGE).and_then(|value| value.to_str().ok());
    answer.status() == StatusCode::PARTIAL_CONTENT
        && range.is_some_and(|range| range.trim().starts_with(&format!("bytes {from}-")))
}

fn part_of(blob: &Path) -> PathBuf {
    let name = blob.file_name().unwrap_or_default().to_string_lossy();
    blob.with_file_name(format!("{name}.incomplete"))
}

fn length(path: &Path) -> u64 {
    path.metadata().map_or(0, |meta| meta.len())
}

fn remove(path: &Path) -> Result<(), HubError> {
    fs::remove_file(path).map_err(HubError::io("remove", path))
}
