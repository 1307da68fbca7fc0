use std::net::{IpAddr, SocketAddr};

use dflash_server::{ServedModel, ServerSettings};

/// What a server says of itself once it listens.
pub struct Banner {
    model: String,
    draft: String,
    key: bool,
}

impl Banner {
    /// Of a model that is about to be served.
    pub fn new(model: &ServedModel, settings: &ServerSettings) -> Self {
        let draft = match &model.facts.drafting_off {
            Some(why) => format!("nothing is drafted ({why})"),
            None => model.facts.draft.clone(),
        };
        let target = format!("{} ({})", model.id, model.facts.target);
        Self { model: target, draft, key: !settings.api_keys.is_empty() }
    }

    /// At this address.
    pub fn at(&self, address: SocketAddr) -> String {
        let site = site(address);
        let key = if self.key { "-H \"Authorization: Bearer $DFLASH_API_KEY\" " } else { "" };
        format!(
            "model  {}\n\
             draft  {}\n\
             API    {site}/v1\n\
             page   {site}/\n\
             try    curl {site}/v1/chat/completions {key}-H 'Content-Type: application/json' \
             -d '{{\"messages\": [{{\"role\": \"user\", \"content\": \"Hello\"}}]}}'",
            self.model, self.draft
        )
    }
}

/// Where this machine finds it: nobody calls 0.0.0.0.
fn site(address: SocketAddr) -> String {
    let port = address.port();
    match address.ip() {
        ip if ip.is_unspecified() => format!("http://localhost:{port}"),
        IpAddr::V4(ip) => format!("http://{ip}:{port}"),
        IpAddr::V6(ip) => format!("http://[{ip}]:{port}"),
    }
}
