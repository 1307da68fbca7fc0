//! Products of prepared rows with a packed weight, and what becomes of them.

use std::ops::Range;

use dflash_tensor::{Activation, Pre, Tail, Tensor, Weight};

use crate::disjoint::Disjoint;
use crate::inputs::{Forms, Inputs, Matrix, Request};
use crate::pack::{LANES, MAX_PARTS, Packed, PackedPart, Walk};
use crate::pool::steps;
use crate::tile::{self, MAX_ROWS, NO_PRODUCTS, Products, Tile};
use crate::{CpuBackend, Isa, host, lanes};

/// Bytes of prepared rows that go together through all weights of a thread, so that they stay in cache.
const CHUNK_BYTES: usize = 128 << 10;

/// [`dflash_tensor::Backend::linear`].
pub(crate) fn linear(
    backend: &CpuBackend,
    weight: &Weight,
    x: &Tensor,
    pre: Pre<'_>,
    tail: Tail,
    outs: &mut [&mut Tensor],
) {
    run(backend, weight, &Request { x: Matrix::of(x), rows: None, pre }, tail, outs);
}

/// [`dflash_tensor::Backend::logits`].
pub(crate) fn logits(
    backend: &CpuBackend,
    weight: &Weight,
    x: &Tensor,
    rows: &[usize],
    pre: Pre<'_>,
    out: &mut Tensor,
) {
    run(backend, weight, &Request { x: Matrix::of(x), rows: Some(rows), pre }, Tail::Store, &mut [out]);
}

fn run(backend: &CpuBackend, weight: &Weight, request: &Request<'_>, tail: Tail, outs: &mut [&mut Tensor]) {
    assert_eq!(request.x.cols, weight.cols(), "columns of input and weight");
    let packed = Packed::of(weight);
    let mut scratch = backend.scratch();
    let scratch = &mut *scratch;
    let inputs = scratch.inputs.prepare(backend, Forms::of(backend.isa, &packed.parts), request);
    let targets = targets(packed, tail, inputs.rows, outs);
    let walk = if matches!(tail, Tail::Glu(_)) { Walk::Paired } else { Walk::Along(1) };
    let next = scratch.trail.step(packed, walk);
    backend.meter.products(weight, inputs.rows);
    let product = Product { isa: backend.isa, packed, inputs, rows: 0..inputs.rows, targets };
    let threads = backend.pool.threads();
    backend.pool.split(product.groups(tail), &|thread, groups| {
        product.run(tail, &groups);
        next.announce(thread, threads);
    });
}

/// Where a part's products go.
#[derive(Clone, Copy)]
pub(crate) struct Target<'a> {
    /// `[rows, cols]`.
    pub(crate) values: Disjoint<'a, f32>,
    /// Output features.
    pub(crate) cols: usize,
}

/// Where the products of a weight go, part by part.
pub(crate) type Targets<'a> = [Option<Target<'a>>; MAX_PARTS];

fn targets<'a>(packed: &Packed, tail: Tail, rows: usize, outs: &'a mut [&mut Tensor]) -> Targets<'a> {
    let gated = matches!(tail, Tail::Glu(_));
    if gated {
        assert!(packed.parts.len() == 2 && packed.parts[0].rows == packed.parts[1].rows, "gate and up");
    }
    assert_eq!(outs.len(), if gated { 1 } else { packed.parts.len() }, "outputs");
    let mut targets = [None; MAX_PARTS];
    for ((target, out), part) in targets.iter_mut().zip(outs).zip(&packed.parts) {
        assert_eq!(out.cols(), part.rows, "columns of output and output features");
        match tail {
            Tail::Add => assert_eq!(out.rows(), rows, "rows of residual and input"),
            _ => out.set_rows(rows),
        }
        *target = Some(Target { cols: part.rows, values: Disjoint::new(host::rows_mut(out)) });
    }
    targets
}

impl<'a> Target<'a> {
    /// The outputs of group `group` in row `row`: fewer in the last group.
    ///
    /// # Safety
    /// No other use of the same outputs at the same time.
    unsafe fn lanes(&self, row: usize, group: usize) -> &'a mut [f32] {
        let first = group * LANES;
        let width = (self.cols - first).min(LANES);
        // SAFETY: the caller's promise.
        unsafe { self.values.piece(row * self.cols + first..row * self.cols + first + width) }
    }

    /// Stores or adds the products of a group.
    ///
    /// # Safety
    /// As [`Target::lanes`].
    unsafe fn put<const ADD: bool>(&self, row: usize, group: usize, products: &[f32; LANES]) {
        // SAFETY: the caller's promise.
        let out = unsafe { self.lanes(row, group) };
        match out.as_chunks_mut::<LANES>() {
            ([whole], _) => put::<ADD>(whole, products),
            (_, rest) => put::<ADD>(rest, products),
        }
    }
}

#[inline(always)]
fn put<const ADD: bool>(out: &mut [f32], products: &[f32; LANES]) {
    for (out, product) in out.iter_mut().zip(products) {
        *out = if ADD { *out + product } else { *product };
    }
}

/// A weight against some prepared rows.
pub(crate) struct Product<'a> {
    pub(crate) isa: Isa,
    pub(crate) packed: &'a Packed,
    pub(crate) inputs: Inputs<'a>,
    /// Rows of `inputs`, which are rows of the targets too.
    pub(crate) rows: Range<usize>,
    pub(crate) targets: Targets<'a>,
}

impl Product<'_> {
    /// Computes the groups `groups` of outputs, which no other thread does.
    pub(crate) fn run(&self, tail: Tail, groups: &Range<usize>) {
        match tail {
            Tail::Store => self.plain::<false>(groups),
            Tail::Add => self.plain::<true>(groups),
            Tail::Glu(activation) => self.gated(activation, groups),
        }
    }

    /// Rows that go together through all weights.
    fn chunks(&self) -> impl Iterator<Item = Range<usize>> + use<> {
        let rows = (CHUNK_BYTES / self.inputs.row_bytes()).max(1).next_multiple_of(MAX_ROWS);
        steps(self.rows.clone(), rows)
    }

    /// Groups of outputs that threads share out: of all parts one after the other, or of pairs of gate and up.
    fn groups(&self, tail: Tail) -> usize {
        match tail {
            Tail::Glu(_) => self.packed.parts[0].groups(),
            _ => self.packed.parts.iter().map(PackedPart::groups).sum(),
        }
    }

    /// Some groups of a product whose parts have an output each.
    fn plain<const ADD: bool>(&self, mine: &Range<usize>) {
        for rows in self.chunks() {
            let mut first = 0;
            for (part, target) in self.packed.parts.iter().zip(self.targets.iter().flatten()) {
                let end = first + part.groups();
                let own = mine.start.clamp(first, end) - first..mine.end.clamp(first, end) - first;
                self.plain_part::<ADD>(part, target, own, rows.clone());
                first = end;
            }
        }
    }

    fn plain_part<const ADD: bool>(
        &self,
        part: &PackedPart,
        target: &Target<'_>,
        groups: Range<usize>,
        rows: Range<usize>,
    ) {
        let mut products = NO_PRODUCTS;
        for group in groups {
            for tile in tile::tiles(self.isa, part, group, &self.inputs, rows.clone()) {
                self.multiply(part, &tile, &mut products);
                for (row, products) in tile.rows.zip(&products) {
                    // SAFETY: a group of outputs belongs to one thread.
                    unsafe { target.put::<ADD>(row, group, products) };
                }
            }
        }
    }

    /// Some groups of a gated product.
    fn gated(&self, activation: Activation, mine: &Range<usize>) {
        let [gate, up] = &self.packed.parts[..] else { unreachable!("two parts were checked") };
        let Some(target) = &self.targets[0] else { unreachable!("an output was checked") };
        let (mut gates, mut ups) = (NO_PRODUCTS, NO_PRODUCTS);
        for chunk in self.chunks() {
            for group in mine.clone() {
                for tile in tile::tiles(self.isa, gate, group, &self.inputs, chunk.clone()) {
                    self.multiply(gate, &tile, &mut gates);
                    self.multiply(up, &tile, &mut ups);
                    for ((row, gates), ups) in tile.rows.zip(&gates).zip(&ups) {
                        let products = lanes::glu(self.isa, activation, gates, ups);
                        // SAFETY: a group of outputs belongs to one thread.
                        unsafe { target.put::<false>(row, group, &products) };
                    }
                }
            }
        }
    }

    fn multiply(&self, part: &PackedPart, tile: &Tile, out: &mut Products) {
        tile::multiply(self.isa, part, &self.inputs, tile, out);
    }
}
