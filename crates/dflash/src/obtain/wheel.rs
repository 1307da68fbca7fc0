//! Which file of which wheel, and how to know it.

use serde::Deserialize;

/// One file inside a wheel.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct WheelFile {
    /// The package's name.
    pub package: String,
    /// The exact version.
    pub version: String,
    /// The file's path inside the wheel, with `/`.
    pub member: String,
    /// The file's size in bytes.
    pub size: u64,
    /// About how many bytes are downloaded; only for showing progress.
    pub download_size: u64,
    /// The file's SHA-256 in lower-case hex.
    pub sha256: String,
}

impl WheelFile {
    /// The file's name without folders.
    pub fn file_name(&self) -> &str {
        self.member.rsplit('/').next().unwrap_or(&self.member)
    }

    /// The exact requirement, as package downloaders read it.
    pub fn requirement(&self) -> String {
        format!("{}=={}", self.package, self.version)
    }
}
