use std::path::Path;

use half::{bf16, f16};
use serde_json::{Map, Value, json};

/// How the values of a tensor are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dtype {
    /// IEEE single.
    F32,
    /// IEEE half.
    F16,
    /// bfloat16.
    Bf16,
}

impl Dtype {
    /// Name in configs of transformers.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "float32",
            Self::F16 => "float16",
            Self::Bf16 => "bfloat16",
        }
    }

    fn safetensors(self) -> &'static str {
        match self {
            Self::F32 => "F32",
            Self::F16 => "F16",
            Self::Bf16 => "BF16",
        }
    }

    fn bytes(self, value: f32) -> Vec<u8> {
        match self {
            Self::F32 => value.to_le_bytes().to_vec(),
            Self::F16 => f16::from_f32(value).to_le_bytes().to_vec(),
            Self::Bf16 => bf16::from_f32(value).to_le_bytes().to_vec(),
        }
    }
}

/// A safetensors file in the making.
#[derive(Debug, Clone, Default)]
pub struct TensorFile {
    header: Map<String, Value>,
    data: Vec<u8>,
}

impl TensorFile {
    /// Adds a float tensor.
    ///
    /// # Panics
    /// When values and shape do not agree.
    pub fn floats(&mut self, name: &str, shape: &[usize], values: &[f32], dtype: Dtype) {
        assert_eq!(values.len(), shape.iter().product::<usize>(), "{name}: one value per element");
        let bytes = values.iter().flat_map(|&value| dtype.bytes(value)).collect::<Vec<_>>();
        self.raw(name, dtype.safetensors(), shape, &bytes);
    }

    /// Adds a tensor of any type by its bytes.
    pub fn raw(&mut self, name: &str, dtype: &str, shape: &[usize], bytes: &[u8]) {
        let start = self.data.len();
        self.data.extend_from_slice(bytes);
        let entry = json!({"dtype": dtype, "shape": shape, "data_offsets": [start, self.data.len()]});
        self.header.insert(name.to_owned(), entry);
    }

    /// The bytes of the file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut header = Value::Object(self.header.clone()).to_string();
        while !header.len().is_multiple_of(8) {
            header.push(' ');
        }
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend_from_slice(header.as_bytes());
        bytes.extend_from_slice(&self.data);
        bytes
    }

    /// Writes the file.
    ///
    /// # Panics
    /// When the system refuses.
    pub fn write(&self, path: &Path) {
        std::fs::write(path, self.to_bytes()).expect("a writable test directory");
    }
}

/// Writes a JSON file.
///
/// # Panics
/// When the system refuses.
pub(crate) fn write_json(path: &Path, value: &Value) {
    std::fs::write(path, value.to_string()).expect("a writable test directory");
}
