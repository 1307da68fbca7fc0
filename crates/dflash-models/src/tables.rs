use std::sync::Arc;

use dflash_tensor::Weight;

use crate::ModelError;
use crate::checkpoint::Checkpoint;
use crate::loader::Loader;

/// Embedding and head of a target; one weight when tied.
pub(crate) struct TokenTables {
    pub(crate) embedding: Arc<Weight>,
    pub(crate) head: Arc<Weight>,
}

const EMBEDDING: &str = "model.embed_tokens";
const HEAD: &str = "lm_head";

impl TokenTables {
    /// Reads tables of at least `vocab` rows; `tied` is what the config says, the presence of a head decides
    /// when it says nothing.
    pub(crate) fn load(
        loader: &mut Loader<'_, '_>,
        [vocab, hidden]: [usize; 2],
        tied: Option<bool>,
    ) -> Result<Self, ModelError> {
        let tied = is_tied(loader, tied)?;
        let mut table = |module: &str| {
            let rows = table_rows(loader.checkpoint(), module, vocab)?;
            loader.table(module, rows, hidden)
        };
        let embedding = table(EMBEDDING)?;
        let head = if tied { Arc::clone(&embedding) } else { table(HEAD)? };
        Ok(Self { embedding, head })
    }
}

/// Rows of a table, which may have padding beyond the valid ids.
pub(crate) fn table_rows(checkpoint: &Checkpoint, module: &str, vocab: usize) -> Result<usize, ModelError> {
    let name = format!("{module}.weight");
    let rows = checkpoint.shape(&name).and_then(|shape| shape.first().copied());
    // A missing tensor is reported when it is taken.
    let rows = rows.unwrap_or(vocab);
    if rows < vocab {
        let what = format!("{rows} rows, fewer than the {vocab} ids of the vocabulary");
        return Err(checkpoint.bad_tensor(&name, what));
    }
    Ok(rows)
}

/// Whether embedding and head are one table.
fn is_tied(loader: &mut Loader<'_, '_>, said: Option<bool>) -> Result<bool, ModelError> {
    let (checkpoint, head) = (loader.checkpoint(), format!("{HEAD}.weight"));
    let error = |what| Err(ModelError::Tie { path: checkpoint.path().to_owned(), what });
    match (said, checkpoint.contains(&head)) {
        (Some(true), true) if same_bytes(checkpoint)? => {
            let tail = |name: &str| name.strip_prefix(HEAD).is_some_and(|tail| tail.starts_with('.'));
            checkpoint.skip(tail);
            loader.note(format!("{head} repeats the tied embedding and is not read"));
            Ok(true)
        }
        (Some(true), true) => error(
            "tie_word_embeddings is true, but lm_head.weight is there and differs from the embedding; \
             set the key to false if the head is meant",
        ),
        (Some(false), false) => error("tie_word_embeddings is false, but lm_head.weight is missing"),
        (_, head) => Ok(!head),
    }
}

fn same_bytes(checkpoint: &Checkpoint) -> Result<bool, ModelError> {
    for tail in ["weight", "scales", "biases"] {
        let [a, b] = [EMBEDDING, HEAD].map(|module| format!("{module}.{tail}"));
        match (checkpoint.contains(&a), checkpoint.contains(&b)) {
            (false, false) => {}
            (true, true) => {
                let (a, b) = (checkpoint.take_any(&a)?, checkpoint.take_any(&b)?);
                if (a.element, a.shape, a.bytes) != (b.element, b.shape, b.bytes) {
                    return Ok(false);
                }
            }
            _ => return Ok(false),
        }
    }
    Ok(true)
}
