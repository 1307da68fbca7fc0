//! dflash-tensor
