//! Drafts written in every layout and loaded by the runtime, against the same draft in f32.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use dflash_cpu::{CpuBackend, Isa};
use dflash_models::{Draft, DraftOptions, GgufVocabulary, ModelError, Target, load_target};
use dflash_tensor::Backend;
use dflash_testkit::{Dtype, Rng, TinyDraft, TinyLayout, TinyLlama};
use dflash_train::export::{Existing, GgufFormat, Layout, SpeculatorsFormat, ZlabFormat, export, read_zlab};
use dflash_train::{DraftShape, DraftWeights, Matrix, TrainError};
use tempfile::TempDir;

const WIDTH: usize = 8;
const CONTEXT: usize = 5;

/// A target with a draft for it in a folder that goes when it does.
struct Pair {
    dir: TempDir,
    target: Box<dyn Target>,
    shape: DraftShape,
    weights: DraftWeights,
}

impl Pair {
    /// A draft over all ids, or over those of `vocab`.
    fn new(dtype: Dtype, vocab: Option<Vec<u32>>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let tiny = tiny(dtype);
        let backend: Arc<dyn Backend> = Arc::new(CpuBackend::new(1, Isa::detect()));
        let target = load_target(&tiny.write(&dir.path().join("target")), backend, &mut |_, _| {}).unwrap();
        let shape = DraftShape { vocab, ..shape(&tiny) };
        let weights = weights(&shape);
        Self { dir, target: target.target, shape, weights }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn export(&self, name: &str, layout: Layout<'_>) -> PathBuf {
        let path = self.path(name);
        export(&path, Existing::Keep, &self.shape, &self.weights, layout).unwrap();
        path
    }

    fn gguf(&self, name: &str, format: GgufFormat) -> PathBuf {
        let vocabulary = vocabulary(self.shape.target_vocab);
        let target = self.target.as_ref();
        self.export(name, Layout::Gguf { format, target, vocabulary: &vocabulary }).join("model.gguf")
    }

    fn load(&self, path: &Path) -> Draft {
        self.try_load(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    fn try_load(&self, path: &Path) -> Result<Draft, ModelError> {
        Draft::load(path, self.target.as_ref(), DraftOptions::default())
    }

    /// The logits of a block after a few rows of context.
    fn logits(&self, draft: &Draft) -> Vec<Vec<f32>> {
        let (mut ws, mut state) = self.context(draft);
        let mut out = draft.logit_rows();
        draft.logits(&mut ws, &mut [&mut state], &[7], WIDTH, &mut out);
        (0..WIDTH - 1).map(|row| self.target.backend().read(&out, row)).collect()
    }

    /// The ids of the same block.
    fn ids(&self, draft: &Draft) -> Vec<u32> {
        let (mut ws, mut state) = self.context(draft);
        let mut out = Vec::new();
        draft.propose(&mut ws, &mut [&mut state], &[7], WIDTH, &mut out).unwrap();
        out[0].iter().map(|choice| choice.id).collect()
    }

    /// The best of several candidates of every position, of two sequences at once.
    fn ranked(&self, draft: &Draft) -> Vec<u32> {
        let ((mut ws, mut state), (_, mut other)) = (self.context(draft), self.context(draft));
        let (mut states, mut out) = ([&mut state, &mut other], Vec::new());
        draft.propose_ranked(&mut ws, &mut states, &[7, 7], WIDTH, 3, &mut out).unwrap();
        let (one, two) = out.split_at(3 * (WIDTH - 1));
        assert_eq!(one, two);
        one.chunks_exact(3).map(|ranks| ranks[0].id).collect()
    }

    fn context(&self, draft: &Draft) -> (dflash_models::DraftWorkspace, dflash_models::DraftState) {
        let (mut ws, mut state) = (draft.workspace(), draft.new_state());
        let backend = self.target.backend();
        let mut rows = backend.tensor(CONTEXT, self.shape.features());
        backend.write(&mut rows, 0, &Rng::new(5).bells(CONTEXT * self.shape.features(), 1.0));
        draft.observe(&mut ws, &mut state, &rows, 0..CONTEXT, 0);
        (ws, state)
    }
}

fn tiny(dtype: Dtype) -> TinyLlama {
    TinyLlama { hidden: 64, ffn: 128, layers: 3, head_dim: 16, dtype, ..TinyLlama::default() }
}

fn shape(target: &TinyLlama) -> DraftShape {
    DraftShape {
        hidden: target.hidden,
        layers: 2,
        ffn: 128,
        heads: 4,
        kv_heads: 2,
        head_dim: 16,
        rms_norm_eps: 1e-5,
        rope_theta: 10000.0,
        context: 4096,
        block: WIDTH,
        mask_id: 3,
        taps: vec![2, 0],
        target_layers: target.layers,
        target_vocab: target.vocab,
        vocab: None,
        markov_rank: 0,
    }
}

fn weights(shape: &DraftShape) -> DraftWeights {
    let mut rng = Rng::new(9);
    let mut matrix = |shape: Vec<usize>| {
        let count = shape.iter().product();
        let values = match shape[..] {
            [_, cols] => rng.bells(count, 1.5 / (cols as f32).sqrt()),
            _ => rng.bells(count, 0.2).iter().map(|x| 1.0 + x).collect(),
        };
        Matrix { shape, values }
    };
    shape.tensors().into_iter().map(|(name, shape)| (name, matrix(shape))).collect()
}

fn vocabulary(len: usize) -> GgufVocabulary {
    GgufVocabulary {
        model: "gpt2".into(),
        pre: Some("smollm".into()),
        tokens: (0..len).map(|id| format!("token{id}")).collect(),
        token_types: vec![1; len],
        merges: vec!["a b".into()],
        eos_id: Some(2),
        add_bos: Some(false),
        ..GgufVocabulary::default()
    }
}

/// The largest difference over the spread of the wanted logits.
fn gap(found: &[Vec<f32>], wanted: &[Vec<f32>]) -> f32 {
    let (found, wanted) = (found.concat(), wanted.concat());
    assert_eq!(found.len(), wanted.len());
    let spread = (wanted.iter().map(|x| x * x).sum::<f32>() / wanted.len() as f32).sqrt();
    let gaps = found.iter().zip(&wanted).map(|(a, b)| (a - b).abs());
    gaps.fold(0f32, f32::max) / spread
}

fn every_third() -> Vec<u32> {
    (1..97).step_by(3).collect()
}

#[test]
fn a_published_draft_is_read_and_written_without_a_change() {
    let pair = Pair::new(Dtype::F32, None);
    for layout in [TinyLayout::Flat, TinyLayout::Nested] {
        let tiny = TinyDraft { taps: vec![2, 0], layout, ..TinyDraft::default() };
        let original = tiny.write(&pair.path(&format!("{layout:?}")), &self::tiny(Dtype::F32));
        let (shape, weights) = read_zlab(&original).unwrap();
        let copy = pair.path(&format!("{layout:?} copy"));
        export(&copy, Existing::Keep, &shape, &weights, Layout::Zlab(ZlabFormat::F32)).unwrap();
        assert_eq!(read_zlab(&copy).unwrap(), (shape, weights));
        let (original, copy) = (pair.load(&original), pair.load(&copy));
        assert_eq!(original.spec(), copy.spec());
        assert_eq!(pair.logits(&original), pair.logits(&copy));
    }
}

#[test]
fn f32_files_of_all_layouts_give_the_same_bits() {
    for vocab in [None, Some(every_third())] {
        let pair = Pair::new(Dtype::F32, vocab);
        let zlab = pair.export("zlab", Layout::Zlab(ZlabFormat::F32));
        assert_eq!(read_zlab(&zlab).unwrap(), (pair.shape.clone(), pair.weights.clone()));
        let wanted = pair.logits(&pair.load(&zlab));
        let (format, target) = (SpeculatorsFormat::F32, pair.target.as_ref());
        let speculators = pair.export("speculators", Layout::Speculators { format, target });
        for path in [speculators, pair.gguf("gguf", GgufFormat::F32)] {
            let draft = pair.load(&path);
            assert!(draft.spec().notes.is_empty(), "{}: {:?}", path.display(), draft.spec().notes);
            assert_eq!(draft.spec().taps, [2, 0]);
            assert_eq!(pair.logits(&draft), wanted, "{}", path.display());
        }
    }
}

#[test]
fn a_reduced_vocabulary_has_the_rows_of_its_ids() {
    let (all, some) = (Pair::new(Dtype::F32, None), Pair::new(Dtype::F32, Some(every_third())));
    let full = all.logits(&all.load(&all.export("draft", Layout::Zlab(ZlabFormat::F32))));
    let draft = some.load(&some.export("draft", Layout::Zlab(ZlabFormat::F32)));
    let picked = |row: &Vec<f32>| every_third().iter().map(|&id| row[id as usize]).collect::<Vec<_>>();
    let picked = full.iter().map(picked).collect::<Vec<_>>();
    assert_eq!(some.logits(&draft), picked);
    let best = |row: &Vec<f32>| {
        let best = (0..row.len()).max_by(|&a, &b| row[a].total_cmp(&row[b])).unwrap();
        every_third()[best]
    };
    assert_eq!(some.ids(&draft), picked.iter().map(best).collect::<Vec<_>>());
    assert_eq!(draft.spec().vocab, every_third().len());
}

#[test]
fn half_precision_files_agree() {
    for vocab in [None, Some(every_third())] {
        let pair = Pair::new(Dtype::Bf16, vocab);
        let f32 = pair.load(&pair.export("f32", Layout::Zlab(ZlabFormat::F32)));
        let zlab = pair.load(&pair.export("zlab", Layout::Zlab(ZlabFormat::Bf16)));
        let (format, target) = (SpeculatorsFormat::Bf16, pair.target.as_ref());
        let speculators = pair.load(&pair.export("speculators", Layout::Speculators { format, target }));
        let gguf = pair.load(&pair.gguf("gguf", GgufFormat::F16));
        // The tables are bf16 in the target already.
        assert_eq!(pair.logits(&speculators), pair.logits(&zlab));
        assert!(zlab.spec().weight_bytes * 100 < f32.spec().weight_bytes * 51);
        for (name, draft) in [("zlab", zlab), ("gguf", gguf)] {
            let gap = gap(&pair.logits(&draft), &pair.logits(&f32));
            assert!(gap < 0.05, "{name}: {gap}");
        }
    }
}

#[test]
fn quantised_files_agree_within_their_bits() {
    for vocab in [None, Some(every_third())] {
        let pair = Pair::new(Dtype::F32, vocab);
        let f32 = pair.load(&pair.export("f32", Layout::Zlab(ZlabFormat::F32)));
        let mlx8 = pair.export("mlx8", Layout::Zlab(ZlabFormat::Mlx8));
        let mlx4 = pair.export("mlx4", Layout::Zlab(ZlabFormat::Mlx4));
        let q8_0 = pair.gguf("q8_0", GgufFormat::Q8_0);
        for (path, most) in [(&mlx8, 0.1), (&q8_0, 0.1), (&mlx4, 1.5)] {
            let gap = gap(&pair.logits(&pair.load(path)), &pair.logits(&f32));
            assert!(gap < most && gap > 0.0, "{}: {gap}", path.display());
        }
        assert_eq!(pair.ids(&pair.load(&mlx8)), pair.ids(&f32));
    }
}

#[test]
fn quantised_files_are_read_back_as_the_runtime_reads_them() {
    let pair = Pair::new(Dtype::F32, Some(every_third()));
    for (name, format, levels) in [("mlx8", ZlabFormat::Mlx8, 255.0), ("mlx4", ZlabFormat::Mlx4, 15.0)] {
        let (shape, weights) = read_zlab(&pair.export(name, Layout::Zlab(format))).unwrap();
        assert_eq!(shape, pair.shape);
        for (tensor, original) in pair.weights.iter().filter(|(_, matrix)| matrix.shape.len() == 2) {
            let pairs = original.values.chunks(64).zip(weights[tensor].values.chunks(64));
            for (original, read) in pairs {
                let low = original.iter().fold(f32::INFINITY, |low, x| low.min(*x));
                let high = original.iter().fold(f32::NEG_INFINITY, |high, x| high.max(*x));
                // A step of the range, and scale and bias that bf16 rounds.
                let most = (high - low) * (1.0 / levels + 1.0 / 128.0);
                let near = original.iter().zip(read).all(|(a, b)| (a - b).abs() < most);
                assert!(near, "{name} {tensor}: {original:?} became {read:?}");
            }
        }
    }
}

/// Bytes of the tensors by the format's own arithmetic.
#[test]
fn files_have_the_size_of_their_format() {
    let pair = Pair::new(Dtype::F32, Some(every_third()));
    let bytes = |bits: usize| {
        let tensor = |(_, shape): &(String, Vec<usize>)| match shape[..] {
            [rows, cols] => rows * cols * bits / 8 + if bits < 16 { rows * cols / 64 * 4 } else { 0 },
            _ => shape[0] * 2,
        };
        pair.shape.tensors().iter().map(tensor).sum::<usize>() + 8 * every_third().len()
    };
    for (name, format, bits) in
        [("bf16", ZlabFormat::Bf16, 16), ("mlx8", ZlabFormat::Mlx8, 8), ("mlx4", ZlabFormat::Mlx4, 4)]
    {
        let file = std::fs::read(pair.export(name, Layout::Zlab(format)).join("model.safetensors")).unwrap();
        let header = u64::from_le_bytes(file[..8].try_into().unwrap()) as usize;
        assert_eq!(file.len() - 8 - header, bytes(bits), "{name}");
    }
}

#[test]
fn a_markov_head_corrects_every_position_by_the_id_before_it() {
    let mut pair = Pair::new(Dtype::F32, Some(every_third()));
    pair.shape.markov_rank = 64;
    pair.weights = weights(&pair.shape);
    // Loud enough to change choices.
    let code = pair.weights.get_mut("markov_head.markov_w1.weight").unwrap();
    code.values.iter_mut().for_each(|value| *value *= 64.0);
    let zlab = pair.export("zlab", Layout::Zlab(ZlabFormat::F32));
    assert_eq!(read_zlab(&zlab).unwrap(), (pair.shape.clone(), pair.weights.clone()));
    let draft = pair.load(&zlab);
    let (ids, vocab) = (pair.ids(&draft), pair.shape.vocab.clone().unwrap());
    // The logits without the head, and what it adds: w2 · w1[previous].
    let [w1, w2] =
        ["markov_w1", "markov_w2"].map(|name| &pair.weights[&format!("markov_head.{name}.weight")].values);
    let (mut previous, mut changed) = (7, 0);
    for (row, &id) in pair.logits(&draft).iter().zip(&ids) {
        let code = &w1[64 * previous as usize..][..64];
        let bias = w2.chunks_exact(64).map(|row| row.iter().zip(code).map(|(a, b)| a * b).sum::<f32>());
        let corrected: Vec<f32> = row.iter().zip(bias).map(|(logit, bias)| logit + bias).collect();
        let best = |values: &[f32]| {
            vocab[(0..values.len()).max_by(|&a, &b| values[a].total_cmp(&values[b])).unwrap()]
        };
        assert_eq!(id, best(&corrected));
        changed += usize::from(best(row) != id);
        previous = id;
    }
    assert!(changed > 0, "the head says something");
    assert_eq!(pair.ranked(&draft), ids);

    let (format, target) = (SpeculatorsFormat::F32, pair.target.as_ref());
    let speculators = pair.export("speculators", Layout::Speculators { format, target });
    for path in [speculators, pair.gguf("gguf", GgufFormat::F16)] {
        let error = pair.try_load(&path).err().expect("no runtime for these yet").to_string();
        assert!(["markov", "dspark", "DSpark"].iter().any(|word| error.contains(word)), "{error}");
    }
}

fn refusal(shape: &DraftShape, weights: &DraftWeights, layout: Layout<'_>) -> String {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let error = export(&out, Existing::Keep, shape, weights, layout).unwrap_err();
    assert!(matches!(error, TrainError::Refused(_)), "{error}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "nothing is left of {error}");
    error.to_string()
}

#[test]
fn impossible_shapes_and_weights_are_refused() {
    let pair = Pair::new(Dtype::F32, None);
    let zlab = Layout::Zlab(ZlabFormat::Bf16);
    let bad_shape = |change: &dyn Fn(&mut DraftShape)| {
        let mut shape = pair.shape.clone();
        change(&mut shape);
        refusal(&shape, &pair.weights, zlab)
    };
    assert!(bad_shape(&|shape| shape.hidden = 0).contains("hidden"));
    assert!(bad_shape(&|shape| shape.layers = usize::MAX).contains("layers"));
    assert!(bad_shape(&|shape| shape.kv_heads = 3).contains("heads"));
    assert!(bad_shape(&|shape| shape.block = 1).contains("block"));
    assert!(bad_shape(&|shape| shape.rms_norm_eps = f32::NAN).contains("rms_norm_eps"));
    assert!(bad_shape(&|shape| shape.taps.clear()).contains("tapped"));
    assert!(bad_shape(&|shape| shape.taps = vec![3]).contains("layers 0 to 2"));
    assert!(bad_shape(&|shape| shape.vocab = Some(vec![5, 4])).contains("ascending"));
    assert!(bad_shape(&|shape| shape.vocab = Some(vec![97])).contains("97"));
    assert!(bad_shape(&|shape| shape.ffn = 64).contains("mlp"));
    let bad_weights = |change: &dyn Fn(&mut DraftWeights)| {
        let mut weights = pair.weights.clone();
        change(&mut weights);
        refusal(&pair.shape, &weights, zlab)
    };
    assert!(bad_weights(&|weights| drop(weights.remove("fc.weight"))).contains("fc.weight"));
    assert!(
        bad_weights(&|all| all.get_mut("norm.weight").unwrap().values[3] = f32::NAN).contains("norm.weight")
    );
    assert!(
        bad_weights(&|all| all.get_mut("norm.weight").unwrap().values.truncate(3)).contains("norm.weight")
    );
    let extra = || Matrix { shape: vec![1], values: vec![0.0] };
    assert!(
        bad_weights(&|weights| drop(weights.insert("what.weight".into(), extra()))).contains("what.weight")
    );
}

#[test]
fn drafts_for_other_targets_are_refused() {
    let pair = Pair::new(Dtype::F32, None);
    let target = pair.target.as_ref();
    let other = DraftShape { target_layers: 4, ..pair.shape.clone() };
    let format = SpeculatorsFormat::Bf16;
    assert!(refusal(&other, &pair.weights, Layout::Speculators { format, target }).contains("target layers"));
    let masked = DraftShape { mask_id: 97, ..pair.shape.clone() };
    assert!(
        refusal(&masked, &pair.weights, Layout::Speculators { format, target }).contains("mask token 97")
    );
    let short = vocabulary(96);
    let gguf = Layout::Gguf { format: GgufFormat::F16, target, vocabulary: &short };
    assert!(refusal(&pair.shape, &pair.weights, gguf).contains("96 tokens"));
}

#[test]
fn a_draft_without_a_matrix_of_whole_groups_is_not_quantised() {
    let narrow = TinyLlama { hidden: 24, head_dim: 6, layers: 3, ..TinyLlama::default() };
    let shape = DraftShape { ffn: 40, head_dim: 6, ..shape(&narrow) };
    let error = refusal(&shape, &weights(&shape), Layout::Zlab(ZlabFormat::Mlx8));
    assert!(error.contains("multiple of 64"), "{error}");
}

#[test]
fn folders_are_replaced_only_when_they_hold_a_draft_of_ours_and_that_is_meant() {
    let pair = Pair::new(Dtype::F32, None);
    let zlab = Layout::Zlab(ZlabFormat::Bf16);
    let write = |path: &Path, existing| export(path, existing, &pair.shape, &pair.weights, zlab);
    let out = pair.path("deep/out");
    write(&out, Existing::ReplaceDraft).unwrap();
    assert!(write(&out, Existing::Keep).unwrap_err().to_string().contains("not empty"));
    std::fs::write(out.join("README.md"), "a card").unwrap();
    write(&out, Existing::ReplaceDraft).unwrap();
    assert!(!out.join("README.md").exists());
    std::fs::write(out.join("notes.txt"), "mine").unwrap();
    assert!(write(&out, Existing::ReplaceDraft).unwrap_err().to_string().contains("other things"));
    assert_eq!(std::fs::read_to_string(out.join("notes.txt")).unwrap(), "mine");
    // A draft that somebody else made.
    let foreign = TinyDraft::default().write(&pair.path("foreign"), &tiny(Dtype::F32));
    assert!(write(&foreign, Existing::ReplaceDraft).is_err());
    // GGUF by GGUF, and a file where a folder should be.
    let gguf = pair.gguf("gguf", GgufFormat::F16);
    write(gguf.parent().unwrap(), Existing::ReplaceDraft).unwrap();
    assert!(!gguf.exists());
    std::fs::write(pair.path("file"), "").unwrap();
    assert!(write(&pair.path("file"), Existing::ReplaceDraft).is_err());
    let leftovers = std::fs::read_dir(pair.dir.path()).unwrap();
    let hidden =
        leftovers.filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().starts_with('.'));
    assert_eq!(hidden.count(), 0);
}

/// Changes a config and says what reading it ends in.
fn read_with(pair: &Pair, key: &str, value: serde_json::Value) -> String {
    let dir = pair.path("changed");
    let _ = std::fs::remove_dir_all(&dir);
    export(&dir, Existing::Keep, &pair.shape, &pair.weights, Layout::Zlab(ZlabFormat::Mlx8)).unwrap();
    let path = dir.join("config.json");
    let mut config: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    config[key] = value;
    std::fs::write(&path, config.to_string()).unwrap();
    read_zlab(&dir).unwrap_err().to_string()
}

#[test]
fn what_a_shape_cannot_say_is_not_read() {
    let pair = Pair::new(Dtype::F32, Some(every_third()));
    for (key, value, says) in [
        ("hidden_act", "gelu".into(), "hidden_act"),
        ("attention_bias", true.into(), "attention_bias"),
        ("logit_scale", 0.5.into(), "logit_scale"),
        ("rope_scaling", serde_json::json!({"rope_type": "yarn"}), "rope_scaling"),
        ("rope_parameters", serde_json::json!({"rope_type": "yarn"}), "yarn"),
        ("layer_types", serde_json::json!(["sliding_attention"]), "sliding_attention"),
        ("architectures", serde_json::json!(["DFlash2DraftModel"]), "DFlash2DraftModel"),
        ("speculators_model_type", "dflash".into(), "speculators"),
        ("block_size", 1.into(), "block"),
        ("hidden_size", (-1).into(), "hidden_size"),
        ("hidden_size", (1u64 << 40).into(), "hidden"),
        ("num_attention_heads", 8.into(), "q_proj"),
        ("num_hidden_layers", 1.into(), "layers.1"),
        ("vocab_size", 50.into(), "id 52"),
        ("quantization", serde_json::json!({"bits": 4}), "4 bits"),
        ("quantization", serde_json::json!({"bits": 3}), "bits"),
    ] {
        let error = read_with(&pair, key, value);
        assert!(error.contains(says), "{key}: {error}");
        assert!(error.contains("changed"), "the error names the folder: {error}");
    }
}

#[test]
fn damaged_weights_are_errors() {
    let pair = Pair::new(Dtype::F32, Some(every_third()));
    let dir = pair.export("draft", Layout::Zlab(ZlabFormat::Mlx4));
    let path = dir.join("model.safetensors");
    let whole = std::fs::read(&path).unwrap();
    for length in [0, 7, 100, whole.len() / 2, whole.len() - 1] {
        std::fs::write(&path, &whole[..length]).unwrap();
        assert!(read_zlab(&dir).unwrap_err().to_string().contains("model.safetensors"), "{length} bytes");
    }
    std::fs::remove_file(&path).unwrap();
    assert!(matches!(read_zlab(&dir), Err(TrainError::Io { .. })));
}
