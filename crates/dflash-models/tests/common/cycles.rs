//! Drafts run through the cycles of the golden data.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use dflash_models::{Draft, DraftOptions, DraftState, DraftWorkspace, Target};
use dflash_tensor::Backend;

use super::{Golden, assert_close, data, goldens, load, read, tensor};

/// Keys and values are stored as f16; quantised matrices meet activations of eight bits.
pub const FLOAT_TOLERANCE: f64 = 4e-3;
pub const QUANTISED_TOLERANCE: f64 = 0.15;

pub type Goldens = BTreeMap<String, Golden>;

pub fn target(backend: &Arc<dyn Backend>) -> Box<dyn Target> {
    load(&data("llama/tied"), backend).unwrap().target
}

pub fn draft(path: &Path, target: &dyn Target, options: DraftOptions) -> Draft {
    Draft::load(path, target, options).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

pub fn features(inputs: &Goldens, golden: &Goldens, cycle: usize) -> Vec<Vec<f32>> {
    let key = format!("{cycle}.features");
    let features = golden.get(&key).unwrap_or_else(|| &inputs[&key]);
    let row = |row| features.row(row).iter().map(|&x| x as f32).collect();
    (0..features.shape[0]).map(row).collect()
}

/// Four cycles of context and block, the block width shrinking once. Returns the logits of all rows.
pub fn check(
    draft: &Draft,
    target: &dyn Target,
    golden: &Goldens,
    prefix: &str,
    tolerance: f64,
) -> Vec<Vec<f32>> {
    let mut all = Vec::new();
    let inputs = goldens(&data("draft/inputs.safetensors"));
    let (mut ws, mut state) = (draft.workspace(), draft.new_state());
    for cycle in 0..4 {
        let rows = features(&inputs, golden, cycle);
        let rows = tensor(target.backend(), &rows);
        draft.observe(&mut ws, &mut state, &rows, 0..rows.rows(), 0);
        let ids = inputs[&format!("{cycle}.ids")].ids();
        assert_eq!(state.len(), inputs[&format!("{cycle}.start")].values[0] as usize);
        let logits = &golden[&format!("{prefix}{cycle}.logits")];
        let mut found = target.backend().tensor(1, logits.shape[1]);
        draft.logits(&mut ws, &mut [&mut state], &ids[..1], ids.len(), &mut found);
        for (row, found) in read(target.backend(), &found, 0..ids.len() - 1).into_iter().enumerate() {
            assert_close(&found, logits.row(row), tolerance, &format!("{prefix}{cycle} row {row}"));
            all.push(found);
        }
        check_choices(draft, &mut ws, &mut state, &ids, golden, &format!("{prefix}{cycle}"), tolerance);
    }
    all
}

#[allow(clippy::too_many_arguments)]
fn check_choices(
    draft: &Draft,
    ws: &mut DraftWorkspace,
    state: &mut DraftState,
    ids: &[u32],
    golden: &Goldens,
    cycle: &str,
    tolerance: f64,
) {
    let mut out = Vec::new();
    draft.propose(ws, &mut [state], &ids[..1], ids.len(), &mut out).unwrap();
    let wanted = golden[&format!("{cycle}.choices")].ids();
    assert_eq!(out[0].len(), wanted.len());
    for (row, (found, wanted)) in out[0].iter().zip(wanted).enumerate() {
        let logits = golden[&format!("{cycle}.logits")].row(row).to_vec();
        let mut sorted = logits.clone();
        sorted.sort_by(f64::total_cmp);
        let margin = sorted[sorted.len() - 1] - sorted[sorted.len() - 2];
        let spread = (logits.iter().map(|x| x * x).sum::<f64>() / logits.len() as f64).sqrt();
        if margin > 2.0 * tolerance * spread {
            assert_eq!(found.id, wanted, "{cycle} row {row}");
        }
        let logsumexp = logits.iter().map(|x| x.exp()).sum::<f64>().ln();
        assert!((f64::from(found.logsumexp) - logsumexp).abs() < tolerance * spread, "{cycle} row {row}");
    }
}
