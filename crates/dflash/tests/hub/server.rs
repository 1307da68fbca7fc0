//! A server that answers as the Hub does, for a few repositories of a few bytes.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use dflash::obtain::hex;
use sha1::Sha1;
use sha2::{Digest, Sha256};

/// What a client asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    pub method: String,
    pub path: String,
    pub headers: BTreeMap<String, String>,
}

/// What it is told.
#[derive(Debug, Clone, Default)]
pub struct Reply {
    pub status: u16,
    pub headers: Vec<(&'static str, String)>,
    pub body: Vec<u8>,
    /// So many bytes are sent of the announced ones; then the connection ends.
    pub cut: Option<usize>,
    /// The connection then stays open until the client goes.
    pub hold: bool,
}

/// A server on a port of its own; it remembers what it was asked.
pub struct Server {
    pub url: String,
    seen: Arc<Mutex<Vec<Request>>>,
}

impl Request {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    fn read(stream: &TcpStream) -> Option<Self> {
        let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
        let first = lines.next()?;
        let mut words = first.split(' ');
        let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
        let headers = lines.take_while(|line| !line.is_empty()).filter_map(|line| {
            let (name, value) = line.split_once(':')?;
            Some((name.to_lowercase(), value.trim().to_owned()))
        });
        Some(Self { method, path, headers: headers.collect() })
    }
}

impl Reply {
    pub fn status(status: u16) -> Self {
        Self { status, ..Self::default() }
    }

    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    fn send(&self, request: &Request, stream: &mut TcpStream) {
        let mut head = format!("HTTP/1.1 {} X\r\nConnection: close\r\n", self.status);
        for (name, value) in &self.headers {
            head += &format!("{name}: {value}\r\n");
        }
        head += &format!("Content-Length: {}\r\n\r\n", self.body.len());
        let body = if request.method == "HEAD" { &[][..] } else { &self.body };
        // A client that was killed reads no answer.
        let _ = stream.write_all(head.as_bytes());
        let _ = stream.write_all(&body[..self.cut.unwrap_or(body.len()).min(body.len())]);
        if self.hold {
            let _ = stream.read(&mut [0]);
        }
    }
}

impl Server {
    /// Answers with `answer`, which also gets how often the same path was asked for before.
    pub fn start(answer: impl Fn(&Request, usize) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let seen = Arc::new(Mutex::new(Vec::<Request>::new()));
        let (log, answer) = (Arc::clone(&seen), Arc::new(answer));
        std::thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                let (log, answer) = (Arc::clone(&log), Arc::clone(&answer));
                std::thread::spawn(move || {
                    let Some(request) = Request::read(&stream) else { return };
                    let before = {
                        let mut log = log.lock().unwrap();
                        log.push(request.clone());
                        log.iter().filter(|seen| seen.path == request.path).count() - 1
                    };
                    answer(&request, before).send(&request, &mut stream);
                });
            }
        });
        Self { url, seen }
    }

    /// Everything it was asked.
    pub fn seen(&self) -> Vec<Request> {
        self.seen.lock().unwrap().clone()
    }

    /// What it was asked for paths that end with `end`.
    pub fn seen_of(&self, end: &str) -> Vec<Request> {
        self.seen().into_iter().filter(|request| request.path.ends_with(end)).collect()
    }
}

/// A repository of the Hub.
#[derive(Debug, Clone)]
pub struct Repo {
    pub id: &'static str,
    pub files: Vec<(&'static str, Vec<u8>)>,
    /// `models` or `datasets`.
    pub kind: &'static str,
    /// Whether the listing says sizes and hashes.
    pub says_contents: bool,
}

pub const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

impl Repo {
    pub fn new(id: &'static str, files: &[(&'static str, &[u8])]) -> Self {
        let files = files.iter().map(|(name, content)| (*name, content.to_vec())).collect();
        Self { id, files, kind: "models", says_contents: true }
    }

    /// The same files as a dataset.
    pub fn dataset(self) -> Self {
        Self { kind: "datasets", ..self }
    }

    /// The answer to `request`, where it is about this repository.
    pub fn answer(&self, request: &Request) -> Option<Reply> {
        let path = request.path.split('?').next()?;
        let listings =
            ["main", COMMIT].map(|revision| format!("/api/{}/{}/revision/{revision}", self.kind, self.id));
        if listings.iter().any(|listing| listing == path) {
            return Some(Reply { status: 200, body: self.listing().into_bytes(), ..Reply::default() });
        }
        if path.starts_with(&format!("/api/{}/{}/", self.kind, self.id)) {
            return Some(Reply::status(404).with("X-Error-Code", "RevisionNotFound"));
        }
        let place = if self.kind == "models" { "" } else { "/datasets" };
        let name = path.strip_prefix(&format!("{place}/{}/resolve/{COMMIT}/", self.id))?;
        let (_, content) = self.files.iter().find(|(file, _)| *file == name)?;
        Some(content_reply(content, request).with("ETag", format!("\"{}\"", etag(name, content))))
    }

    fn listing(&self) -> String {
        let siblings: Vec<_> = self.files.iter().map(|(name, content)| self.sibling(name, content)).collect();
        format!(r#"{{"id":"{}","sha":"{COMMIT}","siblings":[{}]}}"#, self.id, siblings.join(","))
    }

    fn sibling(&self, name: &str, content: &[u8]) -> String {
        let (size, etag) = (content.len(), etag(name, content));
        match (self.says_contents, is_large(name)) {
            (false, _) => format!(r#"{{"rfilename":"{name}"}}"#),
            (true, false) => format!(r#"{{"rfilename":"{name}","size":{size},"blobId":"{etag}"}}"#),
            (true, true) => {
                let lfs = format!(r#"{{"sha256":"{etag}","size":{size},"pointerSize":134}}"#);
                format!(r#"{{"rfilename":"{name}","size":{size},"blobId":"{:040}","lfs":{lfs}}}"#, 0)
            }
        }
    }
}

/// Serves repositories as they are.
pub fn serve(repos: Vec<Repo>) -> Server {
    Server::start(move |request, _| plain(&repos, request))
}

/// The Hub's answer, or that there is no such repository.
pub fn plain(repos: &[Repo], request: &Request) -> Reply {
    let answer = repos.iter().find_map(|repo| repo.answer(request));
    answer.unwrap_or_else(|| Reply::status(404).with("X-Error-Code", "RepoNotFound"))
}

/// All of `content`, or what `Range` asks for.
pub fn content_reply(content: &[u8], request: &Request) -> Reply {
    let from = request.header("range").and_then(|range| range.strip_prefix("bytes=")?.strip_suffix('-'));
    match from.map(|from| from.parse::<usize>().unwrap()) {
        None => Reply { status: 200, body: content.to_vec(), ..Reply::default() },
        Some(from) if from >= content.len() => Reply::status(416),
        Some(from) => {
            let range = format!("bytes {from}-{}/{}", content.len() - 1, content.len());
            let part = Reply { status: 206, body: content[from..].to_vec(), ..Reply::default() };
            part.with("Content-Range", range)
        }
    }
}

fn is_large(name: &str) -> bool {
    [".safetensors", ".gguf", ".parquet"].iter().any(|end| name.ends_with(end))
}

/// The name of a content: SHA-256 of a large one, git's object id of a small one.
pub fn etag(name: &str, content: &[u8]) -> String {
    match is_large(name) {
        true => hex(&Sha256::digest(content)),
        false => hex(&Sha1::digest([format!("blob {}\0", content.len()).as_bytes(), content].concat())),
    }
}
