//! The environment variables, read once at start.
//!
//! Nothing else in this crate asks the process for a variable: a test hands in its own set, and a
//! child process gets exactly the set that decided to start it.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use crate::report::Failure;

/// A snapshot of environment variables.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Environment(BTreeMap<OsString, OsString>);

impl Environment {
    /// The variables of this process.
    pub fn of_process() -> Self {
        Self(std::env::vars_os().collect())
    }

    /// A set given by the caller.
    pub fn from_pairs<K: Into<OsString>, V: Into<OsString>>(pairs: impl IntoIterator<Item = (K, V)>) -> Self {
        Self(pairs.into_iter().map(|(key, value)| (key.into(), value.into())).collect())
    }

    /// The value of `name`; an empty variable counts as unset, as shells commonly treat it.
    pub fn get(&self, name: &str) -> Option<&OsStr> {
        self.0.get(OsStr::new(name)).map(OsString::as_os_str).filter(|value| !value.is_empty())
    }

    /// The value of `name` as trimmed text.
    pub fn text(&self, name: &str) -> Result<Option<&str>, Failure> {
        let Some(value) = self.get(name) else { return Ok(None) };
        match value.to_str() {
            Some(text) => Ok(Some(text.trim()).filter(|text| !text.is_empty())),
            None => Err(Failure::usage(format!("the environment variable {name} is not valid UTF-8"))),
        }
    }

    /// The value of `name` as a path.
    pub fn path(&self, name: &str) -> Option<PathBuf> {
        self.get(name).map(PathBuf::from)
    }

    /// The user's home directory.
    pub fn home(&self) -> Option<PathBuf> {
        self.path(if cfg!(windows) { "USERPROFILE" } else { "HOME" })
    }

    /// Every variable, as a child process needs them.
    pub fn iter(&self) -> impl Iterator<Item = (&OsString, &OsString)> {
        self.0.iter()
    }

    /// The first executable called `name` on this environment's `PATH`, as an absolute path.
    pub fn find_program(&self, name: &str) -> Option<PathBuf> {
        let file = format!("{name}{}", std::env::consts::EXE_SUFFIX);
        let path = self.get("PATH")?;
        let candidates = std::env::split_paths(path).map(|dir| dir.join(&file));
        let found = candidates.into_iter().find(|candidate| is_executable(candidate))?;
        std::path::absolute(found).ok()
    }
}

#[cfg(unix)]
fn is_executable(path: &std::path::Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_executable(path: &std::path::Path) -> bool {
    path.is_file()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_variable_is_unset() {
        let env = Environment::from_pairs([("A", ""), ("B", " "), ("C", " x ")]);
        assert_eq!(env.get("A"), None);
        assert_eq!(env.text("B").unwrap(), None);
        assert_eq!(env.text("C").unwrap(), Some("x"));
    }
}
