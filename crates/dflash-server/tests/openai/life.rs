//! From the first signal to the end, over a socket.

use std::net::SocketAddr;
use std::time::Duration;

use dflash_server::{Ended, ServerSettings, Signal, run};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;

use crate::chat;
use crate::common::Server;

struct Running {
    address: SocketAddr,
    signals: UnboundedSender<Signal>,
    ended: JoinHandle<Ended>,
    server: Server,
}

async fn start(drain: Duration) -> Running {
    let server = Server::with(ServerSettings { drain, ..ServerSettings::default() });
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (signals, inbox) = unbounded_channel();
    let ended = tokio::spawn(run(server.app.clone(), listener, inbox));
    Running { address, signals, ended, server }
}

impl Running {
    async fn send(&self, method: &str, path: &str, body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let head = format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n");
        let head = format!("{head}content-type: application/json\r\ncontent-length: {}\r\n\r\n", body.len());
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.write_all(body.as_bytes()).await.unwrap();
        stream
    }

    async fn get(&self, path: &str) -> String {
        rest(self.send("GET", path, "").await).await
    }

    /// An answer that goes on for long, of which something has come.
    async fn endless(&self) -> TcpStream {
        let body = chat(json!({"stream": true, "max_tokens": 1900, "logit_bias": {"257": -100}}));
        let mut stream = self.send("POST", "/v1/chat/completions", &body.to_string()).await;
        let mut some = [0; 64];
        stream.read_exact(&mut some).await.unwrap();
        stream
    }
}

async fn rest(mut stream: TcpStream) -> String {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).await.unwrap();
    String::from_utf8(bytes).unwrap()
}

#[tokio::test]
async fn what_is_in_work_is_ended_and_nothing_new_begins() {
    let running = start(Duration::from_secs(600)).await;
    let stream = running.endless().await;
    running.signals.send(Signal::Terminate).unwrap();
    running.server.app.life.reached(dflash_server::life::Phase::Draining).await;
    for path in ["/health", "/ready"] {
        assert!(running.get(path).await.starts_with("HTTP/1.1 503"), "{path}");
    }
    let refused = running.get("/v1/models").await;
    assert!(refused.starts_with("HTTP/1.1 503") && refused.contains("connection: close"), "{refused}");
    assert!(running.get("/metrics").await.starts_with("HTTP/1.1 200"));
    assert!(rest(stream).await.contains("[DONE]"));
    assert_eq!(running.ended.await.unwrap(), Ended::Drained);
}

#[tokio::test]
async fn an_idle_server_ends_at_once() {
    let running = start(Duration::from_secs(600)).await;
    // A connection without a request does not keep it.
    let _idle = TcpStream::connect(running.address).await.unwrap();
    running.signals.send(Signal::Interrupt).unwrap();
    assert_eq!(running.ended.await.unwrap(), Ended::Drained);
}

#[tokio::test]
async fn a_second_signal_ends_everything() {
    let running = start(Duration::from_secs(600)).await;
    let _stream = running.endless().await;
    running.signals.send(Signal::Terminate).unwrap();
    running.signals.send(Signal::Interrupt).unwrap();
    assert_eq!(running.ended.await.unwrap(), Ended::Cut(Signal::Interrupt));
}

#[tokio::test]
async fn answers_whose_time_is_over_are_told_so() {
    let running = start(Duration::ZERO).await;
    let stream = running.endless().await;
    running.signals.send(Signal::Terminate).unwrap();
    assert_eq!(running.ended.await.unwrap(), Ended::Cut(Signal::Terminate));
    let text = rest(stream).await;
    assert!(text.contains("shutting_down") && !text.contains("[DONE]"), "{text}");
}
