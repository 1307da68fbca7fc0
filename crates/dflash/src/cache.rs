//! The directory that keeps what was downloaded or unpacked.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::env::Environment;
use crate::report::{Failure, Outcome};
use crate::setting::{Origin, Setting};

/// The cache directory; it is made when something is first stored in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheDir(PathBuf);

/// A file in the cache.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CachedFile {
    /// Path below the cache directory, with `/` between its parts.
    pub name: String,
    /// Its size.
    pub bytes: u64,
}

impl CacheDir {
    /// A cache at `root`.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self(root.into())
    }

    /// Where the cache is: `DFLASH_CACHE`, else the platform's place for caches. `None` when there is
    /// no home directory: that only matters to a run that needs the cache.
    pub fn place(env: &Environment) -> Setting<Option<PathBuf>> {
        // Absolute, because downloaders run in a folder of their own.
        let absolute = |path: PathBuf| std::path::absolute(&path).unwrap_or(path);
        match env.path("DFLASH_CACHE") {
            Some(path) => Setting::new(Some(absolute(path)), Origin::Env),
            None => Setting::new(platform_cache(env), Origin::Default),
        }
    }

    /// The cache at `place`, or why there is none.
    pub fn at(place: Option<&Path>) -> Outcome<Self> {
        place.map(Self::new).ok_or_else(|| {
            Failure::new("no place for the cache directory: there is no home directory")
                .hint("set DFLASH_CACHE to a directory that can be written")
        })
    }

    /// The directory itself.
    pub fn root(&self) -> &Path {
        &self.0
    }

    /// Every file in the cache, sorted by name. Temporary files and locks, whose names begin with a
    /// dot, are not listed.
    pub fn files(&self) -> io::Result<Vec<CachedFile>> {
        let mut files = Vec::new();
        collect(&self.0, "", &mut files)?;
        files.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(files)
    }
}

#[cfg(windows)]
fn platform_cache(env: &Environment) -> Option<PathBuf> {
    let local = env.path("LOCALAPPDATA").or_else(|| Some(env.home()?.join("AppData").join("Local")));
    Some(local?.join("dflash"))
}

#[cfg(target_os = "macos")]
fn platform_cache(env: &Environment) -> Option<PathBuf> {
    Some(env.home()?.join("Library").join("Caches").join("dflash"))
}

#[cfg(not(any(windows, target_os = "macos")))]
fn platform_cache(env: &Environment) -> Option<PathBuf> {
    // The XDG rules say that a relative path in the variable is to be ignored.
    let xdg = env.path("XDG_CACHE_HOME").filter(|path| path.is_absolute());
    Some(xdg.or_else(|| Some(env.home()?.join(".cache")))?.join("dflash"))
}

fn collect(dir: &Path, prefix: &str, files: &mut Vec<CachedFile>) -> io::Result<()> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        other => other?,
    };
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{prefix}{name}");
        match entry.file_type()? {
            _ if name.starts_with('.') => {}
            kind if kind.is_dir() => collect(&entry.path(), &format!("{path}/"), files)?,
            _ => files.push(CachedFile { name: path, bytes: entry.metadata()?.len() }),
        }
    }
    Ok(())
}

/// A size for people, in powers of ten as disks and downloads are labelled.
pub fn human_bytes(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["kB", "MB", "GB", "TB"];
    if bytes < 1000 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1000.0;
    let mut unit = 0;
    while value >= 999.95 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_wins() {
        let env = Environment::from_pairs([("DFLASH_CACHE", "/c"), ("HOME", "/h"), ("XDG_CACHE_HOME", "/x")]);
        assert_eq!(CacheDir::place(&env), Setting::new(Some(PathBuf::from("/c")), Origin::Env));
    }

    #[cfg(all(unix, not(target_os = "macos")))]
    #[test]
    fn the_platform_place() {
        let place =
            |pairs: &[(&str, &str)]| CacheDir::place(&Environment::from_pairs(pairs.iter().copied())).value;
        assert_eq!(place(&[("HOME", "/h"), ("XDG_CACHE_HOME", "/x")]).unwrap(), PathBuf::from("/x/dflash"));
        assert_eq!(
            place(&[("HOME", "/h"), ("XDG_CACHE_HOME", "rel")]).unwrap(),
            PathBuf::from("/h/.cache/dflash")
        );
        assert_eq!(place(&[("HOME", "/h")]).unwrap(), PathBuf::from("/h/.cache/dflash"));
        assert_eq!(place(&[]), None);
        assert!(CacheDir::at(None).is_err());
    }

    #[test]
    fn files_are_listed_sorted_without_the_hidden_ones() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("b")).unwrap();
        fs::write(dir.path().join("b/two"), b"22").unwrap();
        fs::write(dir.path().join("a"), b"1").unwrap();
        fs::write(dir.path().join(".lock"), b"").unwrap();
        let files = CacheDir::new(dir.path()).files().unwrap();
        let expected = [("a", 1), ("b/two", 2)].map(|(name, bytes)| CachedFile { name: name.into(), bytes });
        assert_eq!(files, expected);
        assert!(CacheDir::new(dir.path().join("absent")).files().unwrap().is_empty());
    }

    #[test]
    fn sizes_for_people() {
        for (bytes, text) in
            [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (98_362_432, "98.4 MB"), (999_960_000, "1.0 GB")]
        {
            assert_eq!(human_bytes(bytes), text);
        }
    }
}
