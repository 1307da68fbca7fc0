//! Drafts of every layout against an independent implementation in f32.

mod common;

use common::cycles::{FLOAT_TOLERANCE, QUANTISED_TOLERANCE, check, draft, features, target};
use common::{assert_close, backend, backends, copy_dir, data, goldens, load, tensor};
use dflash_models::{Draft, DraftOptions, DraftQuant, Target};
use dflash_tensor::Choice;
use dflash_testkit::{Rng, TinyDraft, TinyLlama};

const VARIANTS: &[(&str, f64)] = &[
    ("flat-f32", FLOAT_TOLERANCE),
    ("flat-bf16-unsorted", FLOAT_TOLERANCE),
    ("nested-f16", FLOAT_TOLERANCE),
    ("mlx-8bit-gs64", QUANTISED_TOLERANCE),
    ("mlx-4bit-gs32", QUANTISED_TOLERANCE),
    ("mlx-overrides", QUANTISED_TOLERANCE),
    ("speculators-own", FLOAT_TOLERANCE),
    ("speculators-shared", FLOAT_TOLERANCE),
    ("sliding", FLOAT_TOLERANCE),
    ("yarn", FLOAT_TOLERANCE),
];

#[test]
fn every_layout_matches_the_goldens() {
    for backend in backends() {
        let target = target(&backend);
        for (name, tolerance) in VARIANTS {
            println!("{name} on {}", backend.name());
            let dir = data("draft").join(name);
            let draft = draft(&dir, target.as_ref(), DraftOptions::default());
            assert_eq!((draft.spec().block, draft.spec().mask_id), (8, 105), "{name}");
            assert!(draft.spec().notes.is_empty(), "{name}: {:?}", draft.spec().notes);
            check(&draft, target.as_ref(), &goldens(&dir.join("golden.safetensors")), "", *tolerance);
        }
    }
}

#[test]
fn a_small_context_keeps_sink_and_window() {
    let small = DraftOptions { sink: 2, window: Some(6), quant: None };
    for backend in backends() {
        let target = target(&backend);
        for name in ["flat-f32", "sliding"] {
            let dir = data("draft").join(name);
            let draft = draft(&dir, target.as_ref(), small);
            check(
                &draft,
                target.as_ref(),
                &goldens(&dir.join("golden.safetensors")),
                "small.",
                FLOAT_TOLERANCE,
            );
        }
    }
}

#[test]
fn causality_inside_the_block_follows_the_config() {
    let backend = backend();
    let target = target(&backend);
    let dir = data("draft/sliding");
    let golden = goldens(&dir.join("golden.safetensors"));
    for name in ["noncausal", "causal"] {
        let temp = tempfile::tempdir().unwrap();
        let dir = copy_dir(&dir, temp.path(), &format!("config.{name}.json"));
        let draft = draft(&dir, target.as_ref(), DraftOptions::default());
        check(&draft, target.as_ref(), &golden, &format!("{name}."), FLOAT_TOLERANCE);
    }
}

#[test]
fn the_older_schema_gives_the_same_draft() {
    let backend = backend();
    let target = target(&backend);
    for name in ["nested-f16", "yarn"] {
        let (dir, temp) = (data("draft").join(name), tempfile::tempdir().unwrap());
        let flat = copy_dir(&dir, temp.path(), "config.flat.json");
        let golden = goldens(&dir.join("golden.safetensors"));
        let draft = draft(&flat, target.as_ref(), DraftOptions::default());
        check(&draft, target.as_ref(), &golden, "", FLOAT_TOLERANCE);
    }
}

#[test]
fn taps_keep_the_order_of_the_config() {
    let backend = backend();
    let target = target(&backend);
    let dir = data("draft/flat-bf16-unsorted");
    let golden = goldens(&dir.join("golden.safetensors"));
    let draft = draft(&dir, target.as_ref(), DraftOptions::default());
    assert_eq!(draft.spec().taps, [2, 0, 1]);
    let ids = golden["prompt"].ids();
    let run = common::run(target.as_ref(), &ids, &[ids.len()], &draft.spec().taps);
    let expected = (0..4).flat_map(|cycle| features(&golden, &golden, cycle));
    for (row, expected) in expected.enumerate() {
        let expected = expected.iter().map(|&x| f64::from(x)).collect::<Vec<_>>();
        assert_close(&run.taps[row], &expected, FLOAT_TOLERANCE, &format!("features of row {row}"));
    }
}

/// Random-looking features, `[rows, 192]`.
fn noise(rows: usize) -> Vec<Vec<f32>> {
    let mut rng = Rng::new(7);
    (0..rows).map(|_| rng.bells(192, 1.7)).collect()
}

fn proposals(
    draft: &Draft,
    target: &dyn Target,
    rows: &[Vec<f32>],
    pieces: &[usize],
    tell: bool,
) -> Vec<Choice> {
    let (mut ws, mut state, mut out) = (draft.workspace(), draft.new_state(), Vec::new());
    let features = tensor(target.backend(), rows);
    let mut start = 0;
    for &piece in pieces {
        let upcoming = if tell { rows.len() - start - piece } else { 0 };
        draft.observe(&mut ws, &mut state, &features, start..start + piece, upcoming);
        start += piece;
        assert_eq!(state.len(), start);
    }
    draft.propose(&mut ws, &mut [&mut state], &[17], 8, &mut out).unwrap();
    out.remove(0)
}

#[test]
fn proposals_do_not_depend_on_how_the_context_arrived() {
    for backend in backends() {
        let target = target(&backend);
        for name in ["flat-f32", "sliding", "mlx-4bit-gs32"] {
            for window in [Some(1024), Some(50), Some(6), None] {
                let options = DraftOptions { sink: 5, window, quant: None };
                let draft = draft(&data("draft").join(name), target.as_ref(), options);
                let rows = noise(200);
                let whole = proposals(&draft, target.as_ref(), &rows, &[200], false);
                for pieces in [vec![1; 200], vec![150, 31, 1, 17, 1], vec![3, 33, 64, 100], vec![196, 2, 2]] {
                    for tell in [false, true] {
                        let found = proposals(&draft, target.as_ref(), &rows, &pieces, tell);
                        assert_eq!(whole, found, "{name} {window:?} {pieces:?} {tell}");
                    }
                }
            }
        }
    }
}

#[test]
fn sequences_of_one_call_do_not_meet() {
    let backend = backend();
    let target = target(&backend);
    let draft = draft(&data("draft/sliding"), target.as_ref(), DraftOptions::default());
    let rows = noise(60);
    let features = tensor(&backend, &rows);
    let mut ws = draft.workspace();
    let mut states = [0; 3].map(|_| draft.new_state());
    for (state, len) in states.iter_mut().zip([60, 1, 20]) {
        draft.observe(&mut ws, state, &features, 0..len, 0);
    }
    let (mut together, mut alone) = (Vec::new(), Vec::new());
    let mut all = states.iter_mut().collect::<Vec<_>>();
    draft.propose(&mut ws, &mut all, &[4, 5, 6], 6, &mut together).unwrap();
    for (i, len) in [60, 1, 20].into_iter().enumerate() {
        let mut state = draft.new_state();
        draft.observe(&mut ws, &mut state, &features, 0..len, 0);
        draft.propose(&mut ws, &mut [&mut state], &[4 + i as u32], 6, &mut alone).unwrap();
        assert_eq!(together[i], alone[0], "sequence {i}");
    }
}

#[test]
fn a_windowed_draft_holds_bounded_state() {
    let (backend, temp) = (backend(), tempfile::tempdir().unwrap());
    let (tiny, small) = (TinyLlama::default(), TinyDraft::default());
    let target = load(&tiny.write(&temp.path().join("target")), &backend).unwrap().target;
    let options = DraftOptions { sink: 64, window: Some(128), quant: None };
    let draft = draft(&small.write(&temp.path().join("draft"), &tiny), target.as_ref(), options);
    let (mut ws, mut state) = (draft.workspace(), draft.new_state());
    let features = tensor(&backend, &vec![vec![0.5; 64]; 64]);
    let mut most = 0;
    for _ in 0..40 {
        draft.observe(&mut ws, &mut state, &features, 0..64, 0);
        most = most.max(state.bytes());
    }
    assert_eq!(state.len(), 2560);
    // Sink, window and one block in progress: four blocks of 64 positions in each layer.
    let block = 64 * 2 * tiny.kv_heads * tiny.head_dim * 2;
    assert!(most <= 2 * 4 * block, "{most} bytes for blocks of {block}");
}

#[test]
fn a_float_draft_can_be_quantised_while_it_loads() {
    let backend = backend();
    let target = target(&backend);
    let dir = data("draft/flat-f32");
    let rows = noise(40);
    let plain = draft(&dir, target.as_ref(), DraftOptions::default());
    let wanted = proposals(&plain, target.as_ref(), &rows, &[40], false);
    for (bits, group, tolerance) in [(8, 64, 0.05), (8, 32, 0.05), (4, 32, 0.5)] {
        let quant = Some(DraftQuant { bits, group });
        let draft = draft(&dir, target.as_ref(), DraftOptions { quant, ..DraftOptions::default() });
        assert!(draft.spec().weight_bytes < plain.spec().weight_bytes / 2, "{bits} bits");
        let found = proposals(&draft, target.as_ref(), &rows, &[40], false);
        for (found, wanted) in found.iter().zip(&wanted) {
            let off = (found.logsumexp - wanted.logsumexp).abs() / wanted.logsumexp;
            assert!(off < tolerance, "{bits} bits: {found:?} for {wanted:?}");
        }
    }
}
