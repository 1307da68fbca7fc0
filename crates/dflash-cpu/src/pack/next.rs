//! The order in which weights are multiplied, learnt from the last time.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::{Packed, PackedPart};
use crate::ahead;
use crate::pool::share;

/// How the threads of a pool share out the groups of a weight.
#[derive(Clone, Copy)]
pub(crate) enum Walk {
    /// Part after part, so many groups at a time.
    Along(usize),
    /// Two parts side by side.
    Paired,
}

/// What was multiplied after a weight the last time.
#[derive(Default)]
pub(crate) struct Next(Mutex<Option<(Weak<Packed>, Walk)>>);

/// The weight that was multiplied last.
#[derive(Default)]
pub(crate) struct Trail(Weak<Packed>);

/// What is likely to be multiplied next.
pub(crate) struct Guess(Option<(Arc<Packed>, Walk)>);

impl Trail {
    /// `packed` is multiplied now.
    pub(crate) fn step(&mut self, packed: &Arc<Packed>, walk: Walk) -> Guess {
        if let Some(last) = self.0.upgrade() {
            last.next.set(packed, walk);
        }
        self.0 = Arc::downgrade(packed);
        Guess(packed.next.get())
    }
}

impl Next {
    fn set(&self, packed: &Arc<Packed>, walk: Walk) {
        let next = Some((Arc::downgrade(packed), walk));
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = next;
    }

    fn get(&self) -> Option<(Arc<Packed>, Walk)> {
        let next = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        next.as_ref().and_then(|(next, walk)| Some((next.upgrade()?, *walk)))
    }
}

impl Guess {
    /// Thread `thread` of `threads` is done with its share of this weight.
    pub(crate) fn announce(&self, thread: usize, threads: usize) {
        if let Some((packed, walk)) = &self.0 {
            ahead::announce(packed.streams(*walk, thread, threads));
        }
    }
}

impl Packed {
    /// What thread `thread` of `threads` reads first: to the end of the part, each.
    fn streams(&self, walk: Walk, thread: usize, threads: usize) -> [&[u8]; 2] {
        match walk {
            Walk::Paired => {
                let first = share(self.parts[0].groups(), thread, threads).start;
                [self.parts[0].from(first), self.parts[1].from(first)]
            }
            Walk::Along(unit) => {
                let groups: usize = self.parts.iter().map(PackedPart::groups).sum();
                let mut first = share(groups.div_ceil(unit), thread, threads).start * unit;
                let part = self.parts.iter().find(|part| {
                    let here = first < part.groups();
                    first -= if here { 0 } else { part.groups() };
                    here
                });
                [part.map_or(&[], |part| part.from(first)), &[]]
            }
        }
    }
}

impl PackedPart {
    /// The bytes from group `group` on.
    fn from(&self, group: usize) -> &[u8] {
        &self.bytes[group * self.group_bytes()..]
    }
}

#[cfg(test)]
mod tests {
    use dflash_tensor::{Backend, Format, Part, Weight};

    use super::*;
    use crate::{CpuBackend, Isa};

    /// Parts of so many outputs with 32 inputs.
    fn weight(backend: &CpuBackend, outputs: &[usize]) -> Weight {
        let bytes: Vec<Vec<u8>> = outputs.iter().map(|rows| vec![0; rows * 4 * 32]).collect();
        let parts = outputs.iter().zip(&bytes);
        let parts: Vec<Part<'_>> =
            parts.map(|(&rows, bytes)| Part::plain(Format::F32, rows, 32, bytes)).collect();
        backend.pack(&parts).unwrap()
    }

    #[test]
    fn a_thread_begins_where_its_share_does() {
        let backend = CpuBackend::new(1, Isa::Scalar);
        let weight = weight(&backend, &[48, 80]);
        let [first, second] = &Packed::of(&weight).parts[..] else { panic!("two parts") };
        let begin = |walk, thread, threads| {
            let streams = Packed::of(&weight).streams(walk, thread, threads);
            streams.map(|stream| (!stream.is_empty()).then_some(stream.as_ptr()))
        };
        let at = |part: &PackedPart, group| Some(part.group(group).as_ptr());
        // Eight groups: three of the first part, five of the second.
        assert_eq!(begin(Walk::Along(1), 0, 2), [at(first, 0), None]);
        assert_eq!(begin(Walk::Along(1), 1, 2), [at(second, 1), None]);
        assert_eq!(begin(Walk::Along(1), 1, 4), [at(first, 2), None]);
        assert_eq!(begin(Walk::Along(3), 1, 3), [at(second, 0), None]);
        assert_eq!(begin(Walk::Paired, 1, 3), [at(first, 1), at(second, 1)]);
    }

    #[test]
    fn what_followed_is_expected_again_until_it_is_gone() {
        let backend = CpuBackend::new(1, Isa::Scalar);
        let [a, b] = [weight(&backend, &[16]), weight(&backend, &[16])];
        let step = |trail: &mut Trail, weight: &Weight| trail.step(Packed::of(weight), Walk::Along(1)).0;
        let mut trail = Trail::default();
        assert!(step(&mut trail, &a).is_none() && step(&mut trail, &b).is_none());
        let (next, _) = step(&mut trail, &a).expect("what followed");
        assert!(Arc::ptr_eq(&next, Packed::of(&b)));
        drop((next, b));
        assert!(step(&mut Trail::default(), &a).is_none(), "it is gone");
    }
}
