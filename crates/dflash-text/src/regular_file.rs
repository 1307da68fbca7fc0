use std::io;
use std::path::Path;

use crate::TextError;

/// The content of a file, `None` where there is none. A pipe or a device is refused: reading one may never end.
pub(crate) fn read_if_there(path: &Path) -> Result<Option<Vec<u8>>, TextError> {
    match read_regular(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(TextError::Io { path: path.to_owned(), source }),
    }
}

/// The content of a regular file.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, TextError> {
    read_regular(path).map_err(|source| TextError::Io { path: path.to_owned(), source })
}

fn read_regular(path: &Path) -> io::Result<Vec<u8>> {
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    }
    std::fs::read(path)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use crate::{Tokenizer, TokenizerConfig};

    #[test]
    fn a_pipe_is_refused_and_not_waited_for() {
        for name in ["tokenizer.json", "tokenizer_config.json", "chat_template.jinja"] {
            let folder = tempfile::tempdir().unwrap();
            let pipe = folder.path().join(name);
            assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
            let error = match name {
                "tokenizer.json" => Tokenizer::from_folder(folder.path()).unwrap_err(),
                _ => TokenizerConfig::from_folder(folder.path()).unwrap_err(),
            };
            assert!(matches!(&error, TextError::Io { path, source }
                if *path == pipe && source.to_string().contains("not a regular file")));
        }
    }
}
