//! How a repository of the Hub is named.

use std::fmt;

/// What a repository is for. The Hub keeps each kind in a place of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RepoKind {
    /// Weights and what belongs to them.
    Model,
    /// Rows of text.
    Dataset,
}

impl RepoKind {
    /// Its name in the paths of the Hub's interface and of its cache.
    pub(super) fn plural(self) -> &'static str {
        match self {
            Self::Model => "models",
            Self::Dataset => "datasets",
        }
    }
}

/// `organisation/name`, with what may follow: `@revision` and `:file`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HubId {
    /// What it is for.
    pub kind: RepoKind,
    /// `organisation/name`, or a bare name that something else has to complete.
    pub repo: String,
    /// Branch, tag or commit; `None` is `main`.
    pub revision: Option<String>,
    /// A GGUF file, or the quantisation tag of one.
    pub file: Option<String>,
}

/// The revision of an id that names none.
pub(super) const MAIN: &str = "main";
const LONGEST_PART: usize = 96;

impl HubId {
    /// Reads an id; `None` for what can only be a path.
    pub fn parse(text: &str) -> Option<Self> {
        let (name, file) = split(text, ':');
        let (repo, revision) = split(name, '@');
        let parts: Vec<&str> = repo.split('/').collect();
        let named = parts.len() <= 2 && parts.iter().all(|part| is_part(part));
        let valid = named && [revision, file].iter().flatten().all(|path| is_safe_path(path));
        let is_file = file.is_none() && has_weight_extension(repo);
        (valid && !is_file).then(|| Self {
            kind: RepoKind::Model,
            repo: repo.to_owned(),
            revision: revision.map(str::to_owned),
            file: file.map(str::to_owned),
        })
    }

    /// A repository of a model at its `main` revision.
    pub fn of_repo(repo: &str) -> Self {
        Self { kind: RepoKind::Model, repo: repo.to_owned(), revision: None, file: None }
    }

    /// A dataset at its `main` revision.
    pub fn of_dataset(repo: &str) -> Self {
        Self { kind: RepoKind::Dataset, ..Self::of_repo(repo) }
    }

    /// The same revision and file of another repository.
    pub fn with_repo(self, repo: &str) -> Self {
        Self { repo: repo.to_owned(), ..self }
    }

    /// Whether it names an organisation, without which nothing can be downloaded.
    pub fn is_full(&self) -> bool {
        self.repo.contains('/')
    }

    /// The revision that is meant.
    pub fn revision(&self) -> &str {
        self.revision.as_deref().unwrap_or(MAIN)
    }

    /// Its page, and what the addresses of its files begin with.
    pub(super) fn page(&self, endpoint: &str) -> String {
        match self.kind {
            RepoKind::Model => format!("{endpoint}/{}", self.repo),
            kind => format!("{endpoint}/{}/{}", kind.plural(), self.repo),
        }
    }

    /// What the model may be called: its file says more than its repository.
    pub fn names(&self) -> Vec<String> {
        let file = self.file.iter().filter(|file| has_weight_extension(file)).cloned();
        file.chain([self.repo.clone()]).collect()
    }
}

impl fmt::Display for HubId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.repo)?;
        self.revision.iter().try_for_each(|revision| write!(f, "@{revision}"))?;
        self.file.iter().try_for_each(|file| write!(f, ":{file}"))
    }
}

fn split(text: &str, mark: char) -> (&str, Option<&str>) {
    text.split_once(mark).map_or((text, None), |(before, after)| (before, Some(after)))
}

/// The Hub's own rule, less what could lead out of a cache directory.
fn is_part(part: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    (1..=LONGEST_PART).contains(&part.len())
        && part.chars().all(allowed)
        && !part.starts_with(['.', '-'])
        && !part.contains("..")
        && !part.contains("--")
}

/// A relative path with `/` that stays below where it begins.
pub(super) fn is_safe_path(path: &str) -> bool {
    let bad = |part: &str| part.is_empty() || part == "." || part == "..";
    !path.split('/').any(bad) && !path.contains(['\\', ':']) && !path.contains(char::is_control)
}

fn has_weight_extension(name: &str) -> bool {
    let lower = name.to_lowercase();
    [".gguf", ".safetensors"].iter().any(|extension| lower.ends_with(extension))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(text: &str) -> Option<(String, Option<String>, Option<String>)> {
        HubId::parse(text).map(|id| (id.repo, id.revision, id.file))
    }

    #[test]
    fn ids_with_what_may_follow() {
        for (text, repo, revision, file) in [
            ("org/name", "org/name", None, None),
            ("name-4bit", "name-4bit", None, None),
            ("org/name@v1.0", "org/name", Some("v1.0"), None),
            ("org/name@refs/pr/3", "org/name", Some("refs/pr/3"), None),
            ("org/name:Q4_K_M", "org/name", None, Some("Q4_K_M")),
            ("org/name@abc:sub/m.Q8_0.gguf", "org/name", Some("abc"), Some("sub/m.Q8_0.gguf")),
        ] {
            let owned = |text: Option<&str>| text.map(str::to_owned);
            assert_eq!(parts(text), Some((repo.to_owned(), owned(revision), owned(file))), "{text}");
            assert_eq!(HubId::parse(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn paths_are_no_ids() {
        for text in [
            "",
            "./name",
            "../name",
            "/abs/name",
            "~/name",
            "a/b/c",
            "org/",
            "org/file.gguf",
            "model.safetensors",
            r"C:\models\m",
            "org/name@",
            "org/name:",
            "org/name:../m.gguf",
            "org/name@../x",
            "org/name@a\u{1b}[2J",
            "org/name:m\n.gguf",
            "org/a--b",
            "org/..",
        ] {
            assert_eq!(parts(text), None, "{text}");
        }
    }
}
