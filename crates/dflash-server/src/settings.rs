use std::net::SocketAddr;
use std::time::Duration;

use dflash_engine::Sampling;
use serde_json::{Map, Value};

/// How a server behaves, resolved once at start.
#[derive(Debug, Clone)]
pub struct ServerSettings {
    /// Where it listens.
    pub address: SocketAddr,
    /// Origins that browsers may call from; `*` stands for all.
    pub allowed_origins: Vec<String>,
    /// Hosts that requests may name beside this machine's own, where origins are limited.
    pub allowed_hosts: Vec<String>,
    /// Any of them opens the API; without keys everybody may.
    pub api_keys: Vec<String>,
    /// Bytes of a request body at most.
    pub max_body_bytes: usize,
    /// Time for a body to come.
    pub body_time: Duration,
    /// Of a request that names no limit.
    pub max_tokens: usize,
    /// Of a request that says nothing else.
    pub sampling: Sampling,
    /// Variables of the chat template; those of a request win.
    pub template_kwargs: Map<String, Value>,
    /// Requests for at most so many tokens are decoded plainly.
    pub fastpath_max_tokens: usize,
    /// Requests with longer prompts are decoded plainly.
    pub speculative_prompt: Option<usize>,
    /// A request that takes longer is ended.
    pub request_timeout: Option<Duration>,
    /// Silence after which a stream tells that it lives.
    pub keep_alive: Duration,
    /// A step that runs longer hangs, and the server is not healthy.
    pub longest_step: Duration,
    /// Time for requests in work once the server shall stop.
    pub drain: Duration,
    /// Whether logs may hold prompts.
    pub log_prompts: bool,
}

impl Default for ServerSettings {
    fn default() -> Self {
        Self {
            address: SocketAddr::from(([127, 0, 0, 1], 8000)),
            allowed_origins: vec!["*".to_owned()],
            allowed_hosts: Vec::new(),
            api_keys: Vec::new(),
            max_body_bytes: 16 << 20,
            body_time: Duration::from_secs(60),
            max_tokens: 512,
            sampling: Sampling::default(),
            template_kwargs: Map::new(),
            fastpath_max_tokens: 0,
            speculative_prompt: None,
            request_timeout: None,
            keep_alive: Duration::from_secs(5),
            longest_step: Duration::from_secs(60),
            drain: Duration::from_secs(30),
            log_prompts: false,
        }
    }
}
