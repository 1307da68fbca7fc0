use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::gguf::Gguf;
use crate::map::Map;
pub use crate::matrix::Matrix;
use crate::names::by_analogy;
use crate::quantization::Quantization;
use crate::safetensors::TensorInfo;
use crate::shards::Shards;
use crate::{Element, ModelError};

/// The tensors of one model, whatever files they come from, by canonical name (that of the HF layout).
///
/// Every tensor is taken by the model or declared redundant; [`Checkpoint::finish`] fails on the others.
pub struct Checkpoint {
    path: PathBuf,
    files: Vec<Map>,
    tensors: BTreeMap<String, Entry>,
    /// Bytes of all tensors.
    bytes: u64,
    quantization: Option<Quantization>,
    notes: Vec<String>,
    /// Bytes of the tensors that are skipped.
    skipped: Cell<u64>,
}

struct Entry {
    /// Name in the file.
    name: String,
    element: Element,
    shape: Vec<usize>,
    file: usize,
    range: Range<usize>,
    taken: Cell<bool>,
    skipped: Cell<bool>,
}

/// One tensor: type, shape (outermost dimension first) and the bytes in the mapped file.
pub struct View<'a> {
    /// Name in the file.
    pub name: &'a str,
    /// Type of the elements.
    pub element: Element,
    /// Shape.
    pub shape: &'a [usize],
    /// Little-endian bytes, row major.
    pub bytes: &'a [u8],
}

impl Checkpoint {
    /// Opens the safetensors files of a directory; `canonical` gives tensors and the modules of the
    /// quantisation settings their canonical names.
    ///
    /// # Errors
    /// Missing, short or damaged files; two tensors of one canonical name; MLX overrides that match no
    /// module.
    pub fn open_dir(
        dir: &Path,
        quantization: Option<Quantization>,
        canonical: impl Fn(&str) -> String,
    ) -> Result<Self, ModelError> {
        let shards = Shards::open(dir)?;
        let mut checkpoint = Self::empty(dir);
        for (map, header) in shards.files {
            checkpoint.add(map, header.tensors, &canonical)?;
        }
        checkpoint.notes = shards.notes;
        if let Some(quantization) = quantization {
            let quantization = quantization.canonical(canonical)?;
            quantization.check_overrides(|name| checkpoint.contains(name))?;
            checkpoint.quantization = Some(quantization);
        }
        Ok(checkpoint)
    }

    /// Takes over the tensors of a GGUF model under the names that `canonical` gives them.
    ///
    /// # Errors
    /// Two tensors of one canonical name.
    pub(crate) fn from_gguf(gguf: Gguf, canonical: impl Fn(&str) -> String) -> Result<Self, ModelError> {
        let mut checkpoint = Self::empty(gguf.metadata.path());
        for (map, tensors) in gguf.files {
            checkpoint.add(map, tensors, &canonical)?;
        }
        Ok(checkpoint)
    }

    fn empty(path: &Path) -> Self {
        let (files, tensors, notes) = (Vec::new(), BTreeMap::new(), Vec::new());
        let (bytes, skipped) = (0, Cell::new(0));
        Self { path: path.to_owned(), files, tensors, bytes, quantization: None, notes, skipped }
    }

    fn add(
        &mut self,
        map: Map,
        tensors: Vec<TensorInfo>,
        canonical: impl Fn(&str) -> String,
    ) -> Result<(), ModelError> {
        let file = self.files.len();
        self.files.push(map);
        for TensorInfo { name, element, shape, range } in tensors {
            let key = canonical(&name);
            if let Some(other) = self.tensors.get(&key) {
                return Err(self.twice(&name, other));
            }
            self.bytes += range.len() as u64;
            let [taken, skipped] = [false; 2].map(Cell::new);
            let entry = Entry { name, element, shape, file, range, taken, skipped };
            self.tensors.insert(key, entry);
        }
        Ok(())
    }

    /// The error for a tensor of the last file that is there already.
    fn twice(&self, name: &str, other: &Entry) -> ModelError {
        let path = self.files[self.files.len() - 1].path().to_owned();
        let place = self.files[other.file].path().display();
        let what = match other.name == name {
            true => format!("tensor {name} stands in it and in {place}"),
            false => format!("its tensor {name} and {} in {place} are the same to this model", other.name),
        };
        ModelError::Damaged { path, what }
    }

    /// The directory or file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether a tensor is there.
    pub fn contains(&self, name: &str) -> bool {
        self.tensors.contains_key(name)
    }

    /// Shape of a tensor, if it is there.
    pub fn shape(&self, name: &str) -> Option<&[usize]> {
        self.tensors.get(name).map(|entry| entry.shape.as_slice())
    }

    /// What a user may want to know of the files.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The MLX settings, if any.
    pub(crate) fn quantization(&self) -> Option<&Quantization> {
        self.quantization.as_ref()
    }

    /// Bytes of all tensors that are not skipped.
    pub fn bytes(&self) -> u64 {
        self.bytes - self.skipped.get()
    }

    /// Canonical names in alphabetical order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }

    /// Takes a tensor of known shape.
    ///
    /// # Errors
    /// [`ModelError::MissingTensor`] or [`ModelError::WrongShape`].
    pub fn take(&self, name: &str, shape: &[usize]) -> Result<View<'_>, ModelError> {
        let view = self.take_any(name)?;
        if view.shape != shape {
            return Err(ModelError::WrongShape {
                path: self.path.clone(),
                tensor: view.name.into(),
                expected: shape.into(),
                found: view.shape.into(),
            });
        }
        Ok(view)
    }

    /// Takes a tensor of any shape.
    ///
    /// # Errors
    /// [`ModelError::MissingTensor`].
    pub fn take_any(&self, name: &str) -> Result<View<'_>, ModelError> {
        let entry = self.tensors.get(name).ok_or_else(|| self.missing(name))?;
        entry.taken.set(true);
        let bytes = &self.files[entry.file].bytes()[entry.range.clone()];
        Ok(View { name: &entry.name, element: entry.element, shape: &entry.shape, bytes })
    }

    /// Takes a float vector of `len` values.
    ///
    /// # Errors
    /// A missing tensor, another shape, or a type that is no float.
    pub fn floats(&self, name: &str, len: usize) -> Result<Vec<f32>, ModelError> {
        let view = self.take(name, &[len])?;
        view.element.floats(view.bytes).ok_or_else(|| self.wrong_element(&view, "F32, F16 or BF16"))
    }

    /// The error for a tensor of another type than its use allows.
    pub fn wrong_element(&self, view: &View<'_>, expected: &'static str) -> ModelError {
        let found = view.element.to_string();
        ModelError::WrongElement { path: self.path.clone(), tensor: view.name.into(), expected, found }
    }

    /// The error for a tensor whose values cannot be right.
    pub fn bad_tensor(&self, tensor: &str, what: impl Into<String>) -> ModelError {
        let tensor = self.tensors.get(tensor).map_or(tensor, |entry| &entry.name);
        ModelError::BadTensor { path: self.path.clone(), tensor: tensor.into(), what: what.into() }
    }

    /// The error for a tensor that is not there, by the name that the file would give it if that can be told.
    pub fn missing(&self, name: &str) -> ModelError {
        let mut entries = self.tensors.iter();
        let in_file = entries.find_map(|(key, entry)| by_analogy(name, (key, &entry.name)));
        let tensor = match in_file.filter(|in_file| in_file != name) {
            Some(in_file) => format!("{in_file} ({name})"),
            None => name.into(),
        };
        ModelError::MissingTensor { path: self.path.clone(), tensor }
    }

    /// Bytes of all tensors of a module (weight, scales, biases).
    pub fn module_bytes(&self, module: &str) -> u64 {
        self.module_entries(module).map(|entry| entry.range.len() as u64).sum()
    }

    /// Lets go of the mapped pages of a module that has been packed.
    pub fn release(&self, module: &str) {
        self.module_entries(module).for_each(|entry| self.files[entry.file].release(entry.range.clone()));
    }

    /// Lets go of the mapped pages of a matrix that has been packed, one of a stack for instance; returns its
    /// bytes.
    pub(crate) fn release_matrix(&self, matrix: &Matrix<'_>) -> u64 {
        matrix.sections().map(|bytes| self.release_bytes(bytes)).sum()
    }

    fn release_bytes(&self, bytes: &[u8]) -> u64 {
        let inside = |file: &&Map| file.bytes().as_ptr_range().contains(&bytes.as_ptr());
        if let Some(file) = self.files.iter().find(inside) {
            let start = bytes.as_ptr().addr() - file.bytes().as_ptr().addr();
            file.release(start..start + bytes.len());
        }
        bytes.len() as u64
    }

    fn module_entries<'a>(&'a self, module: &str) -> impl Iterator<Item = &'a Entry> + use<'a> {
        let names = ["", ".weight", ".scales", ".biases"].map(|tail| format!("{module}{tail}"));
        names.into_iter().filter_map(|name| self.tensors.get(&name))
    }

    /// Declares all tensors that `matches` names redundant; returns how many there were.
    pub fn skip(&self, matches: impl Fn(&str) -> bool) -> usize {
        let skipped = self.tensors.iter().filter(|(name, _)| matches(name)).map(|(_, entry)| entry);
        let skip = |entry: &&Entry| {
            entry.taken.set(true);
            if !entry.skipped.replace(true) {
                self.skipped.update(|bytes| bytes + entry.range.len() as u64);
            }
        };
        skipped.inspect(skip).count()
    }

    /// Checks that nothing is left.
    ///
    /// # Errors
    /// [`ModelError::UnusedTensors`] with every tensor neither taken nor skipped.
    pub fn finish(&self) -> Result<(), ModelError> {
        let unused = self.tensors.iter().filter(|(_, entry)| !entry.taken.get());
        let names = unused.map(|(_, entry)| entry.name.clone()).collect::<Vec<_>>();
        if names.is_empty() {
            Ok(())
        } else {
            Err(ModelError::UnusedTensors { path: self.path.clone(), names })
        }
    }
}
