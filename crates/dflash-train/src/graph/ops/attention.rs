use std::ops::Range;
use std::sync::Arc;

use candle_core::{CpuStorage, CustomOp2, Layout, Result, Shape, Tensor};
use rayon::prelude::*;

use super::product::{View, add_product, product};
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

    fn own_rows(&self) -> impl Iterator<Item = usize> {
        self.blocks.iter().flat_map(|block| block.own.clone())
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

/// What a part of the work reads: one head of keys of one sequence.
struct Part<'a> {
    op: &'a Attention,
    seq: &'a Seen,
    head: usize,
    queries: &'a [f32],
    kv: &'a [f32],
}

impl Part<'_> {
    /// Rows of a group from queries, or what has their shape, without gaps: a row for each head that shares the keys.
    fn query_rows(&self, source: &[f32], group: &Group<'_>) -> Vec<f32> {
        let (width, rows, cols) = (self.op.query_cols(), group.queries(), self.op.query_range(self.head));
        let source = source[rows.start * width..rows.end * width].chunks_exact(width);
        let mut out = Vec::with_capacity(rows.len() * cols.len());
        source.for_each(|row| out.extend_from_slice(&row[cols.clone()]));
        out
    }

    /// Keys or values: room for own rows, then the context.
    fn key_rows(&self, values: bool) -> Vec<f32> {
        let (width, context) = (self.op.kv_cols(), &self.seq.context);
        let cols = self.op.kv_range(self.head, values);
        let source = self.kv[context.start * width..context.end * width].chunks_exact(width);
        let mut rows = vec![0.0; room(self.seq) * self.op.head_dim];
        source.for_each(|row| rows.extend_from_slice(&row[cols.clone()]));
        rows
    }

    /// Puts the own rows of a group into their room.
    fn take_own(&self, rows: &mut [f32], group: &Group<'_>, values: bool) {
        let (width, cols) = (self.op.kv_cols(), self.op.kv_range(self.head, values));
        for (out, row) in rows.chunks_exact_mut(self.op.head_dim).zip(group.own_rows()) {
            out.copy_from_slice(&self.kv[row * width..][cols.clone()]);
        }
    }

    /// Outputs `[queries * share, head_dim]`.
    fn forward(&self) -> Vec<f32> {
        let dim = self.op.head_dim;
        let (mut keys, mut values) = (self.key_rows(false), self.key_rows(true));
        let mut out = Vec::new();
        for group in Group::all(self.seq, self.op.share()) {
            self.take_own(&mut keys, &group, false);
            self.take_own(&mut values, &group, true);
            let queries = self.query_rows(self.queries, &group);
            let keys = View::new(&keys, dim).first(group.keys());
            let mut weights = product(View::new(&queries, dim), keys.t());
            group.softmax(&mut weights, self.op.scale());
            let values = View::new(&values, dim).first(group.keys());
            out.extend(product(View::new(&weights, group.keys()), values));
        }
        out
    }

    /// Gradients from that of the outputs. The weights are computed once more.
    fn backward(&self, grad: &[f32]) -> PartGrads {
        let (dim, scale) = (self.op.head_dim, self.op.scale());
        let (mut keys, mut values) = (self.key_rows(false), self.key_rows(true));
        let empty = || KeyGrads { own: Vec::new(), sums: vec![0.0; keys.len()], dim };
        let mut grads = PartGrads { queries: Vec::new(), keys: empty(), values: empty() };
        for group in Group::all(self.seq, self.op.share()) {
            self.take_own(&mut keys, &group, false);
            self.take_own(&mut values, &group, true);
            let (queries, grad) = (self.query_rows(self.queries, &group), self.query_rows(grad, &group));
            let (queries, grad) = (View::new(&queries, dim), View::new(&grad, dim));
            let [keys, values] = [&keys, &values].map(|rows| View::new(rows, dim).first(group.keys()));
            let mut weights = product(queries, keys.t());
            group.softmax(&mut weights, scale);
            let mut scores = product(grad, values.t());
            softmax_backward(&weights, &mut scores, group.keys(), scale);
            let (weights, scores) = (View::new(&weights, group.keys()), View::new(&scores, group.keys()));
            grads.queries.extend(product(scores, keys));
            grads.keys.add(scores, queries, &group);
            grads.values.add(weights, grad, &group);
        }
        grads
    }
}

/// Makes of the gradient of the weights that of the scores before `scale`.
fn softmax_backward(weights: &[f32], grads: &mut [f32], keys: usize, scale: f32) {
    for (grads, weights) in grads.chunks_exact_mut(keys).zip(weights.chunks_exact(keys)) {
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

/// Gradients of keys or values.
struct KeyGrads {
    /// Those of all own rows, group after group.
    own: Vec<f32>,
    /// Room for the own rows of a group, then what the context has gathered.
    sums: Vec<f32>,
    dim: usize,
}

impl KeyGrads {
    /// Adds `scores^T * rows` of a group.
    fn add(&mut self, scores: View<'_>, rows: View<'_>, group: &Group<'_>) {
        add_product(scores.t(), rows, &mut self.sums);
        let room = &mut self.sums[..group.room * self.dim];
        self.own.extend_from_slice(&room[..group.own_rows().count() * self.dim]);
        room.fill(0.0);
    }

    /// Writes them to columns of rows of `width`.
    fn write(&self, seq: &Seen, out: &mut [f32], width: usize, cols: Range<usize>) {
        let room = self.sums.len() - seq.context.len() * self.dim;
        let context = seq.context.clone().zip(self.sums[room..].chunks_exact(self.dim));
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
        let outs: Vec<Vec<f32>> = self.parts(queries, kv).map(|part| part.forward()).collect();
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
            self.parts(&query_values, &kv_values).map(|part| part.backward(&grads)).collect();
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
