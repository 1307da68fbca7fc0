use std::ops::Range;
use std::sync::Arc;

use candle_core::backend::BackendStorage;
use candle_core::{CpuStorage, CustomOp2, Layout, Result, Shape, Tensor};
use rayon::prelude::*;

use super::sums::{dot, largest, sum};
use super::{exp, floats, values};

/// Blocks whose scores are computed as one product.
const GROUP: usize = 4;

/// What the queries of a sequence see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Its context among the rows of keys.
    pub context: Range<usize>,
    /// By ascending `seen`.
    pub blocks: Vec<SeenBlock>,
}

/// What the queries of a block see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenBlock {
    /// Rows of the sequence's context.
    pub seen: usize,
    /// Its own rows among those of keys.
    pub own: Range<usize>,
    /// Its rows among the queries; they follow those of the block before.
    pub queries: Range<usize>,
}

/// Softmax attention of block rows to the context before their anchor and to their own block, grouped-query.
#[derive(Debug, Clone)]
pub struct Attention {
    /// Query heads.
    pub heads: usize,
    /// Heads of keys and values.
    pub kv_heads: usize,
    /// Width of a head.
    pub head_dim: usize,
    /// What sees what.
    pub sequences: Arc<Vec<Seen>>,
}

impl Attention {
    /// Of `queries`, `[queries, heads * head_dim]`, and `kv`, rows `[keys | values]` of `kv_heads` heads each.
    pub fn apply(&self, queries: &Tensor, kv: &Tensor) -> Result<Tensor> {
        if queries.device().is_cpu() {
            return queries.apply_op2(kv, self.clone());
        }
        self.composed(queries, kv)
    }

    /// As dense attention of all queries to all keys under a mask.
    fn composed(&self, queries: &Tensor, kv: &Tensor) -> Result<Tensor> {
        let (rows, keys, share) = (queries.dim(0)?, kv.dim(0)?, self.share());
        let mask = Tensor::from_vec(self.mask(rows, keys), (rows, keys), queries.device())?;
        let queries = queries.reshape((rows, self.kv_heads, share, self.head_dim))?;
        let queries = queries.permute((1, 2, 0, 3))?.contiguous()?;
        let queries = queries.reshape((self.kv_heads, share * rows, self.head_dim))?;
        let kv = kv.reshape((keys, 2, self.kv_heads, self.head_dim))?.permute((1, 2, 0, 3))?;
        let (keys_t, values) = (kv.get(0)?.t()?.contiguous()?, kv.get(1)?.contiguous()?);
        let scores = (queries.matmul(&keys_t)? * f64::from(self.scale()))?;
        let scores = scores.reshape((self.kv_heads, share, rows, keys))?.broadcast_add(&mask)?;
        let weights = scores.broadcast_sub(&scores.max_keepdim(3)?.detach())?.exp()?;
        let weights = weights.broadcast_div(&weights.sum_keepdim(3)?)?;
        let out = weights.reshape((self.kv_heads, share * rows, keys))?.matmul(&values)?;
        let out = out.reshape((self.kv_heads, share, rows, self.head_dim))?.permute((2, 0, 1, 3))?;
        out.contiguous()?.reshape((rows, self.heads * self.head_dim))
    }

    /// 0 where a query sees a key, a large negative number elsewhere.
    fn mask(&self, rows: usize, keys: usize) -> Vec<f32> {
        let mut mask = vec![-1e30f32; rows * keys];
        for seq in self.sequences.iter() {
            for block in &seq.blocks {
                for row in block.queries.clone() {
                    let mask = &mut mask[row * keys..][..keys];
                    mask[seq.context.start..seq.context.start + block.seen].fill(0.0);
                    mask[block.own.clone()].fill(0.0);
                }
            }
        }
        mask
    }

    fn scale(&self) -> f32 {
        1.0 / (self.head_dim as f32).sqrt()
    }

    /// Every pair of a sequence and a head of keys.
    fn each_part(&self) -> impl Iterator<Item = (&Seen, usize)> {
        self.sequences.iter().flat_map(|seq| (0..self.kv_heads).map(move |head| (seq, head)))
    }

    /// The same as work of threads.
    fn parts<'a>(
        &'a self,
        queries: &'a [f32],
        kv: &'a [f32],
    ) -> impl IndexedParallelIterator<Item = Part<'a>> {
        let part = move |(seq, head)| Part { op: self, seq, head, queries, kv };
        self.each_part().map(part).collect::<Vec<_>>().into_par_iter().with_max_len(1)
    }

    /// Writes `[queries * share, head_dim]` of a part to their place.
    fn write(&self, seq: &Seen, head: usize, part: &[f32], out: &mut [f32]) {
        let cols = self.query_range(head);
        let rows = seq.blocks.iter().flat_map(|block| block.queries.clone());
        for (row, values) in rows.zip(part.chunks_exact(cols.len())) {
            out[row * self.query_cols()..][cols.clone()].copy_from_slice(values);
        }
    }

    /// Query heads for each head of keys.
    fn share(&self) -> usize {
        self.heads / self.kv_heads
    }

    fn query_cols(&self) -> usize {
        self.heads * self.head_dim
    }

    fn kv_cols(&self) -> usize {
        2 * self.kv_heads * self.head_dim
    }

    /// Columns of the queries that look at head `kv_head`.
    fn query_range(&self, kv_head: usize) -> Range<usize> {
        let width = self.query_cols() / self.kv_heads;
        kv_head * width..(kv_head + 1) * width
    }

    /// Columns of the keys, or values, of head `kv_head`.
    fn kv_range(&self, kv_head: usize, values: bool) -> Range<usize> {
        let first = (kv_head + if values { self.kv_heads } else { 0 }) * self.head_dim;
        first..first + self.head_dim
    }
}

/// Blocks of a sequence that follow each other, for one head of keys. Its keys are own rows, then context.
struct Group<'a> {
    blocks: &'a [SeenBlock],
    /// Query heads for each query row.
    share: usize,
    /// Keys before the context: room for the own rows of any group of the sequence.
    room: usize,
}

impl<'a> Group<'a> {
    fn all(seq: &'a Seen, share: usize) -> impl Iterator<Item = Self> {
        let room = room(seq);
        seq.blocks.chunks(GROUP).map(move |blocks| Self { blocks, share, room })
    }

    fn queries(&self) -> Range<usize> {
        self.blocks[0].queries.start..self.last().queries.end
    }

    fn last(&self) -> &SeenBlock {
        &self.blocks[self.blocks.len() - 1]
    }

    /// Keys that any of its queries sees, and unused room.
    fn keys(&self) -> usize {
        self.room + self.last().seen
    }

    /// Turns scores `[queries * share, keys]` into weights: 0 for what is not seen.
    fn softmax(&self, scores: &mut [f32], scale: f32) {
        let mut rows = scores.chunks_exact_mut(self.keys());
        let mut end = 0;
        for block in self.blocks {
            let start = end;
            end += block.own.len();
            for row in rows.by_ref().take(block.queries.len() * self.share) {
                let (own, context) = row.split_at_mut(self.room);
                own[..start].fill(0.0);
                own[end..].fill(0.0);
                context[block.seen..].fill(0.0);
                softmax([&mut own[start..end], &mut context[..block.seen]], scale);
            }
        }
    }
}

/// Own rows of the largest group.
fn room(seq: &Seen) -> usize {
    let own = |blocks: &[SeenBlock]| blocks.iter().map(|block| block.own.len()).sum();
    seq.blocks.chunks(GROUP).map(own).max().unwrap_or(0)
}

/// Softmax of `scale` times the two parts of a row.
fn softmax(mut parts: [&mut [f32]; 2], scale: f32) {
    let largest = parts.iter().map(|part| largest(part)).fold(f32::NEG_INFINITY, f32::max);
    let mut total = 0.0;
    for part in &mut parts {
        part.iter_mut().for_each(|value| *value = exp((*value - largest) * scale));
        total += sum(part);
    }
    let factor = 1.0 / total;
    parts.into_iter().flatten().for_each(|value| *value *= factor);
}

/// A matrix without gaps.
struct Rows {
    values: CpuStorage,
    rows: usize,
    cols: usize,
}

impl Rows {
    fn new(values: Vec<f32>, cols: usize) -> Self {
        Self { rows: values.len() / cols, values: CpuStorage::F32(values), cols }
    }

    /// Columns `cols` of rows of `width`, cut into as many rows of `dim` as they have.
    fn cut(source: &[f32], width: usize, cols: Range<usize>, dim: usize) -> Self {
        Self::new(source.chunks_exact(width).flat_map(|row| &row[cols.clone()]).copied().collect(), dim)
    }

    fn values(&self) -> &[f32] {
        match &self.values {
            CpuStorage::F32(values) => values,
            _ => unreachable!("made of f32"),
        }
    }

    fn values_mut(&mut self) -> &mut [f32] {
        match &mut self.values {
            CpuStorage::F32(values) => values,
            _ => unreachable!("made of f32"),
        }
    }

    fn layout(&self, rows: usize) -> Layout {
        Layout::contiguous((rows, self.cols))
    }

    fn product(&self, left: &Layout, other: &Self, right: &Layout) -> Result<Self> {
        let ((rows, inner), (_, cols)) = (left.shape().dims2()?, right.shape().dims2()?);
        let values = self.values.matmul(&other.values, (1, rows, cols, inner), left, right)?;
        Ok(Self { values, rows, cols })
    }

    /// `self * other[..rows]^T`.
    fn times_transposed(&self, other: &Self, rows: usize) -> Result<Self> {
        self.product(&self.layout(self.rows), other, &other.layout(rows).transpose(0, 1)?)
    }

    /// `self * other[..self.cols]`.
    fn times(&self, other: &Self) -> Result<Self> {
        self.product(&self.layout(self.rows), other, &other.layout(self.cols))
    }

    /// `self^T * other`.
    fn transposed_times(&self, other: &Self) -> Result<Self> {
        self.product(&self.layout(self.rows).transpose(0, 1)?, other, &other.layout(self.rows))
    }
}

/// What a part of the work reads: one head of keys of one sequence.
struct Part<'a> {
    op: &'a Attention,
    seq: &'a Seen,
    head: usize,
    queries: &'a [f32],
    kv: &'a [f32],
}

impl Part<'_> {
    /// Rows of a group from queries, or what has their shape.
    fn query_rows(&self, source: &[f32], group: &Group<'_>) -> Rows {
        let (width, rows) = (self.op.query_cols(), group.queries());
        let source = &source[rows.start * width..rows.end * width];
        Rows::cut(source, width, self.op.query_range(self.head), self.op.head_dim)
    }

    /// Room for own rows, then the context.
    fn key_rows(&self, values: bool) -> Rows {
        let (width, context) = (self.op.kv_cols(), &self.seq.context);
        let dim = self.op.head_dim;
        let source = self.kv[context.start * width..context.end * width].chunks_exact(width);
        let mut rows = vec![0.0; room(self.seq) * dim];
        rows.extend(source.flat_map(|row| &row[self.op.kv_range(self.head, values)]));
        Rows::new(rows, dim)
    }

    /// Puts the own rows of a group into their room.
    fn take_own(&self, rows: &mut Rows, group: &Group<'_>, values: bool) {
        let (width, cols) = (self.op.kv_cols(), self.op.kv_range(self.head, values));
        let own = group.blocks.iter().flat_map(|block| block.own.clone());
        for (out, row) in rows.values_mut().chunks_exact_mut(self.op.head_dim).zip(own) {
            out.copy_from_slice(&self.kv[row * width..][cols.clone()]);
        }
    }

    /// Outputs `[queries * share, head_dim]`.
    fn forward(&self) -> Result<Vec<f32>> {
        let (mut keys, mut values) = (self.key_rows(false), self.key_rows(true));
        let mut out = Vec::new();
        for group in Group::all(self.seq, self.op.share()) {
            self.take_own(&mut keys, &group, false);
            self.take_own(&mut values, &group, true);
            let queries = self.query_rows(self.queries, &group);
            let mut weights = queries.times_transposed(&keys, group.keys())?;
            group.softmax(weights.values_mut(), self.op.scale());
            out.extend_from_slice(weights.times(&values)?.values());
        }
        Ok(out)
    }

    /// Gradients from that of the outputs.
    fn backward(&self, grad: &[f32]) -> Result<PartGrads> {
        let (mut keys, mut values) = (self.key_rows(false), self.key_rows(true));
        let mut grads = PartGrads {
            queries: Vec::new(),
            keys: KeyGrads::new(&keys, self.op.head_dim),
            values: KeyGrads::new(&values, self.op.head_dim),
        };
        for group in Group::all(self.seq, self.op.share()) {
            self.take_own(&mut keys, &group, false);
            self.take_own(&mut values, &group, true);
            let queries = self.query_rows(self.queries, &group);
            let grad = self.query_rows(grad, &group);
            let mut weights = queries.times_transposed(&keys, group.keys())?;
            group.softmax(weights.values_mut(), self.op.scale());
            grads.values.add(weights.transposed_times(&grad)?.values(), &group);
            let mut scores = grad.times_transposed(&values, group.keys())?;
            softmax_backward(&weights, &mut scores, self.op.scale());
            grads.queries.extend_from_slice(scores.times(&keys)?.values());
            grads.keys.add(scores.transposed_times(&queries)?.values(), &group);
        }
        Ok(grads)
    }
}

/// Makes of the gradient of the weights that of the scores before `scale`.
fn softmax_backward(weights: &Rows, grads: &mut Rows, scale: f32) {
    let cols = weights.cols;
    for (grads, weights) in grads.values_mut().chunks_exact_mut(cols).zip(weights.values().chunks_exact(cols))
    {
        let mean = dot(grads, weights);
        grads.iter_mut().zip(weights).for_each(|(grad, weight)| *grad = scale * weight * (*grad - mean));
    }
}

/// Gradients of a part.
struct PartGrads {
    /// `[queries * share, head_dim]`.
    queries: Vec<f32>,
    keys: KeyGrads,
    values: KeyGrads,
}

/// Gradients of keys or values: all own rows, one after the other, and the context's.
struct KeyGrads {
    own: Vec<f32>,
    /// Room that stays empty, then the context.
    context: Vec<f32>,
    dim: usize,
}

impl KeyGrads {
    fn new(like: &Rows, dim: usize) -> Self {
        Self { own: Vec::new(), context: vec![0.0; like.values().len()], dim }
    }

    /// Adds the gradient of the keys of a group.
    fn add(&mut self, grad: &[f32], group: &Group<'_>) {
        let own: usize = group.blocks.iter().map(|block| block.own.len()).sum();
        self.own.extend_from_slice(&grad[..own * self.dim]);
        let room = group.room * self.dim;
        self.context[room..].iter_mut().zip(&grad[room..]).for_each(|(sum, grad)| *sum += grad);
    }

    /// Writes them to columns of rows of `width`.
    fn write(&self, seq: &Seen, out: &mut [f32], width: usize, cols: Range<usize>) {
        let room = self.context.len() - seq.context.len() * self.dim;
        let context = seq.context.clone().zip(self.context[room..].chunks_exact(self.dim));
        let own = seq.blocks.iter().flat_map(|block| block.own.clone()).zip(self.own.chunks_exact(self.dim));
        context.chain(own).for_each(|(row, grad)| out[row * width..][cols.clone()].copy_from_slice(grad));
    }
}

impl CustomOp2 for Attention {
    fn name(&self) -> &'static str {
        "attention"
    }

    fn cpu_fwd(
        &self,
        queries: &CpuStorage,
        layout: &Layout,
        kv: &CpuStorage,
        kv_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let (queries, kv) = (floats(queries, layout)?, floats(kv, kv_layout)?);
        let outs: Vec<Vec<f32>> =
            self.parts(queries, kv).map(|part| part.forward()).collect::<Result<_>>()?;
        let mut out = vec![0.0; queries.len()];
        self.each_part().zip(&outs).for_each(|((seq, head), part)| self.write(seq, head, part, &mut out));
        Ok((CpuStorage::F32(out), layout.shape().clone()))
    }

    fn bwd(
        &self,
        queries: &Tensor,
        kv: &Tensor,
        _: &Tensor,
        grad: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>)> {
        let grad = grad.contiguous()?;
        let (query_values, kv_values, grads) = (values(queries)?, values(kv)?, values(&grad)?);
        let parts: Vec<PartGrads> =
            self.parts(&query_values, &kv_values).map(|part| part.backward(&grads)).collect::<Result<_>>()?;
        let (mut query_grad, mut kv_grad) = (vec![0.0; query_values.len()], vec![0.0; kv_values.len()]);
        for ((seq, head), part) in self.each_part().zip(&parts) {
            self.write(seq, head, &part.queries, &mut query_grad);
            part.keys.write(seq, &mut kv_grad, self.kv_cols(), self.kv_range(head, false));
            part.values.write(seq, &mut kv_grad, self.kv_cols(), self.kv_range(head, true));
        }
        let query_grad = Tensor::from_vec(query_grad, queries.shape(), queries.device())?;
        let kv_grad = Tensor::from_vec(kv_grad, kv.shape(), kv.device())?;
        Ok((Some(query_grad), Some(kv_grad)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::{assert_same, random};
    use super::*;

    /// Two sequences with contexts of 9 and 0 rows; some blocks ask with only a part of their rows.
    fn sequences() -> Vec<Seen> {
        let block = |seen, own: Range<usize>, queries| SeenBlock { seen, own, queries };
        let first = [0, 2, 3, 3, 8, 9];
        let blocks = first.into_iter().enumerate();
        let blocks =
            blocks.map(|(index, seen)| block(seen, 9 + 3 * index..12 + 3 * index, 2 * index..2 * index + 2));
        vec![
            Seen { context: 0..9, blocks: blocks.collect() },
            Seen { context: 9..9, blocks: vec![block(0, 27..30, 12..15)] },
        ]
    }

    #[test]
    fn fused_is_composed() -> Result<()> {
        let op = Attention { heads: 4, kv_heads: 2, head_dim: 6, sequences: Arc::new(sequences()) };
        let (queries, kv) = (random(&[15, 24], 1)?, random(&[30, 24], 2)?);
        assert_same(
            &[&queries, &kv],
            |args| op.apply(&args[0], &args[1]),
            |args| op.composed(&args[0], &args[1]),
        )
    }
}
