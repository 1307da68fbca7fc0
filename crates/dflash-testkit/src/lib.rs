//! dflash-testkit
