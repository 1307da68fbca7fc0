//! The gated delta rule, in three regions: rows are convolved and normalised, heads go through the rows one
//! after the other, rows are read out.

use std::cell::RefCell;

use dflash_tensor::{Batch, DeltaGeometry, DeltaInputs, DeltaSpec, SeqCache, Tensor};

use super::job::{Job, Jobs};
use super::kernel::{Columns, Taped, WIDTH, on};
use super::layout::{lanes, tile_columns, tile_rows, tiles};
use super::tape::Step;
use super::{each, jobs};
use crate::disjoint::Disjoint;
use crate::inputs::room;
use crate::{CpuBackend, Isa, host};

thread_local! {
    /// Storage of the call that this thread makes.
    static CALLER: RefCell<Buffers> = RefCell::default();
}

/// Rows between the regions.
#[derive(Default)]
struct Buffers {
    /// Normalised queries, `[rows, key_heads * key_dim]`.
    q: Vec<f32>,
    /// Normalised keys, `[rows, key_heads * key_dim]`.
    k: Vec<f32>,
    /// Values, which become deltas, `[rows, value_heads * value_dim]`.
    v: Vec<f32>,
    /// What is read, `[rows, value_heads * value_dim]`.
    y: Vec<f32>,
    /// Decays, `[rows, value_heads]`.
    g: Vec<f32>,
    /// Strengths, `[rows, value_heads]`.
    b: Vec<f32>,
}

/// What the threads share.
struct Call<'a> {
    isa: Isa,
    spec: &'a DeltaSpec,
    inputs: DeltaInputs<'a>,
    jobs: Jobs<'a>,
}

/// [`Backend::gated_delta`](dflash_tensor::Backend::gated_delta).
pub(crate) fn gated_delta(
    backend: &CpuBackend,
    spec: &DeltaSpec,
    layer: usize,
    batch: &Batch,
    caches: &mut [&mut SeqCache],
    inputs: DeltaInputs<'_>,
    out: &mut Tensor,
) {
    check(spec, batch.rows(), &inputs);
    assert_eq!(out.cols(), inputs.gate.cols(), "columns of the output");
    out.set_rows(batch.rows());
    let jobs = jobs(spec.recurrent(), spec.key_heads, layer, batch, caches, host::rows(inputs.qkv));
    backend.meter.recurrence(&spec.recurrent(), jobs.len(), batch.rows());
    let call = Call { isa: backend.isa, spec, inputs, jobs };
    CALLER.with_borrow_mut(|buffers| {
        prepare(backend, &call, batch.rows(), buffers);
        recur(backend, &call, buffers);
        read_out(backend, &call, buffers, host::rows_mut(out));
    });
}

fn check(spec: &DeltaSpec, rows: usize, inputs: &DeltaInputs<'_>) {
    let DeltaGeometry { key_heads, value_heads, value_dim, .. } = spec.geometry;
    let shape = |tensor: &Tensor| (tensor.rows(), tensor.cols());
    assert_eq!(value_heads % key_heads, 0, "value heads per key head");
    assert_eq!(shape(&spec.rate), (1, value_heads), "a rate for every value head");
    assert_eq!(shape(&spec.dt_bias), (1, value_heads), "a bias for every value head");
    assert_eq!(shape(&spec.norm.weight), (1, value_dim), "one gain per dimension of a value head");
    assert_eq!(spec.filter.cols(), spec.geometry.channels(), "a filter for every channel");
    assert_eq!(shape(inputs.qkv), (rows, spec.geometry.channels()), "shape of qkv");
    assert_eq!(shape(inputs.gate), (rows, value_heads * value_dim), "shape of the gate");
    assert_eq!(shape(inputs.beta), (rows, value_heads), "shape of beta");
    assert_eq!(shape(inputs.alpha), (rows, value_heads), "shape of alpha");
}

/// Convolution, norms and gates.
fn prepare(backend: &CpuBackend, call: &Call<'_>, rows: usize, buffers: &mut Buffers) {
    let DeltaGeometry { key_heads, value_heads, key_dim, value_dim } = call.spec.geometry;
    let (keys, values) = (key_heads * key_dim, value_heads * value_dim);
    room(&mut buffers.y, rows * values);
    let [q, k] = [&mut buffers.q, &mut buffers.k].map(|x| Disjoint::new(room(x, rows * keys)));
    let [g, b] = [&mut buffers.g, &mut buffers.b].map(|x| Disjoint::new(room(x, rows * value_heads)));
    let v = Disjoint::new(room(&mut buffers.v, rows * values));
    each(&backend.pool, rows, call.spec.geometry.channels() * call.spec.filter.rows(), &|row| {
        let own = |width| row * width..(row + 1) * width;
        // SAFETY: a row is one thread's.
        unsafe {
            heads(call, row, [q.piece(own(keys)), k.piece(own(keys)), v.piece(own(values))]);
            gates(call, row, g.piece(own(value_heads)), b.piece(own(value_heads)));
        }
    });
}

/// Queries, keys and values of row `row` of the batch.
fn heads(call: &Call<'_>, row: usize, parts: [&mut [f32]; 3]) {
    let (isa, dim) = (call.isa, call.spec.geometry.key_dim);
    let (filter, raw) = (host::rows(&call.spec.filter), host::rows(call.inputs.qkv));
    let ((job, own), mut first) = (call.jobs.find(row), 0);
    let [q, k, _] = parts.map(|part| {
        let columns = first..first + part.len();
        first = columns.end;
        job.convolve(isa, filter, raw, own, columns, part);
        on!(isa, silu(part));
        part
    });
    q.chunks_exact_mut(dim).for_each(|head| on!(isa, unit(head, 1.0 / (dim as f32).sqrt())));
    k.chunks_exact_mut(dim).for_each(|head| on!(isa, unit(head, 1.0)));
}

/// Decays and strengths of row `row` of the batch.
fn gates(call: &Call<'_>, row: usize, g: &mut [f32], b: &mut [f32]) {
    let own = row * g.len()..(row + 1) * g.len();
    let (rate, bias) = (host::rows(&call.spec.rate), host::rows(&call.spec.dt_bias));
    on!(call.isa, decay(rate, bias, &host::rows(call.inputs.alpha)[own.clone()], g));
    on!(call.isa, strength(&host::rows(call.inputs.beta)[own], b));
}

/// The recurrence of every head of every span.
fn recur(backend: &CpuBackend, call: &Call<'_>, buffers: &mut Buffers) {
    let geometry = &call.spec.geometry;
    let size = geometry.key_dim * geometry.value_dim;
    let Buffers { q, k, v, y, g, b } = buffers;
    let rows = Rows { geometry, q, k, g, b, v: Disjoint::new(v), y: Disjoint::new(y) };
    each(&backend.pool, call.jobs.len() * geometry.value_heads, size, &|item| {
        let (job, head) = (call.jobs.at(item / geometry.value_heads), item % geometry.value_heads);
        let key = call.spec.key_heads.key_head(geometry, head);
        for tile in 0..tiles(geometry) {
            recur_tile(call.isa, job, &rows, (key, head, tile));
        }
    });
}

/// The rows of the batch.
struct Rows<'a> {
    geometry: &'a DeltaGeometry,
    q: &'a [f32],
    k: &'a [f32],
    g: &'a [f32],
    b: &'a [f32],
    v: Disjoint<'a, f32>,
    y: Disjoint<'a, f32>,
}

impl Rows<'_> {
    /// Head `head` of row `row` of keys or queries.
    fn key<'a>(&self, of: &'a [f32], row: usize, head: usize) -> &'a [f32] {
        let DeltaGeometry { key_heads, key_dim, .. } = *self.geometry;
        &of[(row * key_heads + head) * key_dim..][..key_dim]
    }
}

/// All rows of a span on one tile of a state, which stays in the cache of a core meanwhile.
fn recur_tile(isa: Isa, job: &Job<'_>, rows: &Rows<'_>, (key, head, tile): (usize, usize, usize)) {
    let geometry = rows.geometry;
    let own = tile_rows(geometry, head, tile);
    let columns = tile_columns(geometry, head, tile);
    let width = geometry.value_heads * geometry.value_dim;
    // SAFETY: the tiles of a head are one thread's.
    let state = unsafe { job.next.piece(own.clone()) };
    state.copy_from_slice(&job.committed.heads()[own.clone()]);
    for row in 0..job.span.rows {
        let at = job.span.first_row + row;
        let gates = (rows.g[at * geometry.value_heads + head], rows.b[at * geometry.value_heads + head]);
        if job.restarts(row) {
            state.copy_from_slice(&job.committed.heads()[own.clone()]);
            repeat_path(isa, job, rows, (key, head, tile), job.parent(row), state);
        }
        let columns = at * width + columns.start..at * width + columns.end;
        // SAFETY: as above.
        let (v, y) = unsafe { (rows.v.piece(columns.clone()), rows.y.piece(columns)) };
        let (mut delta, mut read) = (lanes(v), [0.0; WIDTH]);
        let keys = (rows.key(rows.k, at, key), rows.key(rows.q, at, key));
        on!(isa, step(state, keys, gates, &mut delta, &mut read));
        v.copy_from_slice(&delta[..v.len()]);
        y.copy_from_slice(&read[..y.len()]);
    }
}

/// Repeats what the rows of the span up to `last` have written to a tile, root first.
fn repeat_path(
    isa: Isa,
    job: &Job<'_>,
    rows: &Rows<'_>,
    place: (usize, usize, usize),
    last: Option<usize>,
    state: &mut [Columns],
) {
    if let Some(row) = last {
        repeat_path(isa, job, rows, place, job.parent(row), state);
        repeat(isa, job, rows, place, row, state);
    }
}

/// Repeats what row `row` of the span has written to a tile.
fn repeat(
    isa: Isa,
    job: &Job<'_>,
    rows: &Rows<'_>,
    (key, head, tile): (usize, usize, usize),
    row: usize,
    state: &mut [Columns],
) {
    let (geometry, at) = (rows.geometry, job.span.first_row + row);
    let columns = tile_columns(geometry, head, tile);
    let first = at * geometry.value_heads * geometry.value_dim + columns.start;
    // SAFETY: the tiles of a head are one thread's.
    let delta = lanes(unsafe { rows.v.piece(first..first + columns.len()) });
    let g = rows.g[at * geometry.value_heads + head];
    on!(isa, repeat(state, &[Taped { k: rows.key(rows.k, at, key), g, delta }]));
}

/// Norm and gate of what was read, and the tape.
fn read_out(backend: &CpuBackend, call: &Call<'_>, buffers: &Buffers, out: &mut [f32]) {
    let DeltaGeometry { key_heads, value_heads, key_dim, value_dim } = call.spec.geometry;
    let (channels, width) = (call.spec.geometry.channels(), value_heads * value_dim);
    let norm = (host::rows(&call.spec.norm.weight), call.spec.norm.eps);
    let (raw, gate) = (host::rows(call.inputs.qkv), host::rows(call.inputs.gate));
    let (rows, out) = (out.len() / width, Disjoint::new(out));
    each(&backend.pool, rows, channels, &|row| {
        let part = |of, width| part(of, row, width);
        let (job, own) = call.jobs.find(row);
        let (raw, k) = (part(raw, channels), part(&buffers.k, key_heads * key_dim));
        let step = Step { raw, k, g: part(&buffers.g, value_heads), delta: part(&buffers.v, width) };
        // SAFETY: a row is one thread's.
        let out = unsafe {
            job.record(own, &step);
            out.piece(row * width..(row + 1) * width)
        };
        let heads = out.chunks_exact_mut(value_dim).zip(part(&buffers.y, width).chunks_exact(value_dim));
        for ((out, y), gate) in heads.zip(part(gate, width).chunks_exact(value_dim)) {
            on!(call.isa, read_out(y, norm, gate, out));
        }
    });
}

/// Row `row` of rows of `width` elements.
fn part(of: &[f32], row: usize, width: usize) -> &[f32] {
    &of[row * width..][..width]
}
