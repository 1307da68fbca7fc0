//! The dflash binary.
fn main() {}
