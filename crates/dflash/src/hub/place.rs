//! How a snapshot's file leads to its content.

use std::fs;
use std::io;
use std::path::Path;

use super::HubError;

/// Makes `link`, which does not lead to the content yet, lead to `blob`.
pub(super) fn link(blob: &Path, link: &Path) -> Result<(), HubError> {
    let dir = link.parent().unwrap_or(link);
    fs::create_dir_all(dir).map_err(HubError::io("create", dir))?;
    if link.symlink_metadata().is_ok() {
        // It leads to nothing, or to another content.
        fs::remove_file(link).map_err(HubError::io("replace", link))?;
    }
    match make(blob, link) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(HubError::io("create", link)(error))
        }
        _ => Ok(()),
    }
}

#[cfg(unix)]
fn make(blob: &Path, link: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(relative(blob, link), link)
}

/// Links need a privilege there.
#[cfg(not(unix))]
fn make(blob: &Path, link: &Path) -> io::Result<()> {
    fs::hard_link(blob, link).or_else(|_| fs::copy(blob, link).map(|_| ()))
}

/// The way from `link`'s folder to `blob`, so that the whole cache can be moved.
#[cfg(any(unix, test))]
fn relative(blob: &Path, link: &Path) -> std::path::PathBuf {
    let common = blob.components().zip(link.components()).take_while(|(a, b)| a == b).count();
    let up = link.components().count() - common - 1;
    let down = blob.components().skip(common);
    std::iter::repeat_n(std::path::Component::ParentDir, up).chain(down).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_relative() {
        let way = |link: &str| relative(Path::new("/c/m/blobs/e"), Path::new(link));
        assert_eq!(way("/c/m/snapshots/1/a"), Path::new("../../blobs/e"));
        assert_eq!(way("/c/m/snapshots/1/d/a"), Path::new("../../../blobs/e"));
    }
}
