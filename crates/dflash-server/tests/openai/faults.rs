//! A fault inside costs the request that it hits.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use dflash_engine::proposer::ContextCopy;
use dflash_engine::{Offer, ProposeRequest, Proposer, ProposerState};
use dflash_tensor::{BackendError, Tensor};
use serde_json::{Value, json};

use crate::chat;
use crate::common::{Server, Setup};

const CHAT: &str = "/v1/chat/completions";

/// Copies, but for a fault at its first offer.
struct Breaks {
    copy: ContextCopy,
    broke: AtomicBool,
}

impl Proposer for Breaks {
    fn name(&self) -> &'static str {
        self.copy.name()
    }

    fn new_state(&self) -> ProposerState {
        self.copy.new_state()
    }

    fn observe(&self, state: &mut ProposerState, taps: Option<&Tensor>, rows: Range<usize>, upcoming: usize) {
        self.copy.observe(state, taps, rows, upcoming);
    }

    fn offer(&self, state: &mut ProposerState, ids: &[u32]) -> Offer {
        assert!(self.broke.swap(true, Ordering::SeqCst), "a fault in a proposer");
        self.copy.offer(state, ids)
    }

    fn propose(&self, requests: &mut [ProposeRequest<'_>]) -> Result<(), BackendError> {
        self.copy.propose(requests)
    }
}

fn breaks() -> Server {
    let proposer = || {
        Box::new(Breaks { copy: ContextCopy::new(16), broke: AtomicBool::new(false) }) as Box<dyn Proposer>
    };
    Setup { drafts: true, proposer, ..Setup::default() }.open()
}

/// The next request is answered as ever, and the fault was counted.
async fn lives(server: &Server) {
    let next = server.post(CHAT, &chat(json!({"max_tokens": 40}))).await;
    let other = Server::new().post(CHAT, &chat(json!({"max_tokens": 40}))).await;
    assert_eq!((next.status.as_u16(), &next.json()["choices"]), (200, &other.json()["choices"]));
    let counts = server.send("GET", "/metrics.json", "").await.json();
    assert_eq!((&counts["engine"]["faults"], &counts["totals"]["failed"]), (&json!(1), &json!(1)));
    assert_eq!(server.send("GET", "/health", "").await.status, 200);
}

#[tokio::test]
async fn a_request_that_is_hit_gets_an_error() {
    let server = breaks();
    let (status, error) = server.post(CHAT, &chat(json!({}))).await.error();
    assert_eq!((status, &error["type"]), (500, &json!("server_error")), "{error}");
    lives(&server).await;
}

#[tokio::test]
async fn a_stream_that_is_hit_ends_with_an_error() {
    let server = breaks();
    let answer = server.post(CHAT, &chat(json!({"stream": true}))).await;
    let last = answer.text.trim_end().rsplit("\n\n").next().unwrap();
    let last: Value = serde_json::from_str(last.strip_prefix("data: ").unwrap()).unwrap();
    assert_eq!(last["error"]["type"], "server_error", "{last}");
    assert!(!answer.text.contains("[DONE]"));
    lives(&server).await;
}
