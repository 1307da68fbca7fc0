//! dflash-text
