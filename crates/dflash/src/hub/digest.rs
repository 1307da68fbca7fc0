//! The hashes by which the Hub names contents.

use sha1::Sha1;
use sha2::{Digest as _, Sha256};

use crate::obtain::hex;

/// A running hash of the kind that an etag of the Hub is.
pub(super) enum Digest {
    /// Large files: SHA-256 of the content.
    Sha256(Sha256),
    /// Small files: the id of the content as an object of git.
    GitBlob(Sha1),
    /// A server that names contents in its own way: nothing to compare.
    Unknown,
}

impl Digest {
    /// The hash that `etag` is one of, for a content of `size` bytes.
    pub(super) fn of_kind(etag: &str, size: u64) -> Self {
        let is_hex = etag.bytes().all(|byte| byte.is_ascii_hexdigit());
        match etag.len() {
            64 if is_hex => Self::Sha256(Sha256::new()),
            40 if is_hex => Self::GitBlob(Sha1::new_with_prefix(format!("blob {size}\0"))),
            _ => Self::Unknown,
        }
    }

    /// Takes in more of the content.
    pub(super) fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Sha256(hash) => hash.update(bytes),
            Self::GitBlob(hash) => hash.update(bytes),
            Self::Unknown => {}
        }
    }

    /// The hash in lower-case hex; `None` where there is none to compare.
    pub(super) fn finish(self) -> Option<String> {
        match self {
            Self::Sha256(hash) => Some(hex(&hash.finalize())),
            Self::GitBlob(hash) => Some(hex(&hash.finalize())),
            Self::Unknown => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(etag: &str, content: &[u8]) -> Option<String> {
        let mut digest = Digest::of_kind(etag, content.len() as u64);
        content.chunks(3).for_each(|chunk| digest.update(chunk));
        digest.finish()
    }

    #[test]
    fn known_contents() {
        // `printf 'hello\n' | git hash-object --stdin` and `| sha256sum`.
        let git = "ce013625030ba8dba906f756967f9e9ca394464a";
        let sha = "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03";
        assert_eq!(hash(git, b"hello\n").as_deref(), Some(git));
        assert_eq!(hash(sha, b"hello\n").as_deref(), Some(sha));
        assert_eq!(hash("\"1234-abc\"", b"hello\n"), None);
    }
}
