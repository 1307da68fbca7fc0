//! Why a repository could not be had from the Hub, and what the user can do about it.

use std::io;
use std::path::{Path, PathBuf};

use super::{HubId, RepoKind};
use crate::cache::human_bytes;
use crate::report::Failure;

/// Why a repository could not be had from the Hub.
#[derive(Debug, thiserror::Error)]
pub enum HubError {
    /// It is not here and nothing may be downloaded.
    #[error("it is not in {}, and offline mode forbids the download", expected.display())]
    Offline {
        /// Where it would be.
        expected: PathBuf,
    },
    /// The platform names no place for the cache.
    #[error("no place for the cache of the Hub: there is no home directory")]
    NoCacheDir,
    /// A variable has a value that cannot be used.
    #[error("the environment variable {name} {why}")]
    BadVariable {
        /// The variable.
        name: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// 401 or 403.
    #[error("the server refuses it (HTTP {status}{}): {}", said(said_by_server), reason(*gated, *had_token))]
    Denied {
        /// The status.
        status: u16,
        /// Whether the server says that a licence must be accepted.
        gated: bool,
        /// Whether a token was sent.
        had_token: bool,
        /// The server's own words.
        said_by_server: Option<String>,
    },
    /// 404.
    #[error("the server has no such {what} (HTTP 404)")]
    NotFound {
        /// Repository, revision or file.
        what: String,
    },
    /// A file is not what the server itself announced.
    #[error("{file} has the hash {found}, not {wanted}, after two downloads")]
    WrongHash {
        /// Which file.
        file: String,
        /// What the server announced.
        wanted: String,
        /// What arrived.
        found: String,
    },
    /// The connection ended too early, again and again.
    #[error("the connection ended after {got} of {size} bytes of {file}")]
    CutShort {
        /// Which file.
        file: String,
        /// Bytes that are here.
        got: u64,
        /// Bytes that it has.
        size: u64,
    },
    /// The repository lacks files that its own index, or the number in a part's name, says there are.
    #[error("the repository is incomplete: it lacks {}", some(files, ", "))]
    MissingShard {
        /// Their names.
        files: Vec<String>,
    },
    /// Nothing in the repository can be loaded.
    #[error("the repository has neither model*.safetensors nor GGUF files")]
    NoWeights,
    /// There are several GGUF files and none was chosen.
    #[error("there are several GGUF files:\n{}", some(files, "\n"))]
    SeveralGguf {
        /// Their names.
        files: Vec<String>,
    },
    /// No GGUF file is called so.
    #[error("no GGUF file is called '{choice}'; there are:\n{}", some(files, "\n"))]
    NoSuchGguf {
        /// What was asked for.
        choice: String,
        /// What there is.
        files: Vec<String>,
    },
    /// 429 or a server error that did not pass.
    #[error("the server is busy or broken (HTTP {status}{})", wait(*retry_after))]
    Busy {
        /// The status.
        status: u16,
        /// The wait that it asks for.
        retry_after: Option<u64>,
    },
    /// No answer at all.
    #[error("cannot reach {url}: {reason}")]
    Unreachable {
        /// What was asked.
        url: String,
        /// What the system said.
        reason: String,
        /// Whether it is about certificates.
        tls: bool,
    },
    /// An answer that is not one of the Hub's.
    #[error("the answer of {url} is not understood: {why}")]
    BadAnswer {
        /// What was asked.
        url: String,
        /// What is wrong with it.
        why: String,
    },
    /// The disk is full.
    #[error("no space left on the disk of {}", path.display())]
    DiskFull {
        /// What was being written.
        path: PathBuf,
        /// Bytes of that file.
        size: u64,
    },
    /// The file system refused something.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The model's config shows that it cannot be used.
    #[error("{0}")]
    Refused(Box<Failure>),
}

/// What does without a dataset.
const OTHER_PROMPTS: &str = "or take a built-in suite, or prompts of your own with --prompt-file JSONL";

/// The first of the names: a repository may hold any number of files.
fn some(files: &[String], between: &str) -> String {
    const SHOWN: usize = 64;
    let shown = files.iter().take(SHOWN).cloned();
    let more = files.len().checked_sub(SHOWN).filter(|&more| more > 0);
    shown.chain(more.map(|more| format!("and {more} more"))).collect::<Vec<_>>().join(between)
}

fn said(words: &Option<String>) -> String {
    words.as_ref().map(|words| format!(", \"{words}\"")).unwrap_or_default()
}

fn reason(gated: bool, had_token: bool) -> &'static str {
    match (gated, had_token) {
        (true, true) => "its licence has not been accepted with this token",
        (true, false) => "its licence must be accepted, and no token was sent",
        (false, true) => "this token may not read it, or there is no such repository",
        (false, false) => "it is private or gated, or there is no such repository; no token was sent",
    }
}

fn wait(seconds: Option<u64>) -> String {
    seconds.map(|seconds| format!(", it asks to wait {seconds} s")).unwrap_or_default()
}

impl HubError {
    /// Makes an error of what the system said; a full disk is its own case, because the remedy is.
    pub(super) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Self::DiskFull { path: path.to_owned(), size: 0 }
            }
            _ => Self::Io { action, path: path.to_owned(), source },
        }
    }

    /// Says how large the file is for which there was no room.
    pub(super) fn of_size(self, size: u64) -> Self {
        match self {
            Self::DiskFull { path, .. } => Self::DiskFull { path, size },
            other => other,
        }
    }

    /// The report for the user on `id`, of which the Hub's page is below `endpoint`.
    pub fn into_failure(self, id: &HubId, endpoint: &str) -> Failure {
        if let Self::Refused(failure) = self {
            return *failure;
        }
        let failure = match &self {
            Self::Offline { .. } => Failure::not_fetched(format!("'{id}' is not on this machine")),
            Self::BadVariable { .. } => Failure::usage(format!("cannot get '{id}' from the Hub")),
            _ => Failure::new(format!("cannot get '{id}' from the Hub")),
        };
        let failure = failure.cause(&self);
        self.advice(id, endpoint).into_iter().fold(failure, Failure::hint)
    }

    fn advice(&self, id: &HubId, endpoint: &str) -> Vec<String> {
        let (page, model) = (id.page(endpoint), id.kind == RepoKind::Model);
        let lines = |lines: &[&str]| lines.iter().map(|&line| line.to_owned()).collect();
        match self {
            Self::Offline { .. } => lines(&[
                "run once without --offline, DFLASH_OFFLINE and HF_HUB_OFFLINE",
                match model {
                    true => "or pass the path of a GGUF file or a model directory",
                    false => OTHER_PROMPTS,
                },
            ]),
            Self::NoCacheDir => lines(&["set HF_HOME to a directory that can be written"]),
            Self::BadVariable { name, .. } => vec![format!("set {name} to a valid value, or unset it")],
            Self::Denied { gated: true, .. } => {
                vec![
                    format!("accept the licence at {page}"),
                    "then pass a token of that account in HF_TOKEN".into(),
                ]
            }
            Self::Denied { had_token: true, .. } => {
                vec![format!("look at {page} with the token's account"), "check HF_TOKEN".into()]
            }
            Self::Denied { .. } => vec![
                "check the name's spelling".into(),
                format!("or pass a token in HF_TOKEN, of an account that can open {page}"),
            ],
            Self::NotFound { .. } => {
                vec![format!("check the spelling at {page}, revision {}", id.revision())]
            }
            Self::WrongHash { .. } => lines(&["something between the server and here changes files"]),
            Self::CutShort { .. } => lines(&["run it again: it goes on where it stopped"]),
            Self::MissingShard { .. } if !model => vec![format!("look at {page}"), OTHER_PROMPTS.to_owned()],
            Self::MissingShard { .. } => {
                vec![format!("tell the owner of {page}, or name another revision with @")]
            }
            Self::NoWeights => lines(&["name a repository with safetensors or GGUF weights"]),
            Self::SeveralGguf { .. } | Self::NoSuchGguf { .. } => {
                let plain = HubId { file: None, ..id.clone() };
                vec![format!("choose with {plain}:FILE.gguf, or by its quantisation: {plain}:Q4_K_M")]
            }
            Self::Busy { .. } => lines(&["try again later: it goes on where it stopped"]),
            Self::Unreachable { tls: true, .. } => {
                lines(&["behind an inspecting proxy, name its certificate in SSL_CERT_FILE"])
            }
            Self::Unreachable { .. } => lines(&[
                "check the network, HTTPS_PROXY and HF_ENDPOINT",
                if model { "or download on another machine and pass --model DIR" } else { OTHER_PROMPTS },
            ]),
            Self::BadAnswer { .. } => lines(&["check HF_ENDPOINT and the proxy"]),
            Self::DiskFull { size, .. } => vec![format!(
                "free at least {}, or set HF_HUB_CACHE to a directory on another disk; it goes on where it stopped",
                human_bytes(*size)
            )],
            Self::Io { .. } => lines(&["set HF_HUB_CACHE to a directory that can be written"]),
            Self::Refused(_) => Vec::new(),
        }
    }
}
