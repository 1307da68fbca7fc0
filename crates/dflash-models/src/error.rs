use std::fmt;
use std::path::PathBuf;

use dflash_tensor::BackendError;

/// Why a checkpoint cannot be loaded. Every text names the file or key at fault and, where there is
/// something to do about it, says what.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// The operating system refused.
    #[error("cannot read {path}")]
    Io {
        /// File or directory.
        path: PathBuf,
        /// What it said.
        source: std::io::Error,
    },
    /// A pipe, a device or a directory stands where a file belongs.
    #[error("{path} is not a regular file")]
    NotAFile {
        /// What was to be read.
        path: PathBuf,
    },
    /// The path is not a checkpoint of any kind that is read.
    #[error("{path} is not a checkpoint: {why}")]
    NotACheckpoint {
        /// File or directory.
        path: PathBuf,
        /// What is missing, and what would be right.
        why: String,
    },
    /// A JSON file does not parse.
    #[error("{path} is not valid JSON")]
    Json {
        /// File.
        path: PathBuf,
        /// Where and why.
        source: serde_json::Error,
    },
    /// A container does not hold together.
    #[error("{path} is damaged: {what}; an unfinished or broken download is the usual cause")]
    Damaged {
        /// File.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// The file is a git-lfs pointer, the weights were never fetched.
    #[error(
        "{path} is a git-lfs pointer, not the weights themselves: run `git lfs pull` or download the file again"
    )]
    LfsPointer {
        /// File.
        path: PathBuf,
    },
    /// Files of a sharded checkpoint are absent or too short.
    #[error(
        "{dir} is incomplete{}{}; this looks like an unfinished download: fetch these files again",
        list("missing", missing),
        list("too short", short)
    )]
    Incomplete {
        /// Checkpoint directory.
        dir: PathBuf,
        /// Files that the index names and the directory lacks.
        missing: Vec<String>,
        /// Files that end before their own header says.
        short: Vec<String>,
    },
    /// A part of a split GGUF model that does not go with the others.
    #[error("{path} is no part of this split GGUF model: {what}; fetch the parts of one download again")]
    SplitGguf {
        /// Part.
        path: PathBuf,
        /// What it or its siblings say.
        what: String,
    },
    /// A tensor is stored in a format without reader.
    #[error(
        "tensor {tensor} in {path} is stored as {format}, which is not supported (supported: {supported})"
    )]
    UnsupportedFormat {
        /// File.
        path: PathBuf,
        /// Name in the file.
        tensor: String,
        /// Its format.
        format: String,
        /// What can be read.
        supported: &'static str,
    },
    /// No family of this kind.
    #[error("model type {found:?} of {path} is not supported (supported: {supported})")]
    UnsupportedModel {
        /// File that names it.
        path: PathBuf,
        /// `model_type` or GGUF architecture.
        found: String,
        /// Those that are.
        supported: String,
    },
    /// A draft was given where a target belongs.
    #[error(
        "{path} is a draft model ({kind}), not a target: give it as the draft and name the target it was trained for as the model"
    )]
    DraftAsTarget {
        /// Checkpoint.
        path: PathBuf,
        /// What gave it away.
        kind: String,
    },
    /// Something else was given where a draft belongs.
    #[error("{path} is not a DFlash draft: {found}")]
    NotADraft {
        /// Checkpoint.
        path: PathBuf,
        /// What it is instead.
        found: String,
    },
    /// A required key is absent.
    #[error("{path} lacks the key `{key}`")]
    MissingKey {
        /// Config file.
        path: PathBuf,
        /// Dotted path of the key.
        key: String,
    },
    /// A key has a value of another type or range.
    #[error("{path}: `{key}` is {found}, expected {expected}")]
    BadValue {
        /// Config file.
        path: PathBuf,
        /// Dotted path of the key.
        key: String,
        /// The value.
        found: String,
        /// What it should be.
        expected: String,
    },
    /// Two places of a config say different things.
    #[error("{path}: `{first}` is {first_value}, but `{second}` is {second_value}; remove the wrong one")]
    Conflict {
        /// Config file.
        path: PathBuf,
        /// One place.
        first: String,
        /// What it says.
        first_value: String,
        /// The other place.
        second: String,
        /// What it says.
        second_value: String,
    },
    /// A key asks for mathematics that is not implemented.
    #[error(
        "{path}: `{key}` = {value} changes the mathematics of the model and is not supported{}",
        why(reason)
    )]
    Refused {
        /// Config file.
        path: PathBuf,
        /// Dotted path of the key.
        key: String,
        /// Its value.
        value: String,
        /// What is supported instead; may be empty.
        reason: &'static str,
    },
    /// A tensor that the model needs is absent.
    #[error("tensor {tensor} is missing in {path}")]
    MissingTensor {
        /// Checkpoint.
        path: PathBuf,
        /// Name by the file's own rule where it can be told, with the canonical one.
        tensor: String,
    },
    /// A tensor has another shape than the config asks for.
    #[error("tensor {tensor} in {path} has shape {found:?}, expected {expected:?}")]
    WrongShape {
        /// Checkpoint.
        path: PathBuf,
        /// Name in the file.
        tensor: String,
        /// Shape by the config.
        expected: Vec<usize>,
        /// Shape in the file.
        found: Vec<usize>,
    },
    /// A tensor has another element type than its use allows.
    #[error("tensor {tensor} in {path} is stored as {found}, expected {expected}")]
    WrongElement {
        /// Checkpoint.
        path: PathBuf,
        /// Name in the file.
        tensor: String,
        /// Types that work.
        expected: &'static str,
        /// Type in the file.
        found: String,
    },
    /// Tensors that no part of the model would use.
    #[error("{path} holds tensors that this model does not use: {}; it is a variant that is not supported", names.join(", "))]
    UnusedTensors {
        /// Checkpoint.
        path: PathBuf,
        /// Names in the file.
        names: Vec<String>,
    },
    /// A tensor of a known variant that is not implemented.
    #[error("{path} holds {tensor}: {what} is not supported")]
    RefusedTensor {
        /// Checkpoint.
        path: PathBuf,
        /// Tensor or file name.
        tensor: String,
        /// The feature it belongs to.
        what: &'static str,
    },
    /// The embedding is tied and has a head of its own, or neither.
    #[error("{path}: {what}")]
    Tie {
        /// Checkpoint.
        path: PathBuf,
        /// The contradiction.
        what: &'static str,
    },
    /// Quantisation settings and tensors do not agree.
    #[error("{path}: quantization of `{module}`: {what}")]
    Quantization {
        /// Config file.
        path: PathBuf,
        /// Module path, or the name of the config section.
        module: String,
        /// What is wrong.
        what: String,
    },
    /// The draft was made for another target.
    #[error("the draft {path} does not fit the target:{}", each(differences))]
    Mismatch {
        /// Draft checkpoint.
        path: PathBuf,
        /// Every difference found.
        differences: Vec<Difference>,
    },
    /// A tensor holds values that cannot be right.
    #[error("tensor {tensor} in {path} holds {what}")]
    BadTensor {
        /// Checkpoint.
        path: PathBuf,
        /// Name in the file.
        tensor: String,
        /// What is wrong with its values.
        what: String,
    },
    /// The backend cannot hold a matrix.
    #[error("cannot pack {tensor} of {path}")]
    Pack {
        /// Checkpoint.
        path: PathBuf,
        /// Matrices that were to share a weight.
        tensor: String,
        /// Why.
        source: BackendError,
    },
}

/// One field in which a draft and its target disagree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Field of the draft's config.
    pub field: String,
    /// What the draft says.
    pub draft: String,
    /// What the target has.
    pub target: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is {}, the target has {}", self.field, self.draft, self.target)
    }
}

fn list(what: &str, names: &[String]) -> String {
    const SHOWN: usize = 16;
    match names {
        [] => String::new(),
        _ if names.len() > SHOWN => {
            format!(", {what}: {} and {} more", names[..SHOWN].join(", "), names.len() - SHOWN)
        }
        _ => format!(", {what}: {}", names.join(", ")),
    }
}

fn why(reason: &str) -> String {
    if reason.is_empty() { String::new() } else { format!(" ({reason})") }
}

fn each(differences: &[Difference]) -> String {
    differences
        .iter()
        .map(|difference| format!(" {difference};"))
        .collect::<String>()
        .trim_end_matches(';')
        .into()
}
