//! Times the linear kernels: `cargo run --release -p dflash-cpu --example kernels [FORMAT] [THREADS] [ISA]
//! [--shapes small|qwen3.5-4b|qwen3-8b]`, with a format such as `Q4_K` or `"MLX 6-bit"`, and with the kernels that
//! are named (`avx2`), else the best.
//!
//! Per shape and format the median time of a call with 1 to 128 rows, as bandwidth, multiply-adds, in units of the
//! call with one row, and as a fraction of its floor; with small shapes then a whole small model (alone: FORMAT
//! `model`). Weights are rotated so that they come from memory, as they do while a model decodes.

#[path = "../benches/common/mod.rs"]
mod common;

use std::time::Instant;

use common::{
    Call, QWEN3_5_4B, QWEN3_8B, ROTATION, SMALL, Shape, WIDE, affine, formats, tensor, weight, weights,
};
use dflash_cpu::{Arithmetic, Ceilings, CpuBackend, Isa, Work};
use dflash_tensor::{Among, Backend, Format, Pre, Weight};

const ROWS: [usize; 8] = [1, 2, 4, 8, 12, 16, 32, 128];

/// What the large models are published in.
const PUBLISHED: [Format; 6] =
    [affine(4, 64), affine(8, 64), Format::Q4K, Format::Q6K, Format::Q8_0, Format::Bf16];

fn main() {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let shapes = arguments.iter().position(|argument| argument == "--shapes");
    let shapes = shapes.map(|at| arguments.drain(at..).nth(1).unwrap_or_default());
    let argument = |index: usize| arguments.get(index).map_or("", String::as_str);
    let (wanted, isa) = (argument(0), Isa::available().find(|isa| isa.name() == argument(2)));
    let isa = isa.unwrap_or_else(Isa::detect);
    let backend =
        argument(1).parse().map_or_else(|_| CpuBackend::detect(), |threads| CpuBackend::new(threads, isa));
    let mut machine = Machine { backend: &backend, ceilings: backend.ceilings() };
    println!("{}", backend.name());
    match shapes.as_deref().unwrap_or("small") {
        "small" => machine.small(wanted),
        "qwen3.5-4b" => machine.published(wanted, &QWEN3_5_4B),
        "qwen3-8b" => machine.published(wanted, &QWEN3_8B),
        other => eprintln!("no shapes `{other}`: small, qwen3.5-4b and qwen3-8b are there"),
    }
}

struct Machine<'a> {
    backend: &'a CpuBackend,
    ceilings: Ceilings,
}

impl Machine<'_> {
    fn small(&mut self, wanted: &str) {
        if wanted == "model" || wanted.is_empty() {
            model(self.backend);
        }
        for format in formats().into_iter().filter(|format| format.to_string().starts_with(wanted)) {
            let shapes = if SMALL[0].cols.is_multiple_of(format.block()) { &SMALL[..] } else { &WIDE };
            self.measure_ceilings(format);
            shapes.iter().for_each(|shape| self.kernel(format, shape));
        }
    }

    fn published(&mut self, wanted: &str, shapes: &[Shape]) {
        for format in PUBLISHED.into_iter().filter(|format| format.to_string().starts_with(wanted)) {
            self.measure_ceilings(format);
            shapes.iter().for_each(|shape| self.kernel(format, shape));
        }
    }

    /// What an operation reads and multiplies.
    fn work(&self, operation: impl FnOnce()) -> Work {
        let before = self.backend.work();
        operation();
        self.backend.work() - before
    }

    /// Measured beside each kernel, since a shared host changes within minutes.
    fn measure_ceilings(&mut self, format: Format) {
        self.ceilings = self.backend.ceilings();
        let rate = |arithmetic| self.ceilings.multiply_adds[arithmetic] / 1e9;
        let rates =
            Arithmetic::ALL.map(|arithmetic| format!("{} {:.0}", arithmetic.name(), rate(arithmetic)));
        println!("\n{format}: at best {:.1} GB/s, GMAC/s {}", self.ceilings.bytes / 1e9, rates.join(", "));
    }

    fn kernel(&self, format: Format, shape: &Shape) {
        let mut weights = weights(self.backend, format, shape, ROTATION);
        let bytes = weights[0].bytes();
        println!("\n{format} {:?} x {}, {:.2} MB", shape.parts, shape.cols, bytes as f64 / 1e6);
        let mut one = 0.0;
        for rows in ROWS {
            let macs = rows * shape.macs();
            let mut call = Call::new(self.backend, weights, shape, rows);
            let work = self.work(|| call.run());
            let time = median(|| call.run());
            weights = call.weights;
            one = if rows == 1 { time } else { one };
            println!(
                "{rows:5} rows {:9.1} us {:6.1} GB/s {:6.1} GMAC/s {:6.2} x one row {:6.2} of the floor",
                time * 1e6,
                bytes as f64 / time / 1e9,
                macs as f64 / time / 1e9,
                time / one,
                self.ceilings.floor(&work) / time,
            );
        }
    }
}

/// Seconds of the median of some calls.
fn median(mut call: impl FnMut()) -> f64 {
    call();
    let begin = Instant::now();
    let mut times = Vec::new();
    while times.len() < 9 || begin.elapsed().as_secs_f64() < 0.15 && times.len() < 2000 {
        let begin = Instant::now();
        call();
        times.push(begin.elapsed().as_secs_f64());
    }
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// The products of a model of 30 layers with 135 million weights.
fn model(backend: &CpuBackend) {
    let rows = 16;
    let layers: Vec<Weight> =
        (0..30).flat_map(|_| SMALL[..4].iter().map(|shape| weight(backend, Format::Q4_1, shape))).collect();
    let head = weight(backend, Format::Q8_0, &SMALL[4]);
    let bytes = layers.iter().map(Weight::bytes).sum::<usize>() + head.bytes();
    let mut calls: Vec<Call<'_>> =
        SMALL[..4].iter().map(|shape| Call::new(backend, Vec::new(), shape, rows)).collect();
    for (index, weight) in layers.into_iter().enumerate() {
        calls[index % 4].weights.push(weight);
    }
    println!("model, {:.1} MB: rows, layers, choice, all, GB/s, all in units of one row", bytes as f64 / 1e6);
    let mut one = 0.0;
    for rows in [1, 2, 4, 8, 12, 16] {
        let times = step(backend, &mut calls, &head, rows);
        let all = times.0 + times.1;
        one = if rows == 1 { all } else { one };
        println!(
            "{rows:5} {:8.3} ms {:8.3} ms {:8.3} ms {:6.1} {:6.2}",
            times.0 * 1e3,
            times.1 * 1e3,
            all * 1e3,
            bytes as f64 / all / 1e9,
            all / one
        );
    }
}

/// Median seconds of the layers and of the choice.
fn step(backend: &CpuBackend, calls: &mut [Call<'_>], head: &Weight, rows: usize) -> (f64, f64) {
    for call in &mut *calls {
        call.x.set_rows(rows);
        call.outs.iter_mut().for_each(|out| out.set_rows(rows));
    }
    let gain = tensor(backend, 1, 576);
    let x = tensor(backend, rows, 576);
    let (ids, mut choices) = ((0..rows).collect::<Vec<_>>(), Vec::new());
    let mut times = (Vec::new(), Vec::new());
    for _ in 0..60 {
        let begin = Instant::now();
        (0..30).for_each(|_| calls.iter_mut().for_each(Call::run));
        times.0.push(begin.elapsed().as_secs_f64());
        let begin = Instant::now();
        choices.clear();
        let pre = Pre::RmsNorm { weight: &gain, eps: 1e-5 };
        backend.choose(head, &x, &ids, pre, Among::first(49152), &mut choices).expect("finite logits");
        times.1.push(begin.elapsed().as_secs_f64());
    }
    times.0.sort_by(f64::total_cmp);
    times.1.sort_by(f64::total_cmp);
    (times.0[30], times.1[30])
}
