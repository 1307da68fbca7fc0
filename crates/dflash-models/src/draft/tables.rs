use std::sync::Arc;

use dflash_tensor::Weight;

use super::config::{DraftConfig, Layout};
use crate::checkpoint::Checkpoint;
use crate::loader::Loader;
use crate::{Element, ModelError, Target};

/// Embedding and head of a draft, and what the rows of the head mean.
pub(super) struct Tables {
    pub(super) embedding: Arc<Weight>,
    /// Multiplies the rows of the embedding.
    pub(super) scale: f32,
    /// Cap of the logits.
    pub(super) softcap: Option<f32>,
    pub(super) head: Arc<Weight>,
    /// Rows of the head that may be chosen.
    pub(super) vocab: usize,
    /// Target id of every row of a reduced head.
    pub(super) ids: Option<Vec<u32>>,
    /// All target ids of the head are below this.
    pub(super) ids_below: usize,
}

impl Tables {
    /// The draft's own tables where its layout means them to be used, else the target's.
    pub(super) fn load(
        loader: &mut Loader<'_, '_>,
        config: &DraftConfig,
        target: &dyn Target,
    ) -> Result<Self, ModelError> {
        let ids = reduced_ids(loader.checkpoint(), config, target)?;
        let own = config.layout != Layout::Zlab;
        let embedding = own_embedding(loader, config, target, own)?;
        let head = own_head(loader, config, target, own || ids.is_some(), ids.as_deref())?;
        let softcap = if head.is_some() { config.body.softcap } else { target.softcap() };
        let head = head.unwrap_or_else(|| match &ids {
            Some(ids) => Arc::new(target.backend().gather(target.head(), ids)),
            None => Arc::clone(target.head()),
        });
        let vocab = head.rows().min(ids.as_ref().map_or(target.spec().vocab, Vec::len));
        let scale = if embedding.is_some() { 1.0 } else { target.embedding_scale() };
        let embedding = embedding.unwrap_or_else(|| Arc::clone(target.embedding()));
        let ids_below = ids.iter().flatten().max().map_or(vocab, |&id| id as usize + 1);
        Ok(Self { embedding, scale, softcap, head, vocab, ids, ids_below })
    }
}

fn own_embedding(
    loader: &mut Loader<'_, '_>,
    config: &DraftConfig,
    target: &dyn Target,
    used: bool,
) -> Result<Option<Arc<Weight>>, ModelError> {
    if !present(loader, "embed_tokens", used) {
        return Ok(None);
    }
    let rows = rows(loader.checkpoint(), "embed_tokens.weight");
    if rows < target.spec().vocab || rows <= config.mask_id as usize {
        let what = format!("{rows} rows, too few for the target's ids and the mask token");
        return Err(loader.checkpoint().bad_tensor("embed_tokens.weight", what));
    }
    loader.table("embed_tokens", rows, config.body.hidden).map(Some)
}

fn own_head(
    loader: &mut Loader<'_, '_>,
    config: &DraftConfig,
    target: &dyn Target,
    used: bool,
    ids: Option<&[u32]>,
) -> Result<Option<Arc<Weight>>, ModelError> {
    if !present(loader, "lm_head", used) {
        return Ok(None);
    }
    let rows = match ids {
        Some(ids) => ids.len(),
        None => rows(loader.checkpoint(), "lm_head.weight").max(target.spec().vocab),
    };
    loader.table("lm_head", rows, config.body.hidden).map(Some)
}

/// Whether a table is there and meant; one that only repeats the target's is skipped with a note.
fn present(loader: &mut Loader<'_, '_>, module: &str, used: bool) -> bool {
    let there = loader.checkpoint().contains(&format!("{module}.weight"));
    if there && !used {
        loader.checkpoint().skip(|name| name.strip_prefix(module).is_some_and(|tail| tail.starts_with('.')));
        loader.note(format!("the draft's {module} is not read: the target's own is used"));
    }
    there && used
}

fn rows(checkpoint: &Checkpoint, name: &str) -> usize {
    checkpoint.shape(name).and_then(|shape| shape.first().copied()).unwrap_or(0)
}

/// The target ids of a reduced vocabulary: `d2t` holds the distance from draft id to target id, and in GGUF
/// the target id itself.
fn reduced_ids(
    checkpoint: &Checkpoint,
    config: &DraftConfig,
    target: &dyn Target,
) -> Result<Option<Vec<u32>>, ModelError> {
    if !checkpoint.contains("d2t") {
        return match config.draft_vocab {
            Some(rows) if rows != target.spec().vocab && Some(rows) != config.body.vocab => {
                Err(checkpoint.missing("d2t"))
            }
            _ => Ok(None),
        };
    }
    let view = checkpoint.take("d2t", &[config.draft_vocab.unwrap_or_else(|| rows(checkpoint, "d2t"))])?;
    if view.element != Element::I64 {
        return Err(checkpoint.wrong_element(&view, "I64"));
    }
    let value = |bytes: &[u8]| i64::from_le_bytes(bytes.try_into().expect("chunks of eight"));
    let values = view.bytes.chunks_exact(8).map(value);
    let base = |row| if config.layout == Layout::Gguf { 0 } else { row };
    let ids = values.enumerate().map(|(row, value)| target_id(base(row), value, target.spec().vocab));
    let ids = ids.collect::<Option<Vec<_>>>().filter(|ids| !ids.is_empty());
    let ids = ids.ok_or_else(|| checkpoint.bad_tensor("d2t", "ids outside the target's vocabulary"))?;
    check_reachable(checkpoint, &ids)?;
    Ok(Some(ids))
}

fn target_id(base: usize, value: i64, vocab: usize) -> Option<u32> {
    let id = i64::try_from(base).ok()?.checked_add(value)?;
    u32::try_from(id).ok().filter(|&id| (id as usize) < vocab)
}

/// `t2d` repeats `d2t` as one flag per target id.
fn check_reachable(checkpoint: &Checkpoint, ids: &[u32]) -> Result<(), ModelError> {
    if !checkpoint.contains("t2d") {
        return Ok(());
    }
    let view = checkpoint.take_any("t2d")?;
    if view.element != Element::Bool {
        return Err(checkpoint.wrong_element(&view, "BOOL"));
    }
    let reached = ids.iter().all(|&id| view.bytes.get(id as usize).is_some_and(|&flag| flag != 0));
    if !reached || view.bytes.iter().filter(|&&flag| flag != 0).count() != ids.len() {
        return Err(checkpoint.bad_tensor("t2d", "other ids than d2t"));
    }
    Ok(())
}
