//! dflash-engine
