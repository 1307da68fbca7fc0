//! The gated short convolution.

use std::cell::RefCell;

use dflash_tensor::{Batch, ConvInputs, ConvSpec, KeyHeadMap, SeqCache, Tensor};

use super::kernel::on;
use super::tape::Step;
use super::{each, jobs};
use crate::disjoint::Disjoint;
use crate::inputs::room;
use crate::{CpuBackend, host};

thread_local! {
    /// Raw rows of the call that this thread makes.
    static RAW: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
}

/// [`Backend::short_conv`](dflash_tensor::Backend::short_conv).
pub(crate) fn short_conv(
    backend: &CpuBackend,
    spec: &ConvSpec,
    layer: usize,
    batch: &Batch,
    caches: &mut [&mut SeqCache],
    inputs: ConvInputs<'_>,
    out: &mut Tensor,
) {
    let (rows, channels) = (batch.rows(), spec.filter.cols());
    for input in [inputs.before, inputs.after, inputs.x] {
        assert_eq!((input.rows(), input.cols()), (rows, channels), "shape of an input");
    }
    let bias = spec.bias.as_ref().map_or(channels, Tensor::cols);
    assert_eq!(bias, channels, "a bias for every channel");
    assert_eq!(out.cols(), channels, "columns of the output");
    out.set_rows(rows);
    RAW.with_borrow_mut(|raw| {
        let raw = room(raw, rows * channels);
        multiply(backend, channels, host::rows(inputs.before), host::rows(inputs.x), raw);
        convolve(backend, spec, layer, batch, caches, (raw, host::rows(inputs.after)), host::rows_mut(out));
    });
}

/// `raw = before * x`, in rows of `channels`.
fn multiply(backend: &CpuBackend, channels: usize, before: &[f32], x: &[f32], raw: &mut [f32]) {
    let (rows, raw) = (raw.len() / channels, Disjoint::new(raw));
    each(&backend.pool, rows, channels, &|row| {
        let own = row * channels..(row + 1) * channels;
        // SAFETY: a row is one thread's.
        let raw = unsafe { raw.piece(own.clone()) };
        let products = before[own.clone()].iter().zip(&x[own]);
        raw.iter_mut().zip(products).for_each(|(raw, (before, x))| *raw = before * x);
    });
}

fn convolve(
    backend: &CpuBackend,
    spec: &ConvSpec,
    layer: usize,
    batch: &Batch,
    caches: &mut [&mut SeqCache],
    (raw, after): (&[f32], &[f32]),
    out: &mut [f32],
) {
    let (isa, channels) = (backend.isa, spec.filter.cols());
    let (filter, bias) = (host::rows(&spec.filter), spec.bias.as_ref().map(host::rows));
    let jobs = jobs(spec.recurrent(), KeyHeadMap::Grouped, layer, batch, caches, raw);
    backend.meter.recurrence(&spec.recurrent(), jobs.len(), batch.rows());
    let out = Disjoint::new(out);
    each(&backend.pool, batch.rows(), channels * spec.filter.rows(), &|row| {
        let ((job, own), columns) = (jobs.find(row), row * channels..(row + 1) * channels);
        let step = Step { raw: &raw[columns.clone()], k: &[], g: &[], delta: &[] };
        // SAFETY: a row is one thread's.
        let out = unsafe {
            job.record(own, &step);
            out.piece(columns.clone())
        };
        job.convolve(isa, filter, raw, own, 0..channels, out);
        on!(isa, gate_sum(bias, &after[columns], out));
    });
}
