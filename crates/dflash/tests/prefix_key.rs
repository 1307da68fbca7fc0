//! What states on disk are of: all that shapes them, and nothing else.

use std::fs;
use std::path::{Path, PathBuf};

use dflash::cli::{PairArgs, RuntimeArgs};
use dflash::env::Environment;
use dflash::options::Options;
use dflash::pair::PairChoice;
use dflash::prefix::PrefixKey;
use dflash::progress::Progress;
use dflash::runtime::Loaded;
use dflash_testkit::{TinyDraft, TinyLlama};

const TARGET: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../dflash-models/tests/data/gguf/mixed-untied.gguf");

struct House(tempfile::TempDir);

impl House {
    fn target(&self, name: &str, edit: impl FnOnce(&mut Vec<u8>)) -> PathBuf {
        let path = self.0.path().join(name);
        let mut bytes = fs::read(TARGET).unwrap();
        edit(&mut bytes);
        fs::write(&path, bytes).unwrap();
        path
    }

    fn draft(&self, seed: u64) -> PathBuf {
        let size = TinyLlama { hidden: 32, vocab: 277, layers: 2, context: 512, ..TinyLlama::default() };
        let tiny = TinyDraft { taps: vec![0, 1], seed, ..TinyDraft::default() };
        tiny.write(&self.0.path().join(format!("draft-{seed}")), &size)
    }

    fn key(
        &self,
        target: &Path,
        draft: Option<&Path>,
        runtime: &RuntimeArgs,
        quant: Option<&str>,
    ) -> PrefixKey {
        let env = Environment::from_pairs([("HOME", self.0.path())]);
        let pair = PairArgs { draft_quant: quant.map(str::to_owned), ..PairArgs::default() };
        let options = Options::resolve(&pair, runtime, &env).unwrap();
        let draft = draft.map_or("none", |draft| draft.to_str().unwrap());
        let choice = PairChoice::of(Some(target.to_str().unwrap()), Some(draft)).unwrap();
        let loaded = Loaded::open(&choice, &options, &env, Progress::Silent).unwrap();
        PrefixKey::of(&loaded.info, loaded.backend.as_ref(), &options).unwrap()
    }
}

#[test]
fn a_key_is_of_what_shapes_the_state() {
    let house = House(tempfile::tempdir().unwrap());
    let (target, draft) = (house.target("a.gguf", |_| {}), house.draft(1));
    let usual = RuntimeArgs::default();
    let key = house.key(&target, Some(&draft), &usual, None);

    let text = |text: &str| Some(text.to_owned());
    let elsewhere = RuntimeArgs {
        prefill_step_size: text("64"),
        verify_mode: text("off"),
        block_tokens: text("4"),
        threads: text("1"),
        ..RuntimeArgs::default()
    };
    assert_eq!(house.key(&target, Some(&draft), &elsewhere, None), key, "how it is decoded");
    assert_eq!(house.key(&target, Some(&draft), &usual, None), key, "a hash that is remembered");
    assert_eq!(
        house.key(&house.target("b.gguf", |_| {}), Some(&draft), &usual, None).target,
        key.target,
        "its name"
    );

    let other = house.target("a.gguf", |bytes| *bytes.last_mut().unwrap() ^= 1);
    assert_ne!(house.key(&other, Some(&draft), &usual, None).target, key.target, "another file in its place");
    house.target("a.gguf", |_| {});

    let window = RuntimeArgs { draft_window_size: text("77"), ..RuntimeArgs::default() };
    let sink = RuntimeArgs { draft_sink_size: text("0"), ..RuntimeArgs::default() };
    let others = [
        house.key(&target, Some(&draft), &window, None),
        house.key(&target, Some(&draft), &sink, None),
        house.key(&target, Some(&draft), &usual, Some("w8")),
        house.key(&target, Some(&house.draft(2)), &usual, None),
        house.key(&target, None, &usual, None),
    ];
    for (index, other) in others.iter().enumerate() {
        assert_eq!(other.target, key.target, "draft {index}");
        assert_ne!(other.draft, key.draft, "draft {index}");
    }
}
