//! GGUF targets whose matrices are in every block format, against the same model in single floats.

mod common;

use std::fs;
use std::path::Path;

use common::{assert_close, backends, load, run};
use dflash_tensor::conformance::Matrix;
use dflash_tensor::{Format, PartData};

const HIDDEN: usize = 256;
const FFN: usize = 512;
const VOCAB: usize = 70;
const LAYERS: usize = 2;

/// The formats with the numbers that GGUF gives them.
const FORMATS: [(Format, u32); 10] = [
    (Format::Q4_0, 2),
    (Format::Q4_1, 3),
    (Format::Q5_0, 6),
    (Format::Q5_1, 7),
    (Format::Q8_0, 8),
    (Format::Q2K, 10),
    (Format::Q3K, 11),
    (Format::Q4K, 12),
    (Format::Q5K, 13),
    (Format::Q6K, 14),
];

/// Name, output and input features of the matrices of a layer; keys and values have half the heads.
const MATRICES: [(&str, usize, usize); 7] = [
    ("attn_q", HIDDEN, HIDDEN),
    ("attn_k", HIDDEN / 2, HIDDEN),
    ("attn_v", HIDDEN / 2, HIDDEN),
    ("attn_output", HIDDEN, HIDDEN),
    ("ffn_gate", FFN, HIDDEN),
    ("ffn_up", FFN, HIDDEN),
    ("ffn_down", HIDDEN, FFN),
];

/// A GGUF file in the making.
#[derive(Default)]
struct Gguf {
    keys: u64,
    metadata: Vec<u8>,
    tensors: u64,
    entries: Vec<u8>,
    data: Vec<u8>,
}

impl Gguf {
    fn key(&mut self, key: &str, kind: u32, value: &[u8]) {
        self.keys += 1;
        self.metadata.extend(text(key));
        self.metadata.extend(kind.to_le_bytes());
        self.metadata.extend(value);
    }

    fn number(&mut self, key: &str, value: usize) {
        self.key(key, 4, &(value as u32).to_le_bytes());
    }

    fn tensor(&mut self, name: &str, shape: &[usize], id: u32, bytes: &[u8]) {
        self.tensors += 1;
        self.entries.extend(text(name));
        self.entries.extend((shape.len() as u32).to_le_bytes());
        // The innermost dimension comes first.
        shape.iter().rev().for_each(|&size| self.entries.extend((size as u64).to_le_bytes()));
        self.entries.extend(id.to_le_bytes());
        self.entries.extend((self.data.len() as u64).to_le_bytes());
        self.data.extend(bytes);
        self.data.resize(self.data.len().next_multiple_of(32), 0);
    }

    fn write(&self, path: &Path) {
        let mut file = b"GGUF\x03\0\0\0".to_vec();
        file.extend(self.tensors.to_le_bytes());
        file.extend(self.keys.to_le_bytes());
        file.extend(&self.metadata);
        file.extend(&self.entries);
        file.resize(file.len().next_multiple_of(32), 0);
        file.extend(&self.data);
        fs::write(path, file).unwrap();
    }
}

fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat()
}

fn metadata(file: &mut Gguf) {
    file.key("general.architecture", 8, &text("llama"));
    for (key, value) in [
        ("embedding_length", HIDDEN),
        ("feed_forward_length", FFN),
        ("block_count", LAYERS),
        ("context_length", 128),
        ("attention.head_count", 4),
        ("attention.head_count_kv", 2),
    ] {
        file.number(&format!("llama.{key}"), value);
    }
    file.key("llama.attention.layer_norm_rms_epsilon", 6, &1e-5_f32.to_le_bytes());
    file.key("tokenizer.ggml.model", 8, &text("gpt2"));
    let mut tokens = [&8_u32.to_le_bytes()[..], &(VOCAB as u64).to_le_bytes()].concat();
    (0..VOCAB).for_each(|id| tokens.extend(text(&format!("t{id}"))));
    file.key("tokenizer.ggml.tokens", 9, &tokens);
}

/// A model whose matrices take turns in the formats, the one after `first` first; in single floats if `plain`.
fn model(first: usize, plain: bool) -> Gguf {
    let mut file = Gguf::default();
    metadata(&mut file);
    let mut matrices = 0;
    let mut matrix = |file: &mut Gguf, name: &str, rows: usize, cols: usize| {
        let (format, id) = FORMATS[(first + matrices) % FORMATS.len()];
        matrices += 1;
        let matrix = Matrix::new(format, rows, cols, matrices as u64);
        if plain {
            let values = (0..rows).flat_map(|row| matrix.row(row).iter().map(|&value| value as f32));
            return file.tensor(
                name,
                &[rows, cols],
                0,
                &values.flat_map(f32::to_le_bytes).collect::<Vec<_>>(),
            );
        }
        let PartData::Plain(bytes) = matrix.part().data else { panic!("a block format") };
        file.tensor(name, &[rows, cols], id, bytes);
    };
    let gain = |file: &mut Gguf, name: &str| {
        // Small gains keep the scores of attention small, where rounding has little leverage.
        let values = (0..HIDDEN).map(|i| 0.25 + (i % 7) as f32 / 24.0);
        file.tensor(name, &[HIDDEN], 0, &values.flat_map(f32::to_le_bytes).collect::<Vec<_>>());
    };
    matrix(&mut file, "token_embd.weight", VOCAB, HIDDEN);
    gain(&mut file, "output_norm.weight");
    for layer in 0..LAYERS {
        gain(&mut file, &format!("blk.{layer}.attn_norm.weight"));
        gain(&mut file, &format!("blk.{layer}.ffn_norm.weight"));
        for (name, rows, cols) in MATRICES {
            matrix(&mut file, &format!("blk.{layer}.{name}.weight"), rows, cols);
        }
    }
    matrix(&mut file, "output.weight", VOCAB, HIDDEN);
    file
}

#[test]
fn a_target_in_block_formats_computes_what_its_values_say() {
    let temp = tempfile::tempdir().unwrap();
    let (packed_file, plain_file) = (temp.path().join("packed.gguf"), temp.path().join("plain.gguf"));
    for backend in backends() {
        for first in 0..FORMATS.len() {
            model(first, false).write(&packed_file);
            model(first, true).write(&plain_file);
            let [packed, plain] = [&packed_file, &plain_file].map(|path| {
                let loaded = load(path, &backend).unwrap_or_else(|error| panic!("{error}"));
                run(loaded.target.as_ref(), &[3, 50, 7, 66, 12], &[2, 3], &[0]).logits
            });
            for (row, (packed, plain)) in packed.iter().zip(&plain).enumerate() {
                let plain: Vec<f64> = plain.iter().map(|&x| x.into()).collect();
                // Activations meet quantised matrices as eight bits.
                assert_close(packed, &plain, 0.1, &format!("formats from {first} on, row {row}"));
            }
        }
    }
}
