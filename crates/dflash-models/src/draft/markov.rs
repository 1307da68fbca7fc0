use std::sync::Arc;

use dflash_tensor::{Backend, Pre, Tail, Tensor, Weight};

use super::config::DraftConfig;
use crate::loader::{Loader, Wanted};
use crate::workspace::grow;
use crate::{ModelError, Target};

const EMBEDDING: &str = "markov_head.markov_w1";
const OUTPUT: &str = "markov_head.markov_w2";

/// Corrects the logits of a position by the token before it, `logits += w2 · w1[previous]`: the "vanilla" Markov head
/// of DSpark. A block is drafted in one pass and still every position knows what stands before it.
pub(super) struct MarkovHead {
    /// `w1`: `[target ids or more, rank]`.
    embedding: Arc<Weight>,
    /// `w2`: `[ids of the draft, rank]`.
    output: Weight,
}

/// Scratch of a [`MarkovHead`].
pub(super) struct Correction {
    /// `w1[previous]` of every sequence.
    code: Tensor,
    /// What is added.
    bias: Tensor,
}

impl MarkovHead {
    /// Loads that of a draft of `vocab` ids; `None` where it has none.
    pub(super) fn load(
        loader: &mut Loader<'_, '_>,
        config: &DraftConfig,
        target: &dyn Target,
        vocab: usize,
    ) -> Result<Option<Self>, ModelError> {
        let Some(rank) = config.markov_rank else { return Ok(None) };
        let name = format!("{EMBEDDING}.weight");
        let shape = loader.checkpoint().shape(&name);
        let rows = shape.and_then(|shape| shape.first().copied()).unwrap_or(0).max(target.spec().vocab);
        let embedding = loader.table(EMBEDDING, rows, rank)?;
        Ok(Some(Self { embedding, output: loader.weight(&[Wanted::new(OUTPUT, vocab, rank)])? }))
    }

    /// Scratch for [`MarkovHead::correct`].
    pub(super) fn scratch(&self, backend: &dyn Backend) -> Correction {
        Correction {
            code: backend.tensor(1, self.output.cols()),
            bias: backend.tensor(1, self.output.rows()),
        }
    }

    /// Adds to row `rows[i]` of `logits` what follows from `previous[i]`.
    pub(super) fn correct(
        &self,
        backend: &dyn Backend,
        scratch: &mut Correction,
        previous: &[u32],
        rows: impl Iterator<Item = usize>,
        logits: &mut Tensor,
    ) {
        let Correction { code, bias } = scratch;
        [&mut *code, &mut *bias].into_iter().for_each(|tensor| grow(backend, tensor, previous.len()));
        backend.embed(&self.embedding, previous, 1.0, code);
        backend.linear(&self.output, code, Pre::None, Tail::Store, &mut [&mut *bias]);
        for (sequence, row) in rows.enumerate() {
            let mut values = backend.read(logits, row);
            values.iter_mut().zip(backend.read(bias, sequence)).for_each(|(value, bias)| *value += bias);
            backend.write(logits, row, &values);
        }
    }
}
