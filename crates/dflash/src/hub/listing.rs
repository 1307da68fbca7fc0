//! What the Hub says a repository holds.

use serde::Deserialize;

use super::HubError;
use super::id::is_safe_path;

/// The files of a repository at one commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Listing {
    /// The commit that the revision stands for.
    pub(super) commit: String,
    /// Its files.
    pub(super) files: Vec<RepoFile>,
}

/// One file of a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RepoFile {
    /// Path in the repository, with `/`.
    pub(super) name: String,
    /// Size and hash, where the listing has both.
    pub(super) content: Option<Content>,
}

/// What identifies a content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Content {
    /// Bytes.
    pub(super) size: u64,
    /// The Hub's name for it, a hash: SHA-256 of a large file, the git object id of a small one.
    pub(super) etag: String,
}

#[derive(Deserialize)]
struct RawListing {
    sha: String,
    siblings: Vec<RawFile>,
}

#[derive(Deserialize)]
struct RawFile {
    rfilename: String,
    size: Option<u64>,
    #[serde(rename = "blobId")]
    blob_id: Option<String>,
    lfs: Option<RawLfs>,
}

#[derive(Deserialize)]
struct RawLfs {
    size: Option<u64>,
    sha256: Option<String>,
}

/// More than any file has; a few thousand of them still add up within 64 bits.
const LARGEST: u64 = 1 << 50;

impl Listing {
    /// Reads the JSON of `url`.
    pub(super) fn read(bytes: &[u8], url: &str) -> Result<Self, HubError> {
        let bad = |why: String| HubError::BadAnswer { url: url.to_owned(), why };
        let raw: RawListing = serde_json::from_slice(bytes).map_err(|error| bad(error.to_string()))?;
        if raw.sha.is_empty() || !raw.sha.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            return Err(bad(format!("'{}' is no commit", raw.sha)));
        }
        // A name that leads out of the repository is no file of it.
        let files = raw.siblings.into_iter().filter(|file| is_safe_path(&file.rfilename));
        Ok(Self { commit: raw.sha, files: files.map(RepoFile::of).collect() })
    }

    /// The file called `name`.
    pub(super) fn file(&self, name: &str) -> Option<&RepoFile> {
        self.files.iter().find(|file| file.name == name)
    }

    /// The names of all files.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.files.iter().map(|file| file.name.as_str())
    }
}

impl RepoFile {
    fn of(raw: RawFile) -> Self {
        let (size, etag) = match raw.lfs {
            Some(lfs) => (lfs.size.or(raw.size), lfs.sha256),
            None => (raw.size, raw.blob_id),
        };
        let content = size.zip(etag).and_then(|(size, etag)| Content::new(size, &etag));
        Self { name: raw.rfilename, content }
    }
}

impl Content {
    /// `None` for an etag that cannot be the name of a file.
    pub(super) fn new(size: u64, etag: &str) -> Option<Self> {
        let etag = etag.trim().trim_start_matches("W/").trim_matches('"');
        let named = etag.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
        (named && !etag.is_empty() && size <= LARGEST).then(|| Self { size, etag: etag.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_hashes_where_there_are_any() {
        let json = r#"{"id":"o/n","sha":"abc1","siblings":[{"rfilename":"a","size":3,"blobId":"01"},
            {"rfilename":"b","size":4,"blobId":"02","lfs":{"sha256":"ff","size":4,"pointerSize":1}},
            {"rfilename":"c"},{"rfilename":"../d"},{"rfilename":"e\u001b[2J"},{"rfilename":"/f"}]}"#;
        let listing = Listing::read(json.as_bytes(), "u").unwrap();
        assert_eq!(listing.commit, "abc1");
        let content = |name| listing.file(name).unwrap().content.clone();
        assert_eq!(content("a"), Some(Content { size: 3, etag: "01".into() }));
        assert_eq!(content("b"), Some(Content { size: 4, etag: "ff".into() }));
        assert_eq!((content("c"), listing.file("../d")), (None, None));
        assert_eq!(listing.names().collect::<Vec<_>>(), ["a", "b", "c"]);
    }

    #[test]
    fn other_answers_are_refused() {
        for bytes in ["<html>", "{}", r#"{"sha":"../x","siblings":[]}"#] {
            assert!(
                matches!(Listing::read(bytes.as_bytes(), "u"), Err(HubError::BadAnswer { .. })),
                "{bytes}"
            );
        }
    }

    #[test]
    fn etags_become_file_names() {
        assert_eq!(Content::new(1, "W/\"ab-1\"").unwrap().etag, "ab-1");
        assert_eq!(Content::new(1, "\"../x\""), None);
        assert_eq!(Content::new(1, "\"\""), None);
        assert_eq!(Content::new(u64::MAX, "ab"), None);
    }
}
