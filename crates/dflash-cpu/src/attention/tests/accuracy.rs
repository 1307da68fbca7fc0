use dflash_tensor::{Keep, Mask, Shape, Span};

use super::*;
use crate::kv::KvBlock;

/// One head of a query row, normalised and rotated in f64.
fn prepared(spec: &AttentionSpec, head: &[f32], position: usize) -> Vec<f64> {
    let mut x: Vec<f64> = head.iter().map(|&x| f64::from(x)).collect();
    if let Some(norm) = &spec.q_norm {
        let mean = x.iter().map(|x| x * x).sum::<f64>() / x.len() as f64;
        let root = (mean + f64::from(norm.eps)).sqrt();
        x.iter_mut().zip(host::rows(&norm.weight)).for_each(|(x, &gain)| *x = *x / root * f64::from(gain));
    }
    let (cos, sin) = spec.rope.at(position);
    for i in 0..cos.len() {
        let (a, b) = (x[i], x[i + cos.len()]);
        let (cos, sin) = (f64::from(cos[i]), f64::from(sin[i]));
        (x[i], x[i + spec.rope.dims() / 2]) = (a * cos - b * sin, b * cos + a * sin);
    }
    x
}

fn sees(mask: &Mask, span: &Span, q: usize, k: usize) -> bool {
    let committed = k < span.start;
    let kept = mask.keep.is_none_or(|keep| k < keep.sink || k + keep.tail >= span.start);
    let inside = mask.window.is_none_or(|window| k > q || q - k < window);
    inside && if committed { kept } else { !mask.causal || k <= q }
}

/// Attention of one query head over the keys and values that the cache holds.
fn naive(
    spec: &AttentionSpec,
    cache: &SeqCache,
    span: &Span,
    position: usize,
    q: &[f64],
    head: usize,
) -> Vec<f64> {
    let dim = spec.kv.dim;
    let mut seen = Vec::new();
    for k in (0..span.start + span.rows).filter(|&k| sees(&spec.mask, span, position, k)) {
        let block = KvBlock::of(cache.layer(0).kv().block(k / 64).expect("kept"));
        let key = |d: usize| block.keys(head)[d * 64 + k % 64].to_f64();
        let score = f64::from(spec.scale) * (0..dim).map(|d| q[d] * key(d)).sum::<f64>();
        let score = spec.softcap.map_or(score, |cap| f64::from(cap) * (score / f64::from(cap)).tanh());
        let value = block.values(head)[k % 64 * dim..][..dim].iter().map(|v| v.to_f64()).collect::<Vec<_>>();
        seen.push((score, value));
    }
    let top = seen.iter().map(|(score, _)| *score).fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = seen.iter().map(|(score, _)| (score - top).exp()).sum();
    let weighted =
        |d: usize| seen.iter().map(|(score, value)| (score - top).exp() * value[d]).sum::<f64>() / sum;
    (0..dim).map(weighted).collect()
}

fn worst(spec: &AttentionSpec, prefix: usize, rows: usize) -> f64 {
    let (backend, mut random) = (backend(2), Random(30));
    let (dim, mut cache) = (spec.kv.dim, cache(spec));
    if prefix > 0 {
        chain(&backend, spec, &random.ids(prefix), &mut cache);
    }
    let ids = random.ids(rows);
    let place = Span { first_row: 0, rows, start: prefix, shape: Shape::Chain };
    let out = span(&backend, spec, &ids, Shape::Chain, &mut cache);
    let mut worst = 0.0_f64;
    for (index, &id) in ids.iter().enumerate() {
        for (head, q) in row(id, spec.heads * dim, 1).chunks(dim).enumerate() {
            let q = prepared(spec, q, prefix + index);
            let kv_head = head / (spec.heads / spec.kv.heads);
            let exact = naive(spec, &cache, &place, prefix + index, &q, kv_head);
            let found = out[index][head * dim..][..dim].iter().map(|&bits| f64::from(f32::from_bits(bits)));
            worst = exact.iter().zip(found).map(|(a, b)| (a - b).abs()).fold(worst, f64::max);
        }
    }
    worst
}

#[test]
fn close_to_attention_in_f64() {
    let keep = |sink, tail| Some(Keep { sink, tail });
    let masks = [
        Mask::CAUSAL,
        window(16),
        window(130),
        Mask { causal: false, window: None, keep: None },
        Mask { causal: false, window: Some(20), keep: None },
        Mask { causal: false, window: None, keep: keep(4, 64) },
        Mask { causal: true, window: Some(90), keep: keep(70, 80) },
        Mask { causal: true, window: None, keep: keep(0, 16) },
    ];
    for mask in masks {
        for (heads, kv_heads, dim) in [(9, 3, 64), (2, 2, 40), (8, 1, 128)] {
            for (prefix, rows) in [(0, 1), (0, 90), (61, 7), (200, 16)] {
                for spec in [spec(heads, kv_heads, dim, mask), elaborate(spec(heads, kv_heads, dim, mask))] {
                    let worst = worst(&spec, prefix, rows);
                    assert!(worst < 5e-6, "{worst} {mask:?} {heads} {kv_heads} {dim} {prefix} {rows}");
                }
            }
        }
    }
}

#[test]
fn long_contexts_stay_accurate() {
    let worst = worst(&spec(6, 2, 32, Mask::CAUSAL), 2000, 3);
    assert!(worst < 2e-6, "{worst}");
}
