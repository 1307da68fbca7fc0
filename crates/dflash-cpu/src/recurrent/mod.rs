//! Layers with a state of fixed size: the gated delta rule and the gated short convolution.
//!
//! A row's step depends on its own inputs and on the state and the raw rows that its path left, one
//! operation after the other, so it has the same bits in a prompt, under verification, alone and in a tree.
//! When a pass is accepted in part, the same writes to the state are repeated from the tape.

mod conv;
mod delta;
mod job;
pub(crate) mod kernel;
mod layout;
mod store;
mod tape;

use dflash_tensor::{Batch, KeyHeadMap, RecurrentGeometry, RecurrentStore, SeqCache, Span};

pub(crate) use conv::short_conv;
pub(crate) use delta::gated_delta;

use crate::CpuBackend;
use crate::pool::Pool;
use job::Jobs;
use store::RecurrentState;

/// Elements below which the calling thread works alone: a region costs more than it saves.
const ALONE: usize = 16_384;

/// [`Backend::recurrent_state`](dflash_tensor::Backend::recurrent_state).
pub(crate) fn state(backend: &CpuBackend, geometry: RecurrentGeometry) -> Box<dyn RecurrentStore> {
    Box::new(RecurrentState::new(geometry, backend.isa, &backend.pool))
}

/// The spans of a batch with their states; `raw` are the raw rows of the batch.
fn jobs<'a>(
    geometry: RecurrentGeometry,
    key_heads: KeyHeadMap,
    layer: usize,
    batch: &'a Batch,
    caches: &'a mut [&mut SeqCache],
    raw: &[f32],
) -> Jobs<'a> {
    assert_eq!(batch.spans().len(), caches.len(), "a cache for every span");
    let channels = geometry.conv.channels;
    let job = |(span, cache): (&'a Span, &'a mut &mut SeqCache)| {
        let store = RecurrentState::of_mut(cache.layer_mut(layer).recurrent_mut());
        assert_eq!(store.geometry(), geometry, "a state of this layer");
        store.run(span, &raw[span.first_row * channels..][..span.rows * channels], key_heads)
    };
    Jobs::new(batch.spans().iter().zip(caches).map(job))
}

/// Calls `body` for every item in `0..items`, each of about `size` elements. A thread has the same items in every
/// call, so that states stay in the caches near it.
fn each(pool: &Pool, items: usize, size: usize, body: &(dyn Fn(usize) + Sync)) {
    if items * size < ALONE {
        return (0..items).for_each(body);
    }
    pool.split(items, &|_, own| own.for_each(body));
}
