use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use dflash_tensor::{Format, Part, PartData};

use crate::gguf::Gguf;
use crate::map::Map;
use crate::quantization::{Plan, Quantization};
use crate::safetensors::TensorInfo;
use crate::{Element, ModelError, shards};

/// The tensors of one model, whatever files they come from, by canonical name (that of the HF layout).
///
/// Every tensor is taken by the model or declared redundant; [`Checkpoint::finish`] fails on the others.
pub struct Checkpoint {
    path: PathBuf,
    files: Vec<Map>,
    tensors: BTreeMap<String, Entry>,
    quantization: Option<Quantization>,
}

struct Entry {
    element: Element,
    shape: Vec<usize>,
    file: usize,
    range: Range<usize>,
    taken: Cell<bool>,
}

/// One tensor: type, shape (outermost dimension first) and the bytes in the mapped file.
pub struct View<'a> {
    /// Canonical name.
    pub name: String,
    /// Type of the elements.
    pub element: Element,
    /// Shape.
    pub shape: &'a [usize],
    /// Little-endian bytes, row major.
    pub bytes: &'a [u8],
}

/// One matrix `[rows, cols]`, plain or quantised, ready to be packed.
pub struct Matrix<'a> {
    /// How it is stored.
    pub format: Format,
    /// Output features.
    pub rows: usize,
    /// Input features.
    pub cols: usize,
    /// The bytes.
    pub data: PartData<'a>,
}

impl<'a> Matrix<'a> {
    /// As a part of a packed weight.
    pub fn part<'b>(&self, bias: Option<&'b [f32]>, order: Option<&'b [u32]>) -> Part<'b>
    where
        'a: 'b,
    {
        Part { format: self.format, rows: self.rows, cols: self.cols, data: self.data, bias, order }
    }
}

impl Checkpoint {
    /// Opens the safetensors files of a directory.
    ///
    /// # Errors
    /// Missing, short or damaged files; MLX overrides that match no module.
    pub fn open_dir(dir: &Path, quantization: Option<Quantization>) -> Result<Self, ModelError> {
        let mut checkpoint = Self { path: dir.into(), files: vec![], tensors: BTreeMap::new(), quantization };
        for (map, header) in shards::open(dir)? {
            checkpoint.add(map, header.tensors, str::to_owned)?;
        }
        if let Some(quantization) = &checkpoint.quantization {
            quantization.check_overrides(|name| checkpoint.contains(name))?;
        }
        Ok(checkpoint)
    }

    /// Takes over the tensors of a GGUF file under the names that `canonical` gives them.
    ///
    /// # Errors
    /// Two tensors of one canonical name.
    pub(crate) fn from_gguf(gguf: Gguf, canonical: impl Fn(&str) -> String) -> Result<Self, ModelError> {
        let path = gguf.map.path().to_owned();
        let mut checkpoint = Self { path, files: vec![], tensors: BTreeMap::new(), quantization: None };
        checkpoint.add(gguf.map, gguf.tensors, canonical)?;
        Ok(checkpoint)
    }

    fn add(
        &mut self,
        map: Map,
        tensors: Vec<TensorInfo>,
        canonical: impl Fn(&str) -> String,
    ) -> Result<(), ModelError> {
        let file = self.files.len();
        for TensorInfo { name, element, shape, range } in tensors {
            let entry = Entry { element, shape, file, range, taken: Cell::new(false) };
            if self.tensors.insert(canonical(&name), entry).is_some() {
                let what = format!("tensor {name} stands in it and in another place of the checkpoint");
                return Err(ModelError::Damaged { path: map.path().to_owned(), what });
            }
        }
        self.files.push(map);
        Ok(())
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

    /// Bytes of all tensors.
    pub fn bytes(&self) -> u64 {
        self.tensors.values().map(|entry| entry.range.len() as u64).sum()
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
                tensor: name.into(),
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
        let missing = || ModelError::MissingTensor { path: self.path.clone(), tensor: name.into() };
        let entry = self.tensors.get(name).ok_or_else(missing)?;
        entry.taken.set(true);
        let bytes = &self.files[entry.file].bytes()[entry.range.clone()];
        Ok(View { name: name.into(), element: entry.element, shape: &entry.shape, bytes })
    }

    /// Takes a float vector of `len` values.
    ///
    /// # Errors
    /// A missing tensor, another shape, or a type that is no float.
    pub fn floats(&self, name: &str, len: usize) -> Result<Vec<f32>, ModelError> {
        let view = self.take(name, &[len])?;
        view.element.floats(view.bytes).ok_or_else(|| self.wrong_element(&view, "F32, F16 or BF16"))
    }

    /// Takes the matrix `[rows, cols]` of a module, quantised when the file holds `<module>.scales`.
    ///
    /// # Errors
    /// A missing tensor, another shape, or a type that no backend packs.
    pub fn matrix(&self, module: &str, rows: usize, cols: usize) -> Result<Matrix<'_>, ModelError> {
        if self.contains(&format!("{module}.scales")) {
            return self.affine(module, rows, cols);
        }
        let view = self.take(&format!("{module}.weight"), &[rows, cols])?;
        let Element::Plain(format) = view.element else {
            return Err(self.wrong_element(&view, "a float or block format"));
        };
        Ok(Matrix { format, rows, cols, data: PartData::Plain(view.bytes) })
    }

    fn affine(&self, module: &str, rows: usize, cols: usize) -> Result<Matrix<'_>, ModelError> {
        let Plan { bits, group } = self.plan(module, cols)?;
        let groups = cols / group as usize;
        let elements = self.take(&format!("{module}.weight"), &[rows, cols * bits as usize / 32])?;
        let scales = self.take(&format!("{module}.scales"), &[rows, groups])?;
        let biases = self.take(&format!("{module}.biases"), &[rows, groups])?;
        if elements.element != Element::U32 {
            return Err(self.wrong_element(&elements, "U32"));
        }
        let scale = scales.element.scale().ok_or_else(|| self.wrong_element(&scales, "F32, F16 or BF16"))?;
        if biases.element != scales.element {
            return Err(self.wrong_element(&biases, "the type of its scales"));
        }
        let format = Format::Affine { bits, group, scale };
        let (elements, scales, biases) = (elements.bytes, scales.bytes, biases.bytes);
        let data = PartData::Affine { elements, scales, biases };
        Ok(Matrix { format, rows, cols, data })
    }

    fn plan(&self, module: &str, cols: usize) -> Result<Plan, ModelError> {
        let error =
            |what: String| ModelError::Quantization { path: self.path.clone(), module: module.into(), what };
        let none = || error("the file holds scales, but config.json has no `quantization` section".into());
        let plan = self.quantization.as_ref().ok_or_else(none)?.plan(module)?;
        if !cols.is_multiple_of(plan.group as usize) {
            return Err(error(format!("{cols} inputs are not a multiple of group_size {}", plan.group)));
        }
        Ok(plan)
    }

    /// The error for a tensor of another type than its use allows.
    pub fn wrong_element(&self, view: &View<'_>, expected: &'static str) -> ModelError {
        let found = view.element.to_string();
        ModelError::WrongElement { path: self.path.clone(), tensor: view.name.clone(), expected, found }
    }

    /// The error for a tensor whose values cannot be right.
    pub fn bad_tensor(&self, tensor: &str, what: impl Into<String>) -> ModelError {
        ModelError::BadTensor { path: self.path.clone(), tensor: tensor.into(), what: what.into() }
    }

    /// Bytes of all tensors of a module (weight, scales, biases).
    pub fn module_bytes(&self, module: &str) -> u64 {
        self.module_entries(module).map(|entry| entry.range.len() as u64).sum()
    }

    /// Lets go of the mapped pages of a module that has been packed.
    pub fn release(&self, module: &str) {
        self.module_entries(module).for_each(|entry| self.files[entry.file].release(entry.range.clone()));
    }

    fn module_entries<'a>(&'a self, module: &str) -> impl Iterator<Item = &'a Entry> + use<'a> {
        let names = [".weight", ".scales", ".biases"].map(|tail| format!("{module}{tail}"));
        names.into_iter().filter_map(|name| self.tensors.get(&name))
    }

    /// Declares all tensors that `matches` names redundant; returns how many there were.
    pub fn skip(&self, matches: impl Fn(&str) -> bool) -> usize {
        let skipped = self.tensors.iter().filter(|(name, _)| matches(name));
        skipped.inspect(|(_, entry)| entry.taken.set(true)).count()
    }

    /// Checks that nothing is left.
    ///
    /// # Errors
    /// [`ModelError::UnusedTensors`] with every tensor neither taken nor skipped.
    pub fn finish(&self) -> Result<(), ModelError> {
        let unused = self.tensors.iter().filter(|(_, entry)| !entry.taken.get());
        let names = unused.map(|(name, _)| name.clone()).collect::<Vec<_>>();
        if names.is_empty() {
            Ok(())
        } else {
            Err(ModelError::UnusedTensors { path: self.path.clone(), names })
        }
    }
}
