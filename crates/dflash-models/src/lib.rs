//! dflash-models
