//! Steps per second of training, beside the floor of the matrix products of such a step.
//!
//!     cargo run --release -p dflash-train --example train_bench -- LAYERS ANCHORS BLOCK MARKOV_RANK
//!
//! A draft of the default pair's sizes on random data: four sequences of 320 ids, a vocabulary of 8,192.

use std::time::Instant;

use candle_core::{Device, Tensor};
use dflash_train::batch::{Anchors, Batch, BatchOptions, Sample};
use dflash_train::graph::{AdamW, Precision, Schedule, Trainer, TrainerOptions};
use dflash_train::{DraftShape, DraftWeights, Matrix, TargetTables};

const SEQUENCES: usize = 4;
const IDS: usize = 321;
const VOCAB: usize = 8192;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let sizes: Vec<usize> = std::env::args().skip(1).map(|text| text.parse()).collect::<Result<_, _>>()?;
    let [layers, anchors, block, markov_rank] = sizes[..] else {
        return Err("give layers, anchors of a sequence, block and rank of the Markov head".into());
    };
    let shape = DraftShape {
        hidden: 576,
        layers,
        ffn: 1536,
        heads: 9,
        kv_heads: 3,
        head_dim: 64,
        rms_norm_eps: 1e-5,
        rope_theta: 1e5,
        context: 8192,
        block,
        mask_id: 3,
        taps: vec![1, 8, 14, 20, 27],
        target_layers: 30,
        target_vocab: 49152,
        vocab: Some((0..VOCAB as u32).collect()),
        markov_rank,
    };
    let mut random = Random(1);
    let mut matrix = |shape: &[usize], scale: f32| {
        let values = (0..shape.iter().product()).map(|_| scale * random.draw()).collect();
        Matrix { shape: shape.to_vec(), values }
    };
    let weights: DraftWeights =
        shape.tensors().into_iter().map(|(name, sizes)| (name, matrix(&sizes, 0.05))).collect();
    let tables = TargetTables {
        embedding: matrix(&[shape.target_vocab, shape.hidden], 0.1),
        head: matrix(&[VOCAB, shape.hidden], 0.1),
        norm: None,
        softcap: None,
    };
    let features = matrix(&[IDS, shape.features()], 1.0).values;
    let ids: Vec<u32> = (0..IDS as u32).map(|place| place * 7919 % VOCAB as u32).collect();
    let floor = matmul_seconds(&shape, anchors)?;
    let sample = Sample { ids: &ids, prompt: 32, features: &features, last: &[] };
    for precision in [Precision::F32, Precision::Bf16] {
        let schedule = Schedule { peak: 1e-4, warmup: 10, steps: 1000 };
        let options = TrainerOptions { schedule, adam: AdamW::default(), clip: 1.0, precision };
        let mut trainer = Trainer::new(shape.clone(), &weights, &tables, options, Device::Cpu)?;
        let median = median_seconds(&mut trainer, sample, anchors)?;
        println!(
            "{precision:?}: {:.2} steps a second ({:.0} ms); the plain products take {:.0} ms in f32: {:.0} %",
            1.0 / median,
            1e3 * median,
            1e3 * floor,
            100.0 * floor / median
        );
    }
    Ok(())
}

/// Of a step.
fn median_seconds(
    trainer: &mut Trainer,
    sample: Sample<'_>,
    anchors: usize,
) -> Result<f64, Box<dyn std::error::Error>> {
    let (mut seconds, began) = (Vec::new(), Instant::now());
    while seconds.len() < 12 && began.elapsed().as_secs() < 20 {
        let mut anchor = Anchors::new(1, seconds.len() as u64);
        let options = BatchOptions { block: trainer.shape().block, anchors, decay: 4.0 };
        let batch = Batch::draw(&[sample; SEQUENCES], trainer.shape(), options, &mut anchor);
        let began = Instant::now();
        let report = trainer.step(&batch)?;
        seconds.push(began.elapsed().as_secs_f64());
        if seconds.len() == 1 {
            println!("loss {:.3}, gradient {:.3}", report.measure.loss, report.grad_norm);
        }
    }
    seconds.sort_by(f64::total_cmp);
    Ok(seconds[seconds.len() / 2])
}

/// Seconds of the products of a step where nothing is left out: forward, and twice that backward but for constants.
fn matmul_seconds(shape: &DraftShape, anchors: usize) -> candle_core::Result<f64> {
    let DraftShape { hidden, ffn, heads, kv_heads, head_dim, layers, .. } = *shape;
    let (context, rows) = (SEQUENCES * (IDS - 1), SEQUENCES * anchors * shape.block);
    let (queries, kv) = (heads * head_dim, 2 * kv_heads * head_dim);
    let slots = SEQUENCES * anchors * (shape.block - 1);
    let scores = IDS - 1 + shape.block;
    let layer = [
        (rows, hidden, queries),
        (rows + context, hidden, kv),
        (rows, queries, hidden),
        (rows, hidden, 2 * ffn),
        (rows, ffn, hidden),
        (rows, queries, scores),
        (rows, scores, queries),
    ];
    let mut total = 0.0;
    for (m, k, n) in layer {
        total += 3.0 * layers as f64 * product_seconds(m, k, n)?;
    }
    Ok(total
        + 2.0 * product_seconds(context, shape.features(), hidden)?
        + 2.0 * product_seconds(slots, hidden, shape.vocab_len())?)
}

fn product_seconds(m: usize, k: usize, n: usize) -> candle_core::Result<f64> {
    let (a, b) =
        (Tensor::rand(0f32, 1.0, (m, k), &Device::Cpu)?, Tensor::rand(0f32, 1.0, (n, k), &Device::Cpu)?);
    let mut seconds: Vec<f64> = Vec::new();
    for _ in 0..7 {
        let began = Instant::now();
        let _ = a.matmul(&b.t()?)?;
        seconds.push(began.elapsed().as_secs_f64());
    }
    seconds.sort_by(f64::total_cmp);
    Ok(seconds[3])
}

struct Random(u64);

impl Random {
    /// Uniform, of variance 1.
    fn draw(&mut self) -> f32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 40) as f32 / (1u32 << 23) as f32 - 1.0) * 1.732
    }
}
