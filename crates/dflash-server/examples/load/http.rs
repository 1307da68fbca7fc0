use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::args::Args;

/// What a request for one answer came to.
pub struct Reply {
    /// All of it.
    pub text: String,
    /// Of the ids, where the server tells it.
    pub hash: Option<String>,
    /// By the server's count.
    pub tokens: usize,
    /// To the first text.
    pub first: Duration,
    /// From one delivery of text to the next.
    pub gaps: Vec<Duration>,
    /// To the end.
    pub all: Duration,
}

/// Why there is no answer.
pub enum Failure {
    /// The queue is full.
    Busy,
    /// Everything else.
    Wrong(String),
}

/// How a stream is read.
#[derive(Clone, Copy, Default)]
pub struct Manner {
    /// Time between two readings.
    pub pause: Option<Duration>,
    /// Leaves after so many readings.
    pub leave_after: Option<usize>,
}

/// Streams a greedy answer. `None` where the reader left.
pub async fn answer(
    args: &Args,
    prompt: &str,
    speculative: bool,
    manner: Manner,
) -> Result<Option<Reply>, Failure> {
    let body = json!({
        "messages": [{"role": "user", "content": prompt}],
        "max_tokens": args.max_tokens,
        "temperature": 0,
        "stream": true,
        "stream_options": {"include_usage": true},
        "dflash": {"speculative": speculative},
    });
    let began = Instant::now();
    let mut connection = Connection::send(args, "POST", "/v1/chat/completions", &body.to_string()).await?;
    let mut reply = Reply {
        text: String::new(),
        hash: None,
        tokens: 0,
        first: Duration::ZERO,
        gaps: Vec::new(),
        all: Duration::ZERO,
    };
    let (mut last, mut finished, mut readings) = (None, false, 0);
    while let Some(event) = connection.event().await? {
        readings += 1;
        if manner.leave_after.is_some_and(|most| readings > most) {
            return Ok(None);
        }
        if let Some(pause) = manner.pause {
            tokio::time::sleep(pause).await;
        }
        let Some(data) = event.strip_prefix("data: ").filter(|data| *data != "[DONE]") else { continue };
        let chunk: Value = serde_json::from_str(data).map_err(|error| wrong(format!("{error}: {data}")))?;
        if let Some(error) = chunk.get("error") {
            return Err(wrong(error.to_string()));
        }
        if let Some(text) = chunk["choices"][0]["delta"]["content"].as_str().filter(|text| !text.is_empty()) {
            reply.text += text;
            match last.replace(Instant::now()) {
                None => reply.first = began.elapsed(),
                Some(before) => reply.gaps.push(before.elapsed()),
            }
        }
        finished |= chunk["choices"][0]["finish_reason"].is_string();
        reply.tokens =
            chunk["usage"]["completion_tokens"].as_u64().map_or(reply.tokens, |tokens| tokens as usize);
        reply.hash = chunk["dflash"]["ids_sha256"].as_str().map(str::to_owned).or(reply.hash);
    }
    if !finished {
        return Err(wrong("the stream ends without a finish_reason".to_owned()));
    }
    reply.all = began.elapsed();
    Ok(Some(reply))
}

/// `/metrics.json`.
pub async fn metrics(args: &Args) -> Result<Value, Failure> {
    let mut connection = Connection::send(args, "GET", "/metrics.json", "").await?;
    let body = connection.rest().await?;
    serde_json::from_slice(&body).map_err(|error| wrong(error.to_string()))
}

/// A connection for one request, by HTTP/1.0: the body ends with it.
struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    async fn send(args: &Args, method: &str, path: &str, body: &str) -> Result<Self, Failure> {
        let stream = TcpStream::connect(&args.server).await.map_err(io)?;
        let key = args.key.as_ref().map(|key| format!("authorization: Bearer {key}\r\n")).unwrap_or_default();
        let request = format!(
            "{method} {path} HTTP/1.0\r\nhost: {}\r\n{key}content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            args.server,
            body.len(),
        );
        let mut connection = Self { stream, buffer: Vec::new() };
        connection.stream.write_all(request.as_bytes()).await.map_err(io)?;
        let head = connection.until(b"\r\n\r\n").await?.ok_or_else(|| wrong("no answer".to_owned()))?;
        let status = head.split(' ').nth(1).unwrap_or_default().to_owned();
        match status.as_str() {
            "200" => Ok(connection),
            "429" => Err(Failure::Busy),
            _ => {
                let body = connection.rest().await?;
                Err(wrong(format!("{status}: {}", String::from_utf8_lossy(&body))))
            }
        }
    }

    /// The next event of a stream.
    async fn event(&mut self) -> Result<Option<String>, Failure> {
        self.until(b"\n\n").await
    }

    async fn until(&mut self, end: &[u8]) -> Result<Option<String>, Failure> {
        let mut seen = 0;
        loop {
            let found = self.buffer[seen..].windows(end.len()).position(|window| window == end);
            if let Some(at) = found {
                let rest = self.buffer.split_off(seen + at + end.len());
                let mut part = std::mem::replace(&mut self.buffer, rest);
                part.truncate(part.len() - end.len());
                return String::from_utf8(part).map(Some).map_err(|error| wrong(error.to_string()));
            }
            seen = self.buffer.len().saturating_sub(end.len() - 1);
            if self.stream.read_buf(&mut self.buffer).await.map_err(io)? == 0 {
                return if self.buffer.is_empty() {
                    Ok(None)
                } else {
                    Err(wrong("the answer is cut off".to_owned()))
                };
            }
        }
    }

    async fn rest(&mut self) -> Result<Vec<u8>, Failure> {
        self.stream.read_to_end(&mut self.buffer).await.map_err(io)?;
        Ok(std::mem::take(&mut self.buffer))
    }
}

fn wrong(what: String) -> Failure {
    Failure::Wrong(what)
}

fn io(error: std::io::Error) -> Failure {
    Failure::Wrong(error.to_string())
}
