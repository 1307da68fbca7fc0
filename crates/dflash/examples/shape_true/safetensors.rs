//! Directories in HF layout, quantised as MLX does.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use serde_json::{Map, Value, json};

use crate::Outcome;
use crate::fill::Fill;
use crate::tensors::{Kind, Model, Part};
use crate::tokenizer;

const GROUP: usize = 64;

/// A tensor as it stands in a file.
pub struct Stored {
    /// Name in the file.
    pub name: String,
    /// Type, by its safetensors name.
    pub dtype: &'static str,
    /// Outermost dimension first.
    pub shape: Vec<usize>,
    /// Its bytes.
    pub fill: Fill,
}

impl Stored {
    fn bytes(&self) -> usize {
        let size = if self.dtype == "BF16" { 2 } else { 4 };
        size * self.shape.iter().product::<usize>()
    }
}

/// Writes a model with matrices of 4 bits in groups of 64.
pub fn write_model(model: &Model, dir: &Path, tokenizer: Option<&Path>) -> Outcome<()> {
    std::fs::create_dir_all(dir)?;
    let mut config = model.config.clone();
    let mut section = Map::from_iter([("bits".into(), json!(4)), ("group_size".into(), json!(GROUP))]);
    for part in &model.parts {
        if let Kind::Matrix(bits @ (0..=3 | 5..)) = part.kind {
            section.insert(part.mlx.clone(), json!({"bits": bits, "group_size": GROUP}));
        }
    }
    // MLX writes the section under both names.
    config["quantization"] = Value::Object(section.clone());
    config["quantization_config"] = Value::Object(section);
    std::fs::write(dir.join("config.json"), serde_json::to_vec_pretty(&config)?)?;
    if let Some(tokenizer) = tokenizer {
        tokenizer::copy(tokenizer, dir)?;
    }
    let stored = model.parts.iter().flat_map(stored).collect::<Vec<_>>();
    write(&dir.join("model.safetensors"), &stored)
}

/// Writes one file.
pub fn write(path: &Path, tensors: &[Stored]) -> Outcome<()> {
    let (mut header, mut start) = (Map::new(), 0);
    for tensor in tensors {
        let end = start + tensor.bytes();
        let entry = json!({"dtype": tensor.dtype, "shape": tensor.shape, "data_offsets": [start, end]});
        header.insert(tensor.name.clone(), entry);
        start = end;
    }
    let mut header = Value::Object(header).to_string();
    header.extend(std::iter::repeat_n(' ', header.len().next_multiple_of(8) - header.len()));
    let mut out = BufWriter::new(File::create(path)?);
    out.write_all(&(header.len() as u64).to_le_bytes())?;
    out.write_all(header.as_bytes())?;
    for (seed, tensor) in tensors.iter().enumerate() {
        tensor.fill.write(&mut out, tensor.bytes(), (seed as u64 + 1) << 40)?;
    }
    Ok(out.flush()?)
}

fn stored(part: &Part) -> Vec<Stored> {
    let one = |dtype, shape, fill| vec![Stored { name: part.mlx.clone(), dtype, shape, fill }];
    match part.kind {
        Kind::Matrix(bits) => quantised(part, bits),
        Kind::Filter => one("BF16", [&part.shape[..], &[1]].concat(), Fill::Signed(0.25)),
        Kind::Values(low, _) => one("BF16", part.shape.clone(), Fill::Bf16(low)),
        Kind::Rates((low, high), _) => one("F32", part.shape.clone(), Fill::F32(low, high)),
    }
}

fn quantised(part: &Part, bits: u8) -> Vec<Stored> {
    let (outer, cols) = part.shape.split_at(part.shape.len() - 1);
    let with = |width: usize| [outer, &[width]].concat();
    let top = f32::from((1u16 << bits) - 1);
    // Of elements up to `top` the deviation is that by the root of 12; scales are 1.44 times their least value
    // in the middle.
    let scale = power_of_two(2.4 / (top * (cols[0] as f32).sqrt()));
    let tensor = |tail: &str, dtype, width, fill| {
        let name = format!("{}.{tail}", part.mlx);
        Stored { name, dtype, shape: with(width), fill }
    };
    vec![
        tensor("weight", "U32", cols[0] * bits as usize / 32, Fill::Bytes),
        tensor("scales", "BF16", cols[0] / GROUP, Fill::Bf16(scale)),
        tensor("biases", "BF16", cols[0] / GROUP, Fill::Same(-0.72 * top * scale)),
    ]
}

/// The next power of two below.
pub fn power_of_two(value: f32) -> f32 {
    f32::from_bits(value.to_bits() & 0x7f80_0000)
}
