//! Weights that a thread multiplies next, fetched while it waits.
//!
//! A step is a chain of short products, each with weights of its own, that come from memory. Between two of them
//! threads wait for each other and inputs are prepared, and memory would stand idle. So a thread remembers where
//! its share of the next weight begins, and asks for lines of it whenever it has nothing else to do.

use std::cell::Cell;

/// Bytes that a thread fetches ahead: about what memory brings while attention runs, and a small part of a
/// core's own cache.
const MOST: usize = 64 << 10;

/// Bytes that come at once.
const LINE: usize = 64;

thread_local! {
    static AHEAD: Cell<[Stream; 2]> = const { Cell::new([Stream { next: 0, end: 0 }; 2]) };
}

/// Addresses of bytes that are read in order. They are fetched, never read, so nothing keeps them alive.
#[derive(Clone, Copy)]
struct Stream {
    next: usize,
    end: usize,
}

impl Stream {
    fn of(bytes: &[u8], most: usize) -> Self {
        let next = bytes.as_ptr().addr();
        Self { next, end: next + bytes.len().min(most) }
    }

    /// Asks for a line; false when all have been asked for.
    fn fetch(&mut self) -> bool {
        let more = self.next < self.end;
        if more {
            fetch(self.next);
            self.next += LINE;
        }
        more
    }
}

/// This thread will read `streams` side by side; an empty one is none.
pub(crate) fn announce(streams: [&[u8]; 2]) {
    let used = streams.iter().filter(|stream| !stream.is_empty()).count().max(1);
    AHEAD.set(streams.map(|bytes| Stream::of(bytes, MOST / used)));
}

/// Asks for at most `lines` lines of each stream; false when all have been asked for.
pub(crate) fn fetch_some(lines: usize) -> bool {
    let mut streams = AHEAD.get();
    let mut more = false;
    for _ in 0..lines {
        more = streams.iter_mut().fold(false, |more, stream| stream.fetch() | more);
        if !more {
            break;
        }
    }
    AHEAD.set(streams);
    more
}

#[cfg(target_arch = "x86_64")]
fn fetch(address: usize) {
    use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
    // SAFETY: it never faults, wherever it points.
    unsafe { _mm_prefetch::<_MM_HINT_T1>(std::ptr::without_provenance(address)) };
}

#[cfg(not(target_arch = "x86_64"))]
fn fetch(_address: usize) {}
