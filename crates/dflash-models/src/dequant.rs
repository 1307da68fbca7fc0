//! Every storage format against golden values: what is packed is what the file means, and the quantiser
//! gives the bits of an independent one.

use std::path::{Path, PathBuf};

use dflash_cpu::{CpuBackend, Isa};
use dflash_tensor::{AffineScale, Backend, Format, Part, PartData};

use crate::affine::{AffineMatrix, DraftQuant};
use crate::hf::HfDir;
use crate::map::Map;
use crate::safetensors::Header;

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

/// A file of golden tensors.
struct Goldens {
    map: Map,
    header: Header,
}

impl Goldens {
    fn open(name: &str) -> Self {
        let map = Map::open(&data(name)).unwrap();
        let header = Header::read(&map).unwrap();
        Self { map, header }
    }

    fn bytes(&self, name: &str) -> &[u8] {
        let tensor = self.header.tensors.iter().find(|tensor| tensor.name == name).expect("a golden tensor");
        &self.map.bytes()[tensor.range.clone()]
    }

    fn values(&self, name: &str) -> Vec<f32> {
        crate::Element::Plain(Format::F32).floats(self.bytes(name)).unwrap()
    }
}

/// All values of a packed matrix.
fn unpacked(part: Part<'_>, rows: usize) -> Vec<f32> {
    let backend = CpuBackend::new(1, Isa::detect());
    let cols = part.cols;
    let weight = backend.pack(&[part]).unwrap();
    let mut out = backend.tensor(rows, cols);
    backend.embed(&weight, &(0..rows as u32).collect::<Vec<_>>(), 1.0, &mut out);
    (0..rows).flat_map(|row| backend.read(&out, row)).collect()
}

/// Products and sums may be fused, so the last bit is free.
fn assert_same(found: &[f32], wanted: &[f32], what: &str) {
    assert_eq!(found.len(), wanted.len(), "{what}");
    let largest = wanted.iter().fold(0f32, |largest, x| largest.max(x.abs()));
    for (i, (found, wanted)) in found.iter().zip(wanted).enumerate() {
        assert!((found - wanted).abs() <= 2e-7 * largest, "{what} element {i}: {found} for {wanted}");
    }
}

/// The index of the golden tensors: how GGUF numbers its types and how large their blocks are.
#[test]
fn gguf_types_are_read_by_their_numbers() {
    let index = std::fs::read_to_string(data("dequant.json")).unwrap();
    let index: serde_json::Value = serde_json::from_str(&index).unwrap();
    let types = index["gguf"].as_object().unwrap();
    assert_eq!(types.len(), 12);
    for (name, facts) in types {
        let number = |key: &str| facts[key].as_u64().unwrap() as usize;
        let element = crate::Element::of_gguf(number("ggml_type") as u32).expect("a type with a reader");
        let crate::Element::Plain(format) = element else { panic!("{name} is a block format") };
        assert_eq!(format.to_string(), *name);
        assert_eq!(
            [format.block(), format.block_bytes()],
            ["block_elements", "block_bytes"].map(number),
            "{name}"
        );
    }
}

#[test]
fn gguf_formats_dequantise_to_the_goldens() {
    let goldens = Goldens::open("dequant.safetensors");
    for (name, format, cols) in [
        ("F16", Format::F16, 64),
        ("BF16", Format::Bf16, 64),
        ("Q8_0", Format::Q8_0, 64),
        ("Q4_0", Format::Q4_0, 64),
        ("Q4_1", Format::Q4_1, 64),
        ("Q5_0", Format::Q5_0, 64),
        ("Q5_1", Format::Q5_1, 64),
        ("Q2_K", Format::Q2K, 256),
        ("Q3_K", Format::Q3K, 256),
        ("Q4_K", Format::Q4K, 768),
        ("Q5_K", Format::Q5K, 768),
        ("Q6_K", Format::Q6K, 768),
    ] {
        let raw = goldens.bytes(&format!("{name}.raw"));
        let wanted = goldens.values(&format!("{name}.values"));
        let rows = wanted.len() / cols;
        let found = unpacked(Part::plain(format, rows, cols, raw), rows);
        if matches!(format, Format::F16 | Format::Bf16) {
            assert_eq!(found, wanted, "{name}");
        }
        assert_same(&found, &wanted, name);
    }
}

const GROUPS: [(u16, AffineScale); 3] =
    [(32, AffineScale::F32), (64, AffineScale::Bf16), (128, AffineScale::F16)];

#[test]
fn mlx_formats_dequantise_to_the_goldens() {
    let goldens = Goldens::open("dequant.safetensors");
    for (bits, (group, scale)) in
        [2, 3, 4, 5, 6, 8].into_iter().flat_map(|bits| GROUPS.map(|group| (bits, group)))
    {
        let name = format!("mlx.b{bits}.g{group}");
        let [elements, scales, biases] =
            ["weight", "scales", "biases"].map(|tail| goldens.bytes(&format!("{name}.{tail}")));
        let data = PartData::Affine { elements, scales, biases };
        let format = Format::Affine { bits, group, scale };
        let part = Part { format, rows: 2, cols: 384, data, bias: None, order: None };
        assert_same(&unpacked(part, 2), &goldens.values(&format!("{name}.values")), &name);
    }
}

#[test]
fn the_quantiser_gives_the_golden_bits() {
    let goldens = Goldens::open("dequant.safetensors");
    let source = goldens.values("mlx.source");
    for (bits, (group, scale)) in [2, 4, 8].into_iter().flat_map(|bits| GROUPS.map(|group| (bits, group))) {
        let matrix = AffineMatrix::quantize(&source, 384, DraftQuant { bits, group }, scale);
        for (tail, found) in ["weight", "scales", "biases"].into_iter().zip(matrix.bytes()) {
            let name = format!("mlx.b{bits}.g{group}.{tail}");
            assert_eq!(found, goldens.bytes(&name), "{name}");
        }
    }
}

/// The first rows of a module of a quantised draft, plans and overrides included.
fn check_module(name: &str, module: &str, [rows, cols]: [usize; 2]) {
    let checkpoint = HfDir::open(&data("draft").join(name)).unwrap().checkpoint(str::to_owned).unwrap();
    let matrix = checkpoint.matrix(module, rows, cols).unwrap();
    let goldens = Goldens::open(&format!("draft/{name}/golden.safetensors"));
    let wanted = goldens.values(&format!("dequantized.{module}"));
    assert_same(&unpacked(matrix.part(None, None), 4), &wanted, &format!("{name} {module}"));
}

#[test]
fn modules_are_read_by_their_own_plan() {
    for name in ["mlx-8bit-gs64", "mlx-4bit-gs32", "mlx-overrides"] {
        check_module(name, "layers.0.self_attn.q_proj", [64, 64]);
        check_module(name, "layers.0.mlp.down_proj", [64, 128]);
    }
    check_module("mlx-8bit-gs64", "fc", [64, 192]);
    check_module("mlx-4bit-gs32", "fc", [64, 192]);
}
