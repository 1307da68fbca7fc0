//! Drafts of Gemma 4 targets: the scale of embeddings, the cap of logits, layer types that are not named.

mod common;

use std::path::PathBuf;

use common::{assert_says, backend, edit_config, load, read, tensor};
use dflash_models::{Draft, DraftOptions, ModelError, Target};
use dflash_testkit::{Dtype, Rng, TinyDraft, TinyGemma, TinyLayout, TinyLlama};
use serde_json::{Value, json};
use tempfile::TempDir;

const WIDTH: usize = 8;

/// A Llama of the Gemma's size, which is all that the writer of drafts looks at.
fn size(gemma: &TinyGemma) -> TinyLlama {
    let TinyGemma { hidden, vocab, context, .. } = *gemma;
    TinyLlama { hidden, vocab, context, layers: gemma.sliding.len(), ..TinyLlama::default() }
}

struct Fixture {
    temp: TempDir,
    gemma: TinyGemma,
    target: Box<dyn Target>,
}

impl Fixture {
    fn new() -> Self {
        let temp = tempfile::tempdir().unwrap();
        let gemma = TinyGemma { dtype: Dtype::F32, softcap: 2.0, ..TinyGemma::default() };
        let target = load(&gemma.write(&temp.path().join("target")), &backend()).unwrap().target;
        Self { temp, gemma, target }
    }

    fn write(&self, draft: &TinyDraft, edit: impl FnOnce(&mut Value)) -> PathBuf {
        let dir = draft.write(&self.temp.path().join("draft"), &size(&self.gemma));
        edit_config(&dir, edit);
        dir
    }

    fn load(&self, draft: &TinyDraft, edit: impl FnOnce(&mut Value)) -> Result<Draft, ModelError> {
        let options = DraftOptions { window: Some(1), ..DraftOptions::default() };
        Draft::load(&self.write(draft, edit), self.target.as_ref(), options)
    }

    /// Logits of a block after some context, and the ids and logits of its choices.
    fn block(&self, draft: &Draft) -> (Vec<Vec<f32>>, Vec<(u32, f32)>) {
        let (mut ws, mut state) = (draft.workspace(), draft.new_state());
        let features = draft.spec().taps.len() * self.gemma.hidden;
        let mut rng = Rng::new(5);
        let rows = (0..30).map(|_| rng.bells(features, 2.0)).collect::<Vec<_>>();
        let rows = tensor(self.target.backend(), &rows);
        draft.observe(&mut ws, &mut state, &rows, 0..30, 0);
        let mut logits = self.target.backend().tensor(1, self.gemma.vocab);
        draft.logits(&mut ws, &mut [&mut state], &[7], WIDTH, &mut logits);
        let mut choices = Vec::new();
        draft.propose(&mut ws, &mut [&mut state], &[7], WIDTH, &mut choices).unwrap();
        let choices = choices[0].iter().map(|choice| (choice.id, choice.logit)).collect();
        (read(self.target.backend(), &logits, 0..WIDTH - 1), choices)
    }

    /// The rows of the target's embedding, times `scale`.
    fn embedding(&self, scale: f32) -> Vec<f32> {
        let mut rows = self.target.backend().tensor(self.gemma.vocab, self.gemma.hidden);
        let ids = (0..self.gemma.vocab as u32).collect::<Vec<_>>();
        self.target.backend().embed(self.target.embedding(), &ids, scale, &mut rows);
        read(self.target.backend(), &rows, 0..self.gemma.vocab).concat()
    }
}

#[test]
fn the_target_s_embedding_is_scaled_and_its_logits_are_capped() {
    let fixture = Fixture::new();
    let found = fixture.block(&fixture.load(&TinyDraft::default(), |_| {}).unwrap());

    // The same draft with tables of its own in which the scale is in.
    let own = TinyDraft { layout: TinyLayout::Speculators, ..TinyDraft::default() };
    let dir = fixture.write(&own, |config| {
        config["transformer_layer_config"]["final_logit_softcapping"] = json!(fixture.gemma.softcap);
    });
    let (mut file, shape) = (own.tensors(&size(&fixture.gemma)), [fixture.gemma.vocab, fixture.gemma.hidden]);
    let scaled = fixture.embedding((fixture.gemma.hidden as f32).sqrt());
    file.floats("embed_tokens.weight", &shape, &scaled, Dtype::F32);
    file.floats("lm_head.weight", &shape, &fixture.embedding(1.0), Dtype::F32);
    file.write(&dir.join("model.safetensors"));
    let options = DraftOptions { window: Some(1), ..DraftOptions::default() };
    let expected = fixture.block(&Draft::load(&dir, fixture.target.as_ref(), options).unwrap());
    assert_eq!(found, expected);

    let (logits, choices) = found;
    for (row, (id, logit)) in logits.iter().zip(choices) {
        assert_eq!(row[id as usize], logit, "the choice is one of the capped logits");
        assert!(row.iter().all(|logit| logit.abs() <= 2.0), "the cap holds: {row:?}");
        assert!(row.iter().any(|logit| logit.abs() > 1.5), "the cap is felt: {row:?}");
    }
}

#[test]
fn layer_types_that_are_not_named_are_four_sliding_ones_before_a_full_one() {
    let fixture = Fixture::new();
    let draft = TinyDraft { layers: 6, ..TinyDraft::default() };
    let silent = fixture.load(&draft, |config| config["model_type"] = json!("gemma4_text")).unwrap();
    let (s, f) = ("sliding_attention", "full_attention");
    let named = |types: Value| {
        let named = fixture.load(&draft, |config| {
            config["layer_types"] = types;
            config["sliding_window"] = json!(512);
        });
        fixture.block(&named.unwrap())
    };
    let found = fixture.block(&silent);
    assert_eq!(found, named(json!([s, s, s, s, f, s])));
    assert_ne!(found, named(json!([s, s, s, f, s, s])));
    assert_eq!(silent.spec().keep.unwrap().tail, 512);

    let own = fixture.load(&draft, |config| {
        config["model_type"] = json!("gemma4");
        config["sliding_window_pattern"] = json!(4);
        config["sliding_window"] = json!(700);
    });
    let own = own.unwrap();
    assert_eq!(own.spec().keep.unwrap().tail, 700);
    assert_eq!(fixture.block(&own), named(json!([s, s, s, f, s, s])));
}

#[test]
fn other_gemmas_must_name_their_layer_types() {
    let error = Fixture::new().load(&TinyDraft::default(), |config| config["model_type"] = json!("gemma3"));
    assert_says(&error.err().unwrap(), &["model_type", "gemma3", "layer_types"]);
}

#[test]
fn a_draft_of_another_cap_does_not_fit() {
    let fixture = Fixture::new();
    let load = |cap: f32| {
        fixture.load(&TinyDraft::default(), |config| config["final_logit_softcapping"] = json!(cap))
    };
    assert!(load(fixture.gemma.softcap).is_ok());
    let error = load(20.0).err().unwrap();
    assert!(matches!(error, ModelError::Mismatch { .. }), "{error}");
    assert_says(&error, &["final_logit_softcapping", "20", "2"]);
}
