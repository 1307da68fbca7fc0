//! Own reader of the GGUF container, versions 2 and 3, whole or split. Every length is checked against the
//! bytes that are left before anything is allocated for it.

mod cursor;
mod file;
mod metadata;
mod split;
mod value;

pub(crate) use metadata::Metadata;
pub(crate) use split::Gguf;
