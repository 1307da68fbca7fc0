//! dflash-cpu
