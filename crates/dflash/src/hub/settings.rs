//! Which Hub, with which token, through which proxy.

use std::fmt;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use super::{HubCache, HubError};
use crate::env::Environment;

/// How the Hub is reached, by the variables that its own tools obey.
#[derive(Debug, Clone)]
pub struct HubSettings {
    /// Where model repositories are kept on this machine.
    pub cache: HubCache,
    /// The server: `HF_ENDPOINT`, without a final slash.
    pub endpoint: String,
    /// What opens private and gated repositories.
    pub token: Option<Token>,
    /// When true no socket is opened.
    pub offline: bool,
    /// The proxy of this machine.
    pub(super) proxy: Option<ureq::Proxy>,
    /// What to do about a server that does not answer.
    pub patience: Patience,
}

/// A secret: it is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

/// How long to go on with a server that fails.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// Tries in a row without progress.
    pub tries: u32,
    /// The wait after the first of them; it doubles from try to try.
    pub first_pause: Duration,
    /// The longest wait, also where the server asks for one.
    pub longest_pause: Duration,
}

const ENDPOINT: &str = "https://huggingface.co";

impl Default for Patience {
    fn default() -> Self {
        let longest_pause = Duration::from_secs(60);
        Self { tries: 5, first_pause: Duration::from_secs(1), longest_pause }
    }
}

impl Patience {
    /// The wait after the failed try number `failed` (from 0).
    pub(super) fn pause(&self, failed: u32) -> Duration {
        self.first_pause.saturating_mul(1 << failed.min(16)).min(self.longest_pause)
    }
}

impl Token {
    fn new(text: &str) -> Result<Self, HubError> {
        match text.bytes().all(|byte| byte.is_ascii_graphic()) {
            true => Ok(Self(text.to_owned())),
            false => Err(bad("HF_TOKEN", "has characters that no token has")),
        }
    }

    /// The value of the `Authorization` header.
    pub(super) fn header(&self) -> String {
        format!("Bearer {}", self.0)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

impl HubSettings {
    /// Reads the variables.
    ///
    /// # Errors
    /// [`HubError::BadVariable`] for one that cannot be obeyed.
    pub fn resolve(env: &Environment, offline: bool) -> Result<Self, HubError> {
        let endpoint = endpoint(env)?;
        Ok(Self {
            cache: HubCache::resolve(env),
            token: token(env)?,
            proxy: if offline { None } else { proxy(env, &endpoint)? },
            endpoint,
            offline,
            patience: Patience::default(),
        })
    }
}

fn bad(name: &'static str, why: impl Into<String>) -> HubError {
    HubError::BadVariable { name, why: why.into() }
}

fn text<'a>(env: &'a Environment, name: &'static str) -> Result<Option<&'a str>, HubError> {
    env.text(name).map_err(|_| bad(name, "is not valid UTF-8"))
}

fn endpoint(env: &Environment) -> Result<String, HubError> {
    let endpoint = text(env, "HF_ENDPOINT")?.unwrap_or(ENDPOINT).trim_end_matches('/');
    match ["https://", "http://"].iter().any(|scheme| endpoint.starts_with(scheme)) {
        true => Ok(endpoint.to_owned()),
        false => Err(bad(
            "HF_ENDPOINT",
            format!("is '{endpoint}', which begins with neither https:// nor http://"),
        )),
    }
}

/// `HF_TOKEN`, else the file in which the Hub's own tools keep the token of a login.
fn token(env: &Environment) -> Result<Option<Token>, HubError> {
    if let Some(token) = text(env, "HF_TOKEN")? {
        return Token::new(token).map(Some);
    }
    let file = env.path("HF_TOKEN_PATH").or_else(|| Some(home(env)?.join("token")));
    let kept = file.and_then(|file| fs::read_to_string(file).ok()).unwrap_or_default();
    Some(kept.trim()).filter(|token| !token.is_empty()).map(Token::new).transpose()
}

/// The directory of all that the Hub's tools keep.
pub(super) fn home(env: &Environment) -> Option<PathBuf> {
    let below_cache = |cache: PathBuf| cache.join("huggingface");
    env.path("HF_HOME")
        .or_else(|| env.path("XDG_CACHE_HOME").map(below_cache))
        .or_else(|| env.home().map(|home| below_cache(home.join(".cache"))))
}

/// In upper and in lower case, since both are in use.
fn either<'a>(env: &'a Environment, names: [&'static str; 2]) -> Result<Option<&'a str>, HubError> {
    Ok(text(env, names[0])?.or(text(env, names[1])?))
}

fn proxy(env: &Environment, endpoint: &str) -> Result<Option<ureq::Proxy>, HubError> {
    let scheme = if endpoint.starts_with("https:") {
        ["HTTPS_PROXY", "https_proxy"]
    } else {
        ["HTTP_PROXY", "http_proxy"]
    };
    let Some(url) = either(env, scheme)?.or(either(env, ["ALL_PROXY", "all_proxy"])?) else {
        return Ok(None);
    };
    let unusable = |_| bad(scheme[0], "names no proxy that can be used (http://host:port)");
    let plain = ureq::Proxy::new(url).map_err(unusable)?;
    let mut proxy = ureq::Proxy::builder(plain.protocol()).host(plain.host()).port(plain.port());
    if let Some(username) = plain.username() {
        proxy = proxy.username(username).password(plain.password().unwrap_or_default());
    }
    let direct = either(env, ["NO_PROXY", "no_proxy"])?.unwrap_or_default().split(',').map(str::trim);
    direct.fold(proxy, ureq::ProxyBuilder::no_proxy).build().map(Some).map_err(unusable)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(pairs: &[(&str, &str)]) -> Result<HubSettings, HubError> {
        HubSettings::resolve(&Environment::from_pairs(pairs.iter().copied()), false)
    }

    #[test]
    fn the_token_comes_from_the_variable_or_its_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().to_str().unwrap();
        fs::write(dir.path().join("token"), "of_login\n").unwrap();
        fs::write(dir.path().join("other"), "of_file\n").unwrap();
        let other = format!("{path}/other");
        let token = |pairs: &[(&str, &str)]| settings(pairs).unwrap().token.map(|token| token.0);
        assert_eq!(token(&[("HF_TOKEN", " typed "), ("HF_HOME", path)]).as_deref(), Some("typed"));
        assert_eq!(token(&[("HF_HOME", path)]).as_deref(), Some("of_login"));
        assert_eq!(token(&[("HF_HOME", path), ("HF_TOKEN_PATH", &other)]).as_deref(), Some("of_file"));
        assert_eq!(token(&[]), None);
        assert!(settings(&[("HF_TOKEN", "two words")]).is_err());
    }

    #[test]
    fn a_token_is_not_shown() {
        let settings = settings(&[("HF_TOKEN", "hf_secret")]).unwrap();
        assert!(!format!("{settings:?}").contains("secret"));
    }

    #[test]
    fn endpoint_and_proxy() {
        assert_eq!(settings(&[]).unwrap().endpoint, "https://huggingface.co");
        assert_eq!(settings(&[("HF_ENDPOINT", "http://mirror/")]).unwrap().endpoint, "http://mirror");
        assert!(settings(&[("HF_ENDPOINT", "mirror")]).is_err());
        let pairs =
            [("https_proxy", "http://user:p%40ss@proxy:3128"), ("NO_PROXY", "localhost, .in.example")];
        let proxy = settings(&pairs).unwrap().proxy.unwrap();
        assert_eq!((proxy.host(), proxy.port(), proxy.password()), ("proxy", 3128, Some("p@ss")));
        let direct = |url: &str| proxy.is_no_proxy(&url.parse().unwrap());
        assert!(direct("https://hub.in.example/x") && !direct("https://huggingface.co/x"));
        assert!(
            settings(&[("https_proxy", "http://p"), ("HF_ENDPOINT", "http://m")]).unwrap().proxy.is_none()
        );
        assert!(settings(&[("HTTPS_PROXY", "gopher://p")]).is_err());
    }

    #[test]
    fn pauses_double_up_to_a_bound() {
        let pauses = [0, 1, 2, 9].map(|failed| Patience::default().pause(failed).as_secs());
        assert_eq!(pauses, [1, 2, 4, 60]);
    }
}
