//! Own reader of the GGUF container, versions 2 and 3. Every length is checked against the bytes that are
//! left before anything is allocated for it.

mod cursor;
mod file;
mod metadata;

pub(crate) use file::Gguf;
pub(crate) use metadata::Metadata;
