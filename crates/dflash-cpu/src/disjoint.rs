use std::marker::PhantomData;
use std::ops::Range;

/// A slice whose disjoint pieces the threads of a region write at the same time.
///
/// Safe Rust cannot hand out the pieces when their bounds follow from a thread's number, so the claim that
/// they are disjoint is made by the caller, once per piece, with `unsafe`.
#[derive(Clone, Copy)]
pub(crate) struct Disjoint<'a, T> {
    first: *mut T,
    len: usize,
    slice: PhantomData<&'a mut [T]>,
}

// SAFETY: it is an exclusive borrow of the slice that promises to be taken apart before it is shared.
unsafe impl<T: Send> Send for Disjoint<'_, T> {}
// SAFETY: as above; `piece` is the only access, and its caller answers for the pieces being disjoint.
unsafe impl<T: Send> Sync for Disjoint<'_, T> {}

impl<'a, T> Disjoint<'a, T> {
    /// Takes the slice for as long as pieces are in use.
    pub(crate) fn new(slice: &'a mut [T]) -> Self {
        Self { first: slice.as_mut_ptr(), len: slice.len(), slice: PhantomData }
    }

    /// The piece `range`.
    ///
    /// # Safety
    /// No other piece in use at the same time overlaps `range`.
    ///
    /// # Panics
    /// When the range leaves the slice.
    #[allow(clippy::mut_from_ref)]
    pub(crate) unsafe fn piece(&self, range: Range<usize>) -> &'a mut [T] {
        assert!(range.start <= range.end && range.end <= self.len, "{range:?} of {} elements", self.len);
        // SAFETY: the range lies in the slice, and the caller promises that nothing else uses it.
        unsafe { std::slice::from_raw_parts_mut(self.first.add(range.start), range.len()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::Pool;

    #[test]
    fn threads_fill_their_pieces() {
        let mut values = vec![0; 100];
        let pool = Pool::new(3);
        let target = Disjoint::new(&mut values);
        pool.split(100, &|_, range| {
            // SAFETY: pieces do not overlap.
            let piece = unsafe { target.piece(range.clone()) };
            piece.iter_mut().zip(range).for_each(|(value, index)| *value = index);
        });
        assert!(values.into_iter().eq(0..100));
    }

    #[test]
    #[should_panic(expected = "of 4 elements")]
    fn a_piece_outside_panics() {
        let mut values = [0; 4];
        // SAFETY: the only piece.
        let _ = unsafe { Disjoint::new(&mut values).piece(2..5) };
    }
}
