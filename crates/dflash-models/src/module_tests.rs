//! Matrices and stacks of them, by the modules' canonical names.

use std::path::Path;

use dflash_tensor::{Format, PartData};
use dflash_testkit::{Dtype, TensorFile};
use serde_json::{Value, json};

use crate::ModelError;
use crate::checkpoint::Checkpoint;
use crate::gguf::Gguf;
use crate::json::Document;
use crate::matrix::Matrix;
use crate::names::text_name;
use crate::quantization::Quantization;

/// A directory with these tensors and this `quantization` section.
fn open(file: &TensorFile, quantization: Value) -> Result<Checkpoint, ModelError> {
    let temp = tempfile::tempdir().unwrap();
    file.write(&temp.path().join("model.safetensors"));
    let config = json!({ "quantization": quantization }).to_string();
    let config = Document::parse(Path::new("config.json"), config.as_bytes()).unwrap();
    let quantization = Quantization::read(&config.keys().unwrap())?;
    Checkpoint::open_dir(temp.path(), quantization, text_name)
}

fn says(error: &ModelError, words: &[&str]) {
    let text = error.to_string();
    words.iter().for_each(|word| assert!(text.contains(word), "{word:?} in {text:?}"));
}

fn bytes(len: usize, first: u8) -> Vec<u8> {
    (0..len).map(|i| first.wrapping_add((i * 7) as u8)).collect()
}

fn floats(len: usize) -> Vec<f32> {
    (0..len).map(|i| i as f32).collect()
}

fn plain<'a>(matrix: &Matrix<'a>) -> &'a [u8] {
    match matrix.data {
        PartData::Plain(bytes) => bytes,
        PartData::Affine { .. } => panic!("a plain matrix"),
    }
}

fn le(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

#[test]
fn float_stacks_are_cut_into_matrices() {
    let values = floats(3 * 2 * 4);
    for name in ["model.layers.0.experts.up.weight", "model.layers.0.experts.up"] {
        let mut file = TensorFile::default();
        file.floats(name, &[3, 2, 4], &values, Dtype::F32);
        let checkpoint = open(&file, Value::Null).unwrap();
        let module = "model.layers.0.experts.up";
        let stack = checkpoint.stack(module, [3, 2, 4], |_| unreachable!()).unwrap();
        assert_eq!(stack.len(), 3);
        for (matrix, values) in stack.iter().zip(values.chunks(8)) {
            assert_eq!((matrix.rows, matrix.cols, plain(matrix)), (2, 4, &le(values)[..]));
        }
        let half = stack[1].rows(1..2);
        assert_eq!((half.rows, plain(&half)), (1, &le(&values[12..16])[..]));
        checkpoint.finish().unwrap();
        assert_eq!(checkpoint.module_bytes(module), 96);
        let error = checkpoint.stack(module, [4, 2, 4], |_| unreachable!()).err().unwrap();
        says(&error, &[name, "[3, 2, 4]", "[4, 2, 4]"]);
    }
}

#[test]
fn affine_stacks_are_cut_with_their_scales_and_biases() {
    let (count, rows, cols) = (2, 3, 64);
    let elements = bytes(count * rows * cols / 2, 3);
    let (scales, biases) = (bytes(count * rows * 2 * 2, 5), bytes(count * rows * 2 * 2, 9));
    let mut file = TensorFile::default();
    file.raw("mlp.switch.up.weight", "U32", &[count, rows, cols / 8], &elements);
    file.raw("mlp.switch.up.scales", "BF16", &[count, rows, 2], &scales);
    file.raw("mlp.switch.up.biases", "BF16", &[count, rows, 2], &biases);
    let checkpoint = open(&file, json!({"bits": 4, "group_size": 32})).unwrap();
    let stack = checkpoint.stack("mlp.switch.up", [count, rows, cols], |_| unreachable!()).unwrap();
    for (index, matrix) in stack.iter().enumerate() {
        let PartData::Affine { elements: e, scales: s, biases: b } = matrix.data else { panic!("affine") };
        assert_eq!((matrix.rows, matrix.cols), (rows, cols));
        assert_eq!(e, &elements[index * 96..(index + 1) * 96]);
        assert_eq!((s, b), (&scales[index * 12..(index + 1) * 12], &biases[index * 12..(index + 1) * 12]));
    }
    checkpoint.finish().unwrap();
}

#[test]
fn block_stacks_of_gguf_are_cut_between_blocks() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("model.gguf");
    let data = bytes(2 * 3 * 34, 1);
    let mut file = b"GGUF\x03\0\0\0".to_vec();
    file.extend([1u64, 0].map(u64::to_le_bytes).concat());
    let name = "blk.0.ffn_up_exps.weight";
    file.extend((name.len() as u64).to_le_bytes());
    file.extend(name.as_bytes());
    file.extend(3u32.to_le_bytes());
    file.extend([32u64, 3, 2].map(u64::to_le_bytes).concat());
    file.extend([8u32, 0, 0].map(u32::to_le_bytes).concat());
    file.resize(file.len().next_multiple_of(32), 0);
    file.extend(&data);
    std::fs::write(&path, file).unwrap();
    let canonical = |_: &str| "experts.up.weight".to_owned();
    let checkpoint = Checkpoint::from_gguf(Gguf::open(&path).unwrap(), canonical).unwrap();
    let stack = checkpoint.stack("experts.up", [2, 3, 32], |_| unreachable!()).unwrap();
    assert_eq!(stack[1].format, Format::Q8_0);
    assert_eq!([plain(&stack[0]), plain(&stack[1])], [&data[..102], &data[102..]]);
}

#[test]
fn separate_matrices_make_a_stack_too() {
    let mut file = TensorFile::default();
    for expert in 0..3 {
        let name = format!("layers.0.experts.{expert}.up.weight");
        file.floats(&name, &[2, 4], &[expert as f32; 8], Dtype::F32);
    }
    let checkpoint = open(&file, Value::Null).unwrap();
    let separate = |expert| format!("layers.0.experts.{expert}.up");
    let stack = checkpoint.stack("layers.0.experts.up", [3, 2, 4], separate).unwrap();
    assert_eq!(plain(&stack[2]), le(&[2.0; 8]));
    let error = checkpoint.stack("layers.0.experts.up", [4, 2, 4], separate).err().unwrap();
    says(&error, &["layers.0.experts.3.up.weight", "missing"]);
}

/// An affine matrix [2, 64] of 4 bits in groups of 32, or of 8 bits.
fn affine(file: &mut TensorFile, module: &str, bits: usize) {
    file.raw(&format!("{module}.weight"), "U32", &[2, 2 * bits], &bytes(16 * bits, 0));
    for tail in ["scales", "biases"] {
        file.floats(&format!("{module}.{tail}"), &[2, 2], &[1.0; 4], Dtype::F16);
    }
}

#[test]
fn overrides_are_matched_after_renaming() {
    let mut file = TensorFile::default();
    let path = "language_model.model.layers.3.mlp";
    affine(&mut file, &format!("{path}.gate"), 8);
    affine(&mut file, &format!("{path}.up"), 4);
    file.floats(&format!("{path}.down.weight"), &[2, 64], &floats(128), Dtype::F32);
    let settings = |more: Value| {
        let mut settings = json!({"bits": 4, "group_size": 32, "mode": "affine"});
        settings[format!("{path}.gate")] = json!({"bits": 8, "group_size": 32, "mode": "affine"});
        settings[format!("{path}.up")] = json!(true);
        settings[format!("{path}.down")] = json!(false);
        settings.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        settings
    };
    let checkpoint = open(&file, settings(json!({}))).unwrap();
    for (module, format) in [("gate", 8), ("up", 4)] {
        let matrix = checkpoint.matrix(&format!("model.layers.3.mlp.{module}"), 2, 64).unwrap();
        assert!(matches!(matrix.format, Format::Affine { bits, group: 32, .. } if bits == format));
    }
    let down = checkpoint.matrix("model.layers.3.mlp.down", 2, 64).unwrap();
    assert_eq!(down.format, Format::F32);
    let other = "language_model.model.layers.4.mlp.gate";
    let error = open(&file, settings(json!({ other: false }))).err().unwrap();
    says(&error, &[other, "matches no module"]);
    let twice = "model.layers.3.mlp.gate";
    let error = open(&file, settings(json!({ twice: false }))).err().unwrap();
    says(&error, &[twice, path, "same module"]);
    let error = open(&file, settings(json!({ format!("{path}.gate"): false }))).unwrap();
    let error = error.matrix("model.layers.3.mlp.gate", 2, 64).err().unwrap();
    says(&error, &["language_model.model.layers.3.mlp.gate", "says false"]);
}

#[test]
fn names_that_mean_the_same_are_refused() {
    let mut file = TensorFile::default();
    for name in ["model.norm.weight", "model.language_model.norm.weight"] {
        file.floats(name, &[2], &[1.0; 2], Dtype::F32);
    }
    let error = open(&file, Value::Null).err().unwrap();
    assert!(matches!(error, ModelError::Damaged { .. }), "{error}");
    says(&error, &["tensor model.norm.weight", "model.language_model.norm.weight", "the same to this model"]);
}

#[test]
fn errors_name_tensors_as_the_file_does() {
    let mut file = TensorFile::default();
    file.floats("model.language_model.layers.0.norm.weight", &[2], &[1.0; 2], Dtype::F32);
    let checkpoint = open(&file, Value::Null).unwrap();
    says(
        &checkpoint.take("model.layers.0.norm.weight", &[3]).err().unwrap(),
        &["tensor model.language_model.layers.0.norm.weight", "[3]"],
    );
    says(
        &checkpoint.take("model.layers.1.norm.weight", &[2]).err().unwrap(),
        &["model.language_model.layers.1.norm.weight (model.layers.1.norm.weight)", "missing"],
    );
    says(
        &checkpoint.bad_tensor("model.layers.0.norm.weight", "odd values"),
        &["tensor model.language_model.layers.0.norm.weight"],
    );
}
