//! States in files: what a process kept, the next one goes on from, and whatever is wrong with a file is a miss.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use dflash::prefix::{DiskOptions, DiskTier};
use dflash_cpu::{CpuBackend, Isa};
use dflash_engine::proposer::BlockDiffusion;
use dflash_engine::{
    Decoder, DecoderOptions, EngineHandle, EngineOptions, Event, PrefixOptions, Proposer, Request, Snapshot,
    Stats, VerifyMode,
};
use dflash_models::{Draft, DraftOptions, load_target};
use dflash_testkit::{Rng, TinyDraft, TinyLlama};

const MODELS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../dflash-models/tests/data");

/// A folder of states, and a target whose states they are.
struct House {
    dir: tempfile::TempDir,
    target: PathBuf,
    /// First positions that the draft sees.
    sink: usize,
}

impl House {
    fn new(model: Option<&str>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let target = match model {
            Some(name) => Path::new(MODELS).join(name),
            None => TinyLlama::default().write(&dir.path().join("target")),
        };
        Self { dir, target, sink: 4 }
    }

    fn states(&self) -> PathBuf {
        self.dir.path().join("states")
    }

    fn decoder(&self) -> Decoder {
        let backend = Arc::new(CpuBackend::new(2, Isa::detect()));
        let target = load_target(&self.target, backend, &mut |_, _| {}).unwrap().target;
        let spec = target.spec();
        let size = TinyLlama {
            hidden: spec.hidden,
            vocab: spec.vocab,
            layers: spec.layers,
            context: spec.context,
            ..TinyLlama::default()
        };
        let tiny = TinyDraft { taps: vec![0, spec.layers - 1], ..TinyDraft::default() };
        let draft = tiny.write(&self.dir.path().join("draft"), &size);
        let options = DraftOptions { sink: self.sink, window: Some(24), quant: None };
        let draft = Draft::load(&draft, target.as_ref(), options).unwrap();
        let proposers: Vec<Box<dyn Proposer>> = vec![Box::new(BlockDiffusion::new(draft))];
        let options = DecoderOptions { prefill_chunk: 40, block: 8, verify_cap: 0, mode: VerifyMode::Fixed };
        Decoder::new(target, proposers, options)
    }

    /// A process, as it were: an engine with these states behind it.
    fn engine(&self, draft: &str, bytes: u64) -> EngineHandle {
        let decoder = self.decoder();
        let options = DiskOptions { folder: self.states(), draft: draft.to_owned(), bytes };
        let backend = Arc::clone(decoder.target().backend());
        let tier = DiskTier::open(options, Snapshot::blank(&decoder), backend).unwrap();
        let prefix = PrefixOptions { entries: 8, bytes: 1 << 30, longest: usize::MAX, stride: 4096 };
        let options = EngineOptions { max_batch: 2, waiting: 8, step_rows: None, prefix: Some(prefix) };
        EngineHandle::start_with(decoder, options, Some(Box::new(tier)))
    }

    fn files(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.states()).into_iter().flatten().flatten().map(|entry| entry.path());
        entries.filter(|path| path.extension().is_some_and(|extension| extension == "safetensors")).collect()
    }

    /// Waits until so many files are there.
    fn until(&self, count: usize) -> Vec<PathBuf> {
        let began = Instant::now();
        while self.files().len() != count && began.elapsed() < Duration::from_secs(20) {
            std::thread::sleep(Duration::from_millis(5));
        }
        let files = self.files();
        assert_eq!(files.len(), count, "{files:?}");
        files
    }
}

fn prompt(len: usize, seed: u64) -> Vec<u32> {
    let mut rng = Rng::new(seed);
    (0..len).map(|_| rng.below(90)).collect()
}

fn ask(engine: &EngineHandle, prompt: &[u32]) -> (Vec<u32>, Stats) {
    let mut ids = Vec::new();
    for event in engine.submit(Request::new(prompt.to_vec(), 20)).unwrap() {
        match event {
            Event::Tokens(new) => ids.extend(new),
            Event::Finished { stats, .. } => return (ids, stats),
            Event::Failed(error) => panic!("{error}"),
            _ => {}
        }
    }
    panic!("no end");
}

/// Ends a process, as it were: all is written, and its right to write is free.
fn end(engine: EngineHandle) {
    let ended = engine.end();
    drop(engine);
    assert!(ended.wait(Duration::from_secs(20)), "the engine ends");
}

const PLENTY: u64 = 1 << 30;

#[test]
fn a_process_goes_on_from_what_another_kept() {
    for model in [None, Some("qwen3_5/wrapper-r2"), Some("gemma4/moe"), Some("lfm2/plain")] {
        let house = House::new(model);
        let first = prompt(300, 1);
        let engine = house.engine("d", PLENTY);
        let (answer, stats) = ask(&engine, &first);
        assert_eq!(stats.cached_tokens, 0, "{model:?}");
        while house.files().is_empty() {
            std::thread::sleep(Duration::from_millis(5));
        }
        end(engine);
        let next = [&first[..], &answer, &prompt(15, 2)].concat();
        let (wanted, _) = ask(&House::new(model).engine("d", PLENTY), &next);
        let engine = house.engine("d", PLENTY);
        let (found, stats) = ask(&engine, &next);
        assert_eq!(found, wanted, "{model:?}");
        assert_eq!(stats.cached_tokens, first.len() + answer.len() - 1, "{model:?}");
        assert!(
            stats.cycles_by_proposer.contains_key("draft"),
            "{model:?}: the draft goes on too: {stats:?}"
        );
        let (found, stats) = ask(&house.engine("another draft", PLENTY), &next);
        assert_eq!(found, wanted, "{model:?}");
        assert!(stats.cached_tokens > 0 && !stats.cycles_by_proposer.contains_key("draft"), "{stats:?}");
    }
}

#[test]
fn whatever_is_wrong_with_a_file_is_a_miss() {
    let house = House::new(None);
    let first = prompt(100, 1);
    let engine = house.engine("d", PLENTY);
    let (wanted, _) = ask(&engine, &first);
    let file = house.until(1).pop().unwrap();
    end(engine);
    let sound = fs::read(&file).unwrap();
    let flipped = |at: usize| {
        let mut bytes = sound.clone();
        bytes[at] ^= 4;
        bytes
    };
    let len = sound.len();
    let damages = [
        Vec::new(),
        b"not safetensors at all".to_vec(),
        sound[..len / 2].to_vec(),
        sound[..len - 1].to_vec(),
        flipped(3),
        flipped(40),
        flipped(len - 1),
        flipped(len / 2),
    ];
    for damage in damages {
        // Seen when the folder is opened, and between looking and opening.
        fs::write(&file, &damage).unwrap();
        let engine = house.engine("d", PLENTY);
        let (found, stats) = ask(&engine, &first);
        assert_eq!((found, stats.cached_tokens), (wanted.clone(), 0), "{} bytes", damage.len());
        end(engine);
        house.until(1);
        fs::write(&file, &sound).unwrap();
        let engine = house.engine("d", PLENTY);
        fs::write(&file, &damage).unwrap();
        let (found, stats) = ask(&engine, &first);
        assert_eq!((found, stats.cached_tokens), (wanted.clone(), 0), "{} bytes", damage.len());
        end(engine);
        house.until(1);
    }
    fs::write(&file, &sound).unwrap();
    let engine = house.engine("d", PLENTY);
    fs::remove_file(&file).unwrap();
    assert_eq!(ask(&engine, &first).0, wanted, "a file that vanished");
    end(engine);
    let left = [".tmpAbCdEf", "0000000100-00.partial"].map(|name| house.states().join(name));
    left.iter().for_each(|path| fs::write(path, "half of it").unwrap());
    house.until(1);
    end(house.engine("d", PLENTY));
    assert!(!left.iter().any(|path| path.exists()), "what a killed process left behind");
}

#[test]
fn one_writes_and_the_limit_holds() {
    let house = House::new(None);
    let writer = house.engine("d", PLENTY);
    let reader = house.engine("d", PLENTY);
    let (answer, _) = ask(&reader, &prompt(100, 1));
    ask(&writer, &prompt(100, 2));
    let size = fs::metadata(house.until(1).pop().unwrap()).unwrap().len();
    let (_, stats) = ask(&reader, &prompt(100, 2));
    assert!(stats.cached_tokens > 0, "who does not write reads");
    drop(reader);
    // A conversation that grows has one file.
    let grown = [&prompt(100, 1)[..], &answer, &prompt(10, 3)].concat();
    ask(&writer, &prompt(100, 1));
    house.until(2);
    ask(&writer, &grown);
    std::thread::sleep(Duration::from_millis(200));
    house.until(2);
    end(writer);
    let small = house.engine("d", 3 * size + size / 2);
    for seed in 10..20 {
        ask(&small, &prompt(100, seed));
        std::thread::sleep(Duration::from_millis(50));
    }
    let held: u64 = house.files().iter().map(|file| fs::metadata(file).unwrap().len()).sum();
    assert!(held <= 3 * size + size / 2, "{held} bytes of {size} each");
}

#[test]
fn what_cannot_be_written_fails_no_request() {
    let house = House::new(None);
    let engine = house.engine("d", PLENTY);
    fs::remove_dir_all(house.states()).unwrap();
    fs::write(house.states(), "no folder").unwrap();
    let first = prompt(100, 1);
    let (answer, _) = ask(&engine, &first);
    let next = [&first[..], &answer, &prompt(10, 2)].concat();
    let (_, stats) = ask(&engine, &next);
    assert!(stats.cached_tokens > 0, "memory goes on");
    let failed = || engine.prefix_stats().tier.unwrap().failed;
    let began = Instant::now();
    while failed() == 0 && began.elapsed() < Duration::from_secs(20) {
        ask(&engine, &next);
    }
    assert!(failed() > 0);
    assert_eq!(engine.prefix_stats().tier.unwrap().stored, 0);
}

#[test]
fn a_draft_without_a_sink_has_no_empty_piece() {
    let house = || House { sink: 0, ..House::new(None) };
    let (cold, house, first) = (house(), house(), prompt(100, 1));
    let engine = house.engine("d", PLENTY);
    let (answer, _) = ask(&engine, &first);
    house.until(1);
    end(engine);
    let next = [&first[..], &answer, &prompt(15, 2)].concat();
    let (found, stats) = ask(&house.engine("d", PLENTY), &next);
    assert_eq!(found, ask(&cold.engine("d", PLENTY), &next).0);
    assert!(stats.cached_tokens > 100 && stats.cycles_by_proposer.contains_key("draft"), "{stats:?}");
}
