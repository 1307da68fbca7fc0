//! A mixture of experts: all rows of a call together, so that the weights of an expert are read once.
//!
//! Rows are routed; the pairs of a row and an expert are put into the order of experts (slots); then gate and
//! up of all slots, down of all slots, and for every row the weighted sum of its slots. An output of a slot
//! depends on its row and its expert alone, and the sum goes by falling score.

mod plan;
mod route;

use dflash_tensor::{Experts, Pre, Tail, Tensor, Weight};

use crate::disjoint::Disjoint;
use crate::inputs::{Forms, InputBuffers, Inputs, Matrix, Request, room};
use crate::linear::{Product, Target, Targets};
use crate::pack::{LANES, MAX_PARTS, Packed};
use crate::pool::Pool;
use crate::{CpuBackend, host, lanes};
use plan::Plan;
use route::Pick;

/// Elements up to which the calling thread works on rows alone: a region costs more than it saves.
const ALONE: usize = 32_768;

/// Elements of other work that take as long as an exponential.
const EXP: usize = 8;

/// Pieces of work per thread: long streams of weights, and yet experts with many rows and few even out.
const PIECES: usize = 16;

/// Storage that is reused from call to call.
#[derive(Default)]
pub(crate) struct ExpertBuffers {
    picks: Vec<Pick>,
    plan: Plan,
    hidden: Vec<f32>,
    products: Vec<f32>,
}

/// [`dflash_tensor::Backend::experts`].
pub(crate) fn experts(
    backend: &CpuBackend,
    experts: &Experts,
    scores: &Tensor,
    x: &Tensor,
    out: &mut Tensor,
) {
    check(experts, scores, x, out);
    out.set_rows(x.rows());
    if x.rows() == 0 {
        return;
    }
    let mut scratch = backend.scratch();
    let scratch = &mut *scratch;
    let ExpertBuffers { picks, plan, hidden, products } = &mut scratch.experts;
    let slots = x.rows() * experts.top_k;
    let picks = room(picks, slots);
    route_rows(backend, experts, scores, picks);
    plan.fill(picks, experts.down.len());
    let call = Call { backend, plan, experts };
    let hidden = room(hidden, slots * experts.down[0].cols());
    let products = room(products, slots * out.cols());
    call.gate_up(&mut scratch.inputs, x, hidden);
    call.down(&mut scratch.inputs, hidden, products);
    call.sum(picks, products, out);
}

fn check(experts: &Experts, scores: &Tensor, x: &Tensor, out: &Tensor) {
    let (count, hidden) = (experts.down.len(), x.cols());
    assert!((1..=count).contains(&experts.top_k), "{} of {count} experts", experts.top_k);
    assert_eq!(experts.gate_up.len(), count, "gate and up, and down of every expert");
    assert_eq!((scores.rows(), scores.cols()), (x.rows(), count), "a score of every row for every expert");
    assert!(experts.scale.as_ref().is_none_or(|scale| scale.len() == count), "a scale for every expert");
    let ffn = experts.down[0].cols();
    for (gate_up, down) in experts.gate_up.iter().zip(&experts.down) {
        let parts = gate_up.parts();
        assert!(
            parts.len() == 2 && parts.iter().all(|part| part.rows == ffn),
            "gate and up of {ffn} outputs"
        );
        assert_eq!(gate_up.cols(), hidden, "columns of input and weight");
        assert_eq!((down.rows(), down.cols()), (out.cols(), ffn), "shape of down");
        assert_eq!(down.parts().len(), 1, "parts of down");
    }
}

/// Fills `picks`, `[rows, top_k]`.
fn route_rows(backend: &CpuBackend, experts: &Experts, scores: &Tensor, picks: &mut [Pick]) {
    let (count, top_k) = (scores.cols(), experts.top_k);
    let (scores, picks) = (host::rows(scores), Disjoint::new(picks));
    each_row(&backend.pool, scores.len() / count, count * EXP, &|row| {
        // SAFETY: rows do not overlap, and each is in use once.
        let picks = unsafe { picks.piece(row * top_k..(row + 1) * top_k) };
        route::route(backend.isa, experts, &scores[row * count..][..count], picks);
    });
}

/// Calls `body(row)` for every row; a row takes `cost` elements of work.
fn each_row(pool: &Pool, rows: usize, cost: usize, body: &(dyn Fn(usize) + Sync)) {
    if rows * cost <= ALONE {
        return (0..rows).for_each(body);
    }
    pool.split(rows, &|_, own| own.for_each(body));
}

/// A call whose rows have been routed.
struct Call<'a> {
    backend: &'a CpuBackend,
    plan: &'a Plan,
    experts: &'a Experts,
}

impl Call<'_> {
    /// `act(gate · x) * up · x` of all slots into `hidden`, `[slots, ffn]`.
    fn gate_up(&self, buffers: &mut InputBuffers, x: &Tensor, hidden: &mut [f32]) {
        let forms = self.forms(&self.experts.gate_up);
        let inputs = buffers.prepare_copies(self.backend, forms, Matrix::of(x), &self.plan.slots);
        let target = Target { values: Disjoint::new(hidden), cols: self.experts.down[0].cols() };
        self.multiply(&self.experts.gate_up, inputs, Tail::Glu(self.experts.activation), target);
    }

    /// `down · hidden` of all slots into `products`, `[slots, features]`.
    fn down(&self, buffers: &mut InputBuffers, hidden: &[f32], products: &mut [f32]) {
        let weights = &self.experts.down;
        let x = Matrix { values: hidden, cols: weights[0].cols() };
        let request = Request { x, rows: None, pre: Pre::None };
        let inputs = buffers.prepare(self.backend, self.forms(weights), &request);
        let target = Target { values: Disjoint::new(products), cols: weights[0].rows() };
        self.multiply(weights, inputs, Tail::Store, target);
    }

    /// Forms of input that the experts in use ask for.
    fn forms(&self, weights: &[Weight]) -> Forms {
        Forms::of(
            self.backend.isa,
            self.plan.shares.iter().flat_map(|share| &Packed::of(&weights[share.expert]).parts),
        )
    }

    /// The products of all slots with their experts; threads share out groups of outputs of all experts.
    fn multiply(&self, weights: &[Weight], inputs: Inputs<'_>, tail: Tail, target: Target<'_>) {
        let groups = target.cols.div_ceil(LANES);
        for share in &self.plan.shares {
            self.backend.meter.products(&weights[share.expert], share.slots.len());
        }
        let mut targets: Targets<'_> = [None; MAX_PARTS];
        targets[0] = Some(target);
        let items = self.plan.shares.len() * groups;
        let pieces = (self.backend.pool.threads() * PIECES).min(items);
        self.backend.pool.each(pieces, &|_, piece| {
            let items = items * piece / pieces..items * (piece + 1) / pieces;
            for (share, groups) in self.plan.pieces(items, groups) {
                let packed = Packed::of(&weights[share.expert]);
                let (isa, rows) = (self.backend.isa, share.slots.clone());
                Product { isa, packed, inputs, rows, targets }.run(tail, &groups);
            }
        });
    }

    /// For every row the sum of its slots, each times its weight, the highest score first.
    fn sum(&self, picks: &[Pick], products: &[f32], out: &mut Tensor) {
        let (rows, cols, top_k) = (out.rows(), out.cols(), self.experts.top_k);
        let out = Disjoint::new(host::rows_mut(out));
        each_row(&self.backend.pool, rows, cols * top_k, &|row| {
            // SAFETY: rows do not overlap, and each is in use once.
            let out = unsafe { out.piece(row * cols..(row + 1) * cols) };
            out.fill(0.0);
            let own = row * top_k..(row + 1) * top_k;
            for (pick, slot) in picks[own.clone()].iter().zip(&self.plan.slots[own]) {
                lanes::add_scaled(self.backend.isa, pick.weight, &products[slot * cols..][..cols], out);
            }
        });
    }
}
