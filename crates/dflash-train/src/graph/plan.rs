use std::collections::BTreeMap;
use std::sync::Arc;

use candle_core::{Device, Result, Tensor};

use super::ops::{Rotation, Seen, SeenBlock};
use crate::DraftShape;
use crate::batch::Batch;

/// Rows of a pass and where they go. Keys and values have a row for each row of the context, then one for each of the
/// blocks.
pub struct Plan {
    /// `[context rows, taps * hidden]`.
    pub features: Tensor,
    /// The ids that the blocks hold, each once.
    pub ids: Vec<u32>,
    /// For each block row its place among `ids`.
    pub id_rows: Vec<u32>,
    /// The rows that something is to be predicted at: what the last layer computes.
    pub wanted: Vec<u32>,
    /// Places of `wanted` among the slots of all blocks.
    pub slots: Vec<usize>,
    pub rotation: Arc<Rotation>,
    /// Positions of the rows of keys.
    pub key_positions: Arc<Vec<u32>>,
    /// Of the queries, for all block rows.
    pub inner: Queries,
    /// Of the queries, for the wanted rows.
    pub last: Queries,
}

/// The rows of queries of a layer.
pub struct Queries {
    pub positions: Arc<Vec<u32>>,
    pub seen: Arc<Vec<Seen>>,
}

impl Plan {
    /// The wanted rows are those with a label.
    pub fn new(batch: &Batch, shape: &DraftShape, device: &Device) -> Result<Self> {
        let (context, width) = (batch.context_rows(), shape.features());
        let (ids, id_rows) = ids(batch, shape.mask_id);
        let slots: Vec<usize> =
            (0..batch.labels.len()).filter(|&slot| batch.labels[slot].is_some()).collect();
        let row = |slot: usize| slot / batch.slots() * batch.block + slot % batch.slots() + 1;
        let wanted: Vec<usize> = slots.iter().map(|&slot| row(slot)).collect();
        let block_positions = positions(batch);
        let mut key_positions: Vec<u32> =
            batch.spans.iter().flat_map(|span| 0..span.context.len() as u32).collect();
        key_positions.extend(&block_positions);
        let positions = key_positions.iter().max().map_or(0, |&last| last as usize + 1);
        let all: Vec<usize> = (0..block_positions.len()).collect();
        let queries = |rows: &[usize]| Queries {
            positions: Arc::new(rows.iter().map(|&row| block_positions[row]).collect()),
            seen: Arc::new(seen(batch, rows)),
        };
        Ok(Self {
            features: Tensor::from_slice(&batch.features, (context, width), device)?,
            ids,
            id_rows,
            inner: queries(&all),
            last: queries(&wanted),
            wanted: wanted.into_iter().map(|row| row as u32).collect(),
            slots,
            rotation: Arc::new(Rotation::new(positions, shape.head_dim, shape.rope_theta, device)?),
            key_positions: Arc::new(key_positions),
        })
    }
}

/// The ids of the block rows, and for each row its place among them. Most rows hold the mask.
fn ids(batch: &Batch, mask_id: u32) -> (Vec<u32>, Vec<u32>) {
    let mut places = BTreeMap::new();
    let mut ids = Vec::new();
    let mut place = |id: u32| {
        *places.entry(id).or_insert_with(|| {
            ids.push(id);
            ids.len() as u32 - 1
        })
    };
    let mask = place(mask_id);
    let mut rows = Vec::with_capacity(batch.staged.len() * batch.block);
    for &id in &batch.staged {
        rows.push(place(id));
        rows.resize(rows.len() + batch.slots(), mask);
    }
    (ids, rows)
}

/// Of the block rows.
fn positions(batch: &Batch) -> Vec<u32> {
    batch
        .anchors
        .iter()
        .flat_map(|&anchor| (anchor..anchor + batch.block).map(|place| place as u32))
        .collect()
}

/// What queries at `rows`, ascending block rows, see.
fn seen(batch: &Batch, rows: &[usize]) -> Vec<Seen> {
    let context = batch.context_rows();
    let mut start = 0;
    let mut block = |index: usize| {
        let own = index * batch.block..(index + 1) * batch.block;
        let queries = start..rows.partition_point(|&row| row < own.end);
        start = queries.end;
        SeenBlock { seen: batch.anchors[index], own: context + own.start..context + own.end, queries }
    };
    let spans = batch.spans.iter();
    spans
        .map(|span| Seen {
            context: span.context.clone(),
            blocks: span.blocks.clone().map(&mut block).collect(),
        })
        .collect()
}
