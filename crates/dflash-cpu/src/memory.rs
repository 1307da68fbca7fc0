//! Memory for weights and recurrent states, in huge pages where the system has them: with pages of 4 KiB a core
//! that streams weights waits for their addresses as often as for themselves.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use memmap2::MmapMut;

/// Bytes asked of the system at a time. What is not touched takes no memory.
const CHUNK: usize = 64 << 20;

/// A huge page of common machines.
const PAGE: usize = 2 << 20;

/// Where every piece begins: a cache line.
const LINE: usize = 64;

/// Gives out pieces of chunks; a chunk lives as long as any of its pieces.
#[derive(Default)]
pub(crate) struct Memory {
    chunk: Option<Arc<Chunk>>,
    /// Bytes of `chunk` that are given out.
    used: usize,
}

impl Memory {
    /// Some bytes, all zero.
    ///
    /// # Panics
    /// When the system has no more.
    pub(crate) fn zeroed(&mut self, len: usize) -> Bytes {
        if len > CHUNK / 2 {
            return Bytes::alone(len);
        }
        let first = self.used.next_multiple_of(LINE);
        match &self.chunk {
            Some(chunk) if first + len <= CHUNK => {
                self.used = first + len;
                Bytes { chunk: Arc::clone(chunk), first, len }
            }
            _ => {
                let chunk = Arc::new(Chunk::new(CHUNK));
                (self.chunk, self.used) = (Some(Arc::clone(&chunk)), len);
                Bytes { chunk, first: 0, len }
            }
        }
    }
}

/// Zeroed memory of the system, beginning on a huge page.
struct Chunk {
    first: *mut u8,
    _map: MmapMut,
}

// SAFETY: its bytes are reached through `Bytes` alone, which do not overlap and are borrowed as a `Vec` is.
unsafe impl Send for Chunk {}
// SAFETY: as above.
unsafe impl Sync for Chunk {}

impl Chunk {
    fn new(len: usize) -> Self {
        let mut map = MmapMut::map_anon(len + PAGE)
            .unwrap_or_else(|error| panic!("no memory for {len} bytes: {error}"));
        let offset = map.as_ptr().addr().next_multiple_of(PAGE) - map.as_ptr().addr();
        // A wish: without huge pages everything works, more slowly.
        #[cfg(target_os = "linux")]
        if len >= PAGE {
            let _ = map.advise_range(memmap2::Advice::HugePage, offset, len);
        }
        Self { first: map[offset..].as_mut_ptr(), _map: map }
    }
}

/// A piece of memory of one owner.
pub(crate) struct Bytes {
    chunk: Arc<Chunk>,
    first: usize,
    len: usize,
}

impl Bytes {
    /// Some bytes, all zero, that go back to the system by themselves.
    ///
    /// # Panics
    /// When the system has no more.
    pub(crate) fn alone(len: usize) -> Self {
        Self { chunk: Arc::new(Chunk::new(len)), first: 0, len }
    }
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the piece lies in the chunk, which it keeps, and nobody else has it.
        unsafe { std::slice::from_raw_parts(self.chunk.first.add(self.first), self.len) }
    }
}

impl DerefMut for Bytes {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts_mut(self.chunk.first.add(self.first), self.len) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_zero_aligned_and_apart() {
        let mut memory = Memory::default();
        let lens = [0, 1, 63, 64, 65, CHUNK / 2, CHUNK / 2, 7, CHUNK + 1, 5];
        let mut pieces: Vec<Bytes> = lens.iter().map(|&len| memory.zeroed(len)).collect();
        for (index, piece) in pieces.iter_mut().enumerate() {
            assert!(piece.as_ptr().addr().is_multiple_of(LINE));
            assert!(piece.iter().all(|&byte| byte == 0), "piece {index}");
            piece.fill(index as u8 + 1);
        }
        drop(memory);
        for (index, (piece, len)) in pieces.iter().zip(lens).enumerate() {
            assert!(piece.len() == len && piece.iter().all(|&byte| byte == index as u8 + 1), "piece {index}");
        }
    }
}
