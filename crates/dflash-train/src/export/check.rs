use dflash_models::Target;

use crate::{DraftShape, DraftWeights, TrainError};

/// The block lengths that are read back.
const BLOCKS: std::ops::RangeInclusive<usize> = 2..=1024;
/// The largest size that is read back.
const MAX_SIZE: usize = 1 << 21;

/// Fails unless the shape can be and the weights are those of it.
///
/// # Errors
/// [`TrainError::Refused`] with the first thing that is wrong.
pub(super) fn check(shape: &DraftShape, weights: &DraftWeights) -> Result<(), TrainError> {
    check_shape(shape).map_err(TrainError::Refused)?;
    check_weights(shape, weights).map_err(TrainError::Refused)
}

/// What is wrong with a shape, if anything.
pub(super) fn check_shape(shape: &DraftShape) -> Result<(), String> {
    let sizes = [
        ("hidden", shape.hidden),
        ("layers", shape.layers),
        ("ffn", shape.ffn),
        ("heads", shape.heads),
        ("kv_heads", shape.kv_heads),
        ("head_dim", shape.head_dim),
        ("context", shape.context),
        ("target_layers", shape.target_layers),
        ("target_vocab", shape.target_vocab),
    ];
    if let Some((name, size)) = sizes.iter().find(|(_, size)| !(1..=MAX_SIZE).contains(size)) {
        return Err(format!("a draft with {name} {size} cannot be: 1 to {MAX_SIZE} is possible"));
    }
    if !shape.heads.is_multiple_of(shape.kv_heads) || !shape.head_dim.is_multiple_of(2) {
        let DraftShape { heads, kv_heads, head_dim, .. } = shape;
        return Err(format!("{heads} heads over {kv_heads} of width {head_dim} cannot be"));
    }
    if !BLOCKS.contains(&shape.block) {
        return Err(format!("a block of {} cannot be: 2 to 1024 is possible", shape.block));
    }
    if !(shape.rms_norm_eps > 0.0 && shape.rope_theta > 0.0 && shape.rope_theta.is_finite()) {
        let DraftShape { rms_norm_eps, rope_theta, .. } = shape;
        return Err(format!("rms_norm_eps {rms_norm_eps} and rope_theta {rope_theta} have to be positive"));
    }
    if shape.markov_rank > MAX_SIZE {
        return Err(format!("a Markov head of rank {} cannot be", shape.markov_rank));
    }
    check_taps(shape)?;
    check_vocab(shape)
}

fn check_taps(shape: &DraftShape) -> Result<(), String> {
    if shape.taps.is_empty() {
        return Err("a draft without tapped target layers sees nothing".into());
    }
    match shape.taps.iter().find(|&&tap| tap >= shape.target_layers) {
        Some(tap) => Err(format!("the target has layers 0 to {}, and no {tap}", shape.target_layers - 1)),
        None => Ok(()),
    }
}

fn check_vocab(shape: &DraftShape) -> Result<(), String> {
    let Some(ids) = &shape.vocab else { return Ok(()) };
    if ids.is_empty() || !ids.is_sorted_by(|a, b| a < b) {
        return Err("the ids of a reduced vocabulary have to be ascending, and at least one".into());
    }
    match ids.iter().find(|&&id| id as usize >= shape.target_vocab) {
        Some(id) => Err(format!("id {id} is none of the target's {}", shape.target_vocab)),
        None => Ok(()),
    }
}

fn check_weights(shape: &DraftShape, weights: &DraftWeights) -> Result<(), String> {
    let wanted = shape.tensors();
    for (name, shape) in &wanted {
        let matrix = weights.get(name).ok_or_else(|| format!("the draft has no tensor {name}"))?;
        if matrix.shape != *shape || matrix.values.len() != shape.iter().product::<usize>() {
            let (found, values) = (&matrix.shape, matrix.values.len());
            return Err(format!("tensor {name} is {found:?} with {values} values, and should be {shape:?}"));
        }
        if !matrix.values.iter().all(|value| value.is_finite()) {
            return Err(format!(
                "tensor {name} holds a value that is no finite number: training went astray"
            ));
        }
    }
    match weights.keys().find(|&name| wanted.iter().all(|(wanted, _)| wanted != name)) {
        Some(name) => Err(format!("tensor {name} is none of a draft of this shape")),
        None => Ok(()),
    }
}

/// Fails unless `target` is one that a draft of this shape is for.
///
/// # Errors
/// [`TrainError::Refused`].
pub(super) fn check_target(shape: &DraftShape, target: &dyn Target) -> Result<(), TrainError> {
    let spec = target.spec();
    for (what, draft, target) in [
        ("hidden size", shape.hidden, spec.hidden),
        ("number of target layers", shape.target_layers, spec.layers),
        ("number of target ids", shape.target_vocab, spec.vocab),
    ] {
        if draft != target {
            let what =
                format!("the draft's {what} is {draft} and this target's {target}: it is for another one");
            return Err(TrainError::Refused(what));
        }
    }
    Ok(())
}
