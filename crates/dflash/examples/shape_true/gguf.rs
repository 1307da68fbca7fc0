//! GGUF files with `Q4_K` matrices.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use crate::Outcome;
use crate::fill::Fill;
use crate::models::text_config;
use crate::tensors::{Kind, Meta, Model, Part};
use crate::tokenizer::Vocabulary;

const ALIGNMENT: usize = 32;
const F32: u32 = 0;
const Q4_K: u32 = 12;

/// Writes a model as one file.
pub fn write_model(model: &Model, path: &Path, tokenizer: Option<&Path>) -> Outcome<()> {
    let Some((arch, keys)) = &model.gguf else { return Err("this model is written as MLX only".into()) };
    let text = text_config(&model.config);
    let vocabulary = Vocabulary::read(tokenizer, text["vocab_size"].as_u64().unwrap_or(0) as usize)?;
    let mut header = Header::default();
    header.text("general.architecture", arch);
    header.text("general.name", &format!("random {arch}"));
    for (key, value) in keys {
        header.meta(&format!("{arch}.{key}"), value);
    }
    vocabulary.describe(&mut header);
    let mut out = BufWriter::new(File::create(path)?);
    let bytes = header.finish(&model.parts);
    out.write_all(&bytes)?;
    for (seed, part) in model.parts.iter().enumerate() {
        let (size, fill) = (bytes_of(part), fill(part));
        fill.write(&mut out, size, (seed as u64 + 1) << 40)?;
        out.write_all(&vec![0; size.next_multiple_of(ALIGNMENT) - size])?;
    }
    Ok(out.flush()?)
}

fn fill(part: &Part) -> Fill {
    match part.kind {
        Kind::Matrix(_) => Fill::Q4K((part.shape[part.shape.len() - 1] as f32).powf(-0.5)),
        Kind::Filter => Fill::F32(-0.5, 0.5),
        Kind::Values(low, high) | Kind::Rates(_, (low, high)) => Fill::F32(low, high),
    }
}

fn bytes_of(part: &Part) -> usize {
    let count = part.shape.iter().product::<usize>();
    if matches!(part.kind, Kind::Matrix(_)) { count / 256 * 144 } else { 4 * count }
}

/// Metadata in the making.
#[derive(Default)]
pub struct Header {
    keys: u64,
    bytes: Vec<u8>,
}

impl Header {
    fn key(&mut self, key: &str, kind: u32) {
        self.keys += 1;
        string(&mut self.bytes, key);
        self.bytes.extend(kind.to_le_bytes());
    }

    fn meta(&mut self, key: &str, value: &Meta) {
        match value {
            Meta::Size(size) => self.size(key, *size),
            Meta::Float(float) => {
                self.key(key, 6);
                self.bytes.extend(float.to_le_bytes());
            }
        }
    }

    /// An unsigned number.
    pub fn size(&mut self, key: &str, value: usize) {
        self.key(key, 4);
        self.bytes.extend((value as u32).to_le_bytes());
    }

    /// A string.
    pub fn text(&mut self, key: &str, value: &str) {
        self.key(key, 8);
        string(&mut self.bytes, value);
    }

    /// A list of strings.
    pub fn texts(&mut self, key: &str, values: &[String]) {
        self.list(key, 8, values.len());
        values.iter().for_each(|value| string(&mut self.bytes, value));
    }

    /// A list of numbers.
    pub fn numbers(&mut self, key: &str, values: &[i32]) {
        self.list(key, 5, values.len());
        values.iter().for_each(|value| self.bytes.extend(value.to_le_bytes()));
    }

    fn list(&mut self, key: &str, kind: u32, len: usize) {
        self.key(key, 9);
        self.bytes.extend(kind.to_le_bytes());
        self.bytes.extend((len as u64).to_le_bytes());
    }

    fn finish(self, parts: &[Part]) -> Vec<u8> {
        let mut bytes = b"GGUF".to_vec();
        bytes.extend(3u32.to_le_bytes());
        bytes.extend((parts.len() as u64).to_le_bytes());
        bytes.extend(self.keys.to_le_bytes());
        bytes.extend(self.bytes);
        let mut offset = 0;
        for part in parts {
            let matrix = matches!(part.kind, Kind::Matrix(_));
            string(&mut bytes, &if matrix { format!("{}.weight", part.gguf) } else { part.gguf.clone() });
            bytes.extend((part.shape.len() as u32).to_le_bytes());
            part.shape.iter().rev().for_each(|&size| bytes.extend((size as u64).to_le_bytes()));
            bytes.extend(if matrix { Q4_K } else { F32 }.to_le_bytes());
            bytes.extend((offset as u64).to_le_bytes());
            offset += bytes_of(part).next_multiple_of(ALIGNMENT);
        }
        bytes.resize(bytes.len().next_multiple_of(ALIGNMENT), 0);
        bytes
    }
}

fn string(bytes: &mut Vec<u8>, text: &str) {
    bytes.extend((text.len() as u64).to_le_bytes());
    bytes.extend(text.as_bytes());
}
