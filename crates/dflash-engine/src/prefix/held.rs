use std::collections::HashMap;

use super::Snapshot;

/// The memory of states that share parts: each part counts once.
#[derive(Default)]
pub(super) struct Held {
    /// States that hold a part, by its address.
    holders: HashMap<usize, usize>,
    bytes: usize,
}

impl Held {
    /// Bytes that all states hold together.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// One more state.
    pub fn add(&mut self, snapshot: &Snapshot) {
        snapshot.parts(&mut |address, bytes| {
            let holders = self.holders.entry(address).or_default();
            *holders += 1;
            if *holders == 1 {
                self.bytes += bytes;
            }
        });
    }

    /// One of them goes. It is still there, so no other part has an address of its.
    pub fn remove(&mut self, snapshot: &Snapshot) {
        snapshot.parts(&mut |address, bytes| {
            if let Some(holders) = self.holders.get_mut(&address) {
                *holders -= 1;
                if *holders == 0 {
                    self.holders.remove(&address);
                    self.bytes -= bytes;
                }
            }
        });
    }
}
