//! States of prompts and answers in files, so that a conversation goes on after a restart without being read again.
//!
//! A folder for each set of weights holds a file for each state (`file`). Who opens a folder first writes there, all
//! others read (`folder`). Files are read and written by threads of their own (`tier`); whatever is wrong with one
//! makes it a miss, never an error.

mod args;
mod choice;
mod file;
mod folder;
mod key;
mod space;
mod tier;

pub use args::PrefixArgs;
pub use choice::PrefixChoice;
pub use key::PrefixKey;
pub use space::room;
pub use tier::{DiskOptions, DiskTier};
