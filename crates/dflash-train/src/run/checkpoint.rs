use std::fs;
use std::path::{Path, PathBuf};

use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use serde::{Deserialize, Serialize};

use crate::export::{Layout, ZlabFormat, read_zlab, write_files};
use crate::graph::TrainState;
use crate::{DraftShape, DraftWeights, Matrix, TrainError};

const FOLDER: &str = "checkpoints";
const DRAFT: &str = "draft";
const OPTIMISER: &str = "optimiser.safetensors";
const COUNTS: &str = "state.json";

/// What a run has been through.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Counts {
    /// Steps.
    pub step: usize,
    /// Ids of answers that were seen, repetitions included.
    pub tokens: u64,
    /// Seconds of training.
    pub seconds: f64,
}

/// All that a run goes on from.
pub(super) struct Checkpoint {
    pub shape: DraftShape,
    pub state: TrainState,
    pub counts: Counts,
}

impl Checkpoint {
    /// Writes it into the folder of a run; earlier ones go once it is whole.
    pub fn write(&self, run: &Path) -> Result<(), TrainError> {
        let folder = run.join(FOLDER);
        let (whole, partial) = (folder.join(name(self.counts.step)), folder.join("partial"));
        let draft = partial.join(DRAFT);
        if partial.exists() {
            fs::remove_dir_all(&partial).map_err(TrainError::io(&partial))?;
        }
        fs::create_dir_all(&draft).map_err(TrainError::io(&draft))?;
        write_files(&draft, &self.shape, &self.state.weights, Layout::Zlab(ZlabFormat::F32))?;
        let path = partial.join(OPTIMISER);
        fs::write(&path, optimiser(&self.state)).map_err(TrainError::io(&path))?;
        let path = partial.join(COUNTS);
        let counts = serde_json::to_string(&self.counts).expect("numbers are JSON");
        fs::write(&path, counts).map_err(TrainError::io(&path))?;
        sync(&draft)?;
        sync(&partial)?;
        let earlier = all(run)?;
        if whole.exists() {
            fs::remove_dir_all(&whole).map_err(TrainError::io(&whole))?;
        }
        fs::rename(&partial, &whole).map_err(TrainError::io(&whole))?;
        for path in earlier.into_iter().filter(|path| *path != whole) {
            fs::remove_dir_all(&path).map_err(TrainError::io(&path))?;
        }
        Ok(())
    }

    /// The last one of a run; `None` where there is none.
    pub fn read(run: &Path) -> Result<Option<Self>, TrainError> {
        let Some(folder) = all(run)?.pop() else { return Ok(None) };
        let (shape, weights) = read_zlab(&folder.join(DRAFT))?;
        let path = folder.join(COUNTS);
        let text = fs::read_to_string(&path).map_err(TrainError::io(&path))?;
        let counts: Counts =
            serde_json::from_str(&text).map_err(|error| TrainError::bad(&path, error.to_string()))?;
        let (means, squares) = read_optimiser(&folder.join(OPTIMISER), &shape)?;
        let state = TrainState { step: counts.step, weights, means, squares };
        Ok(Some(Self { shape, state, counts }))
    }
}

/// The draft of the last checkpoint of a run, a folder in the z-lab layout; `None` where there is none.
///
/// # Errors
/// A folder that cannot be read.
pub fn last_draft(run: &Path) -> Result<Option<PathBuf>, TrainError> {
    Ok(all(run)?.pop().map(|folder| folder.join(DRAFT)))
}

/// Sees to it that the files of a folder are on the disk before others go.
fn sync(folder: &Path) -> Result<(), TrainError> {
    for entry in fs::read_dir(folder).map_err(TrainError::io(folder))? {
        let path = entry.map_err(TrainError::io(folder))?.path();
        if path.is_file() {
            fs::File::open(&path).and_then(|file| file.sync_all()).map_err(TrainError::io(&path))?;
        }
    }
    Ok(())
}

fn name(step: usize) -> String {
    format!("{step:08}")
}

/// The whole checkpoints of a run, in order.
fn all(run: &Path) -> Result<Vec<PathBuf>, TrainError> {
    let folder = run.join(FOLDER);
    if !folder.exists() {
        return Ok(Vec::new());
    }
    let mut paths = Vec::new();
    for entry in fs::read_dir(&folder).map_err(TrainError::io(&folder))? {
        let path = entry.map_err(TrainError::io(&folder))?.path();
        let is_number = |name: &str| name.bytes().all(|byte| byte.is_ascii_digit());
        if path.file_name().and_then(|name| name.to_str()).is_some_and(is_number) {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

fn optimiser(state: &TrainState) -> Vec<u8> {
    let kinds = [("means", &state.means), ("squares", &state.squares)];
    let tensors = kinds.iter().flat_map(|(kind, tensors)| {
        tensors.iter().map(move |(name, matrix)| {
            let bytes = bytemuck::cast_slice(&matrix.values);
            let view = TensorView::new(Dtype::F32, matrix.shape.clone(), bytes);
            (format!("{kind}.{name}"), view.expect("a matrix has as many values as its shape"))
        })
    });
    safetensors::serialize(tensors, None).expect("names and shapes are sound")
}

fn read_optimiser(path: &Path, shape: &DraftShape) -> Result<(DraftWeights, DraftWeights), TrainError> {
    let bytes = fs::read(path).map_err(TrainError::io(path))?;
    let file = SafeTensors::deserialize(&bytes).map_err(|error| TrainError::bad(path, error.to_string()))?;
    let read = |kind: &str| {
        let tensor = |(name, shape): (String, Vec<usize>)| {
            let view = file.tensor(&format!("{kind}.{name}")).ok();
            let view = view.filter(|view| view.dtype() == Dtype::F32 && view.shape() == shape);
            let view =
                view.ok_or_else(|| TrainError::bad(path, format!("lacks {kind}.{name} of {shape:?}")))?;
            let values =
                view.data().chunks_exact(4).map(|it| f32::from_le_bytes([it[0], it[1], it[2], it[3]]));
            Ok((name, Matrix { shape, values: values.collect() }))
        };
        shape.tensors().into_iter().map(tensor).collect::<Result<DraftWeights, TrainError>>()
    };
    Ok((read("means")?, read("squares")?))
}
