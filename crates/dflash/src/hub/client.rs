//! Requests to the Hub: redirects, refusals, patience.

use std::time::Duration;

use ureq::http::header::{AUTHORIZATION, LOCATION, RANGE, RETRY_AFTER};
use ureq::http::{Response, StatusCode, Uri};
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::{Agent, Body};

use super::{HubError, HubSettings};
use crate::progress::Progress;

/// A connection to the Hub.
pub(super) struct Client<'a> {
    agent: Agent,
    settings: &'a HubSettings,
    progress: Progress,
}

/// What is asked of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ask {
    /// Headers, from the Hub itself even where the content lies elsewhere.
    Head,
    /// The content from this byte on.
    From(u64),
}

type Answer = Response<Body>;

const MOST_REDIRECTS: usize = 5;
const CONNECT: Duration = Duration::from_secs(20);
/// A server that says nothing for so long has lost the connection.
const SILENCE: Duration = Duration::from_secs(60);
const LARGEST_DOCUMENT: u64 = 64 << 20;

impl<'a> Client<'a> {
    /// A client; nothing is sent yet.
    pub(super) fn new(settings: &'a HubSettings, progress: Progress) -> Self {
        let tls = TlsConfig::builder().root_certs(roots(&settings.endpoint)).build();
        let config = Agent::config_builder()
            .http_status_as_error(false)
            // Followed here: the token must not go to another host.
            .max_redirects(0)
            .proxy(settings.proxy.clone())
            .tls_config(tls)
            // Sizes, ranges and hashes are those of the plain content.
            .accept_encoding("identity")
            .user_agent(concat!("dflash/", env!("CARGO_PKG_VERSION")))
            .timeout_connect(Some(CONNECT))
            .timeout_per_read(Some(SILENCE));
        Self { agent: config.build().new_agent(), settings, progress }
    }

    /// The whole of a small document.
    pub(super) fn document(&self, url: &str) -> Result<Vec<u8>, HubError> {
        let mut failed = 0;
        loop {
            let body = self.patiently(url, Ask::From(0))?.into_body();
            match body.into_with_config().limit(LARGEST_DOCUMENT).read_to_vec() {
                Ok(bytes) => return Ok(bytes),
                Err(error) => self.wait(failed, None, unreachable(url, &error))?,
            }
            failed += 1;
        }
    }

    /// The headers that the Hub itself gives for a file.
    pub(super) fn head(&self, url: &str) -> Result<Answer, HubError> {
        self.patiently(url, Ask::Head)
    }

    /// The content of a file from byte `from` on: 206, or 200 from a server that gives all of it.
    pub(super) fn content(&self, url: &str, from: u64) -> Result<Answer, HubError> {
        self.patiently(url, Ask::From(from))
    }

    /// Waits after the failed try number `failed`; an error where there were too many.
    pub(super) fn wait(&self, failed: u32, asked: Option<u64>, error: HubError) -> Result<(), HubError> {
        let patience = &self.settings.patience;
        let pause = asked.map_or_else(|| patience.pause(failed), Duration::from_secs);
        if failed + 1 >= patience.tries || pause > patience.longest_pause {
            return Err(error);
        }
        self.progress.note(&format!("{error}; trying again in {} s", pause.as_secs()));
        std::thread::sleep(pause);
        Ok(())
    }

    fn patiently(&self, url: &str, ask: Ask) -> Result<Answer, HubError> {
        let mut failed = 0;
        loop {
            let (error, asked) = match self.redirected(url, ask) {
                Ok(answer) if is_passing(answer.status()) => busy(&answer),
                Ok(answer) => return self.judged(answer, url),
                Err(Trouble::Passing(error)) => (error, None),
                Err(Trouble::Lasting(error)) => return Err(error),
            };
            self.wait(failed, asked, error)?;
            failed += 1;
        }
    }

    /// Follows redirects. Only the Hub's own host sees the token.
    fn redirected(&self, url: &str, ask: Ask) -> Result<Answer, Trouble> {
        let mut url = url.to_owned();
        for _ in 0..=MOST_REDIRECTS {
            let answer = self.once(&url, ask)?;
            let Some(next) = next_place(&answer, &url)? else { return Ok(answer) };
            if ask == Ask::Head && !same_host(&next, &url) {
                return Ok(answer);
            }
            url = next;
        }
        Err(Trouble::Lasting(HubError::BadAnswer { url, why: "too many redirects".to_owned() }))
    }

    fn once(&self, url: &str, ask: Ask) -> Result<Answer, Trouble> {
        let mut request = if ask == Ask::Head { self.agent.head(url) } else { self.agent.get(url) };
        if let Ask::From(from @ 1..) = ask {
            request = request.header(RANGE, format!("bytes={from}-"));
        }
        if let Some(token) = self.settings.token.as_ref().filter(|_| same_host(url, &self.settings.endpoint))
        {
            request = request.header(AUTHORIZATION, token.header());
        }
        request.call().map_err(|error| trouble(url, &error))
    }

    fn judged(&self, answer: Answer, url: &str) -> Result<Answer, HubError> {
        let status = answer.status();
        let header =
            |name| answer.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        match (status.as_u16(), header("x-error-code").as_deref()) {
            // 416 is for whoever asked for a range to understand.
            (200..=399 | 416, _) => Ok(answer),
            (404, code) => Err(HubError::NotFound { what: absent(code, url) }),
            (401 | 403, code) => Err(HubError::Denied {
                status: status.as_u16(),
                gated: code == Some("GatedRepo"),
                had_token: self.settings.token.is_some(),
                said_by_server: header("x-error-message"),
            }),
            _ => Err(HubError::BadAnswer { url: url.to_owned(), why: format!("HTTP {status}") }),
        }
    }
}

/// Whether another try is worth it.
enum Trouble {
    Passing(HubError),
    Lasting(HubError),
}

/// The certificates of this machine, or `SSL_CERT_FILE`; where it has none, those that are built in.
fn roots(endpoint: &str) -> RootCerts {
    if !endpoint.starts_with("https:") {
        return RootCerts::WebPki;
    }
    let found = rustls_native_certs::load_native_certs().certs;
    match found.is_empty() {
        true => RootCerts::WebPki,
        false => found.iter().map(|cert| Certificate::from_der(cert).to_owned()).into(),
    }
}

fn is_passing(status: StatusCode) -> bool {
    status.is_server_error() || matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT)
}

fn busy(answer: &Answer) -> (HubError, Option<u64>) {
    let asked = answer.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.trim().parse().ok());
    (HubError::Busy { status: answer.status().as_u16(), retry_after: asked }, asked)
}

fn absent(code: Option<&str>, url: &str) -> String {
    match code {
        Some("RepoNotFound") => "repository".to_owned(),
        Some("RevisionNotFound") => "revision".to_owned(),
        _ => format!("repository, revision or file: {url}"),
    }
}

fn trouble(url: &str, error: &ureq::Error) -> Trouble {
    use std::io::ErrorKind as Kind;
    let told = unreachable(url, error);
    match error {
        ureq::Error::Timeout(_) | ureq::Error::Protocol(_) => Trouble::Passing(told),
        ureq::Error::Io(error) => match error.kind() {
            Kind::ConnectionReset | Kind::ConnectionAborted | Kind::BrokenPipe => Trouble::Passing(told),
            Kind::UnexpectedEof | Kind::TimedOut | Kind::WouldBlock => Trouble::Passing(told),
            _ => Trouble::Lasting(told),
        },
        _ => Trouble::Lasting(told),
    }
}

fn unreachable(url: &str, error: &ureq::Error) -> HubError {
    let tls = matches!(error, ureq::Error::Tls(_) | ureq::Error::Rustls(_) | ureq::Error::Pem(_))
        || error.to_string().contains("certificate");
    HubError::Unreachable { url: url.to_owned(), reason: error.to_string(), tls }
}

/// Where a redirect leads.
fn next_place(answer: &Answer, url: &str) -> Result<Option<String>, Trouble> {
    if !answer.status().is_redirection() {
        return Ok(None);
    }
    let place = answer.headers().get(LOCATION).and_then(|value| value.to_str().ok());
    let bad = || HubError::BadAnswer { url: url.to_owned(), why: "a redirect that leads nowhere".to_owned() };
    let next = place.and_then(|place| resolved(place, url)).ok_or_else(|| Trouble::Lasting(bad()))?;
    match url.starts_with("https:") && !next.starts_with("https:") {
        // Whoever is in between could answer with any listing, and so with any weights.
        true => Err(Trouble::Lasting(HubError::BadAnswer {
            url: url.to_owned(),
            why: "a redirect from https to http".to_owned(),
        })),
        false => Ok(Some(next)),
    }
}

fn resolved(place: &str, url: &str) -> Option<String> {
    if place.starts_with("https://") || place.starts_with("http://") {
        return Some(place.to_owned());
    }
    let base: Uri = url.parse().ok()?;
    place.starts_with('/').then(|| {
        format!(
            "{}://{}{place}",
            base.scheme_str().unwrap_or("https"),
            base.authority().map_or("", |a| a.as_str())
        )
    })
}

/// Same scheme, host and port.
fn same_host(a: &str, b: &str) -> bool {
    let parts = |url: &str| {
        let url: Uri = url.parse().ok()?;
        Some((url.scheme_str()?.to_lowercase(), url.authority()?.as_str().to_lowercase()))
    };
    parts(a).is_some() && parts(a) == parts(b)
}

/// `text` as a part of a URL's path; `/` stays where `keep` says so.
pub(super) fn escaped(text: &str, keep: &str) -> String {
    let plain =
        |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) || keep.as_bytes().contains(&byte);
    let escape = |byte: u8| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    text.bytes().map(escape).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_stays_with_its_host() {
        assert!(same_host("https://hub.co/a", "https://HUB.co"));
        for other in
            ["http://hub.co", "https://cdn.hub.co", "https://hub.co:444", "https://hub.co.evil", "hub.co"]
        {
            assert!(!same_host("https://hub.co/a", other), "{other}");
        }
    }

    #[test]
    fn redirects_are_resolved() {
        let resolved = |place| resolved(place, "https://hub.co:8443/a/b?c");
        assert_eq!(resolved("/x/y").as_deref(), Some("https://hub.co:8443/x/y"));
        assert_eq!(resolved("https://cdn/x").as_deref(), Some("https://cdn/x"));
        assert_eq!(resolved("x"), None);
    }

    #[test]
    fn no_redirect_leaves_encryption() {
        let redirect = |place: &str| {
            let answer = Response::builder().status(302).header(LOCATION, place);
            answer.body(Body::builder().data("")).unwrap()
        };
        let next = |url: &str| next_place(&redirect("http://cdn/x"), url).ok().flatten();
        assert_eq!(next("https://hub.co/a"), None);
        assert_eq!(next("http://hub.co/a").as_deref(), Some("http://cdn/x"));
        let kept = next_place(&redirect("https://cdn/x"), "https://hub.co/a").ok().flatten();
        assert_eq!(kept.as_deref(), Some("https://cdn/x"));
    }

    #[test]
    fn parts_of_urls_are_escaped() {
        assert_eq!(escaped("refs/pr/1", ""), "refs%2Fpr%2F1");
        assert_eq!(escaped("a b/ü.gguf", "/"), "a%20b/%C3%BC.gguf");
    }
}
