//! From the names of a pair to its files, with the network allowed.

use std::fs;

use dflash::cli::{PairArgs, RuntimeArgs};
use dflash::env::Environment;
use dflash::options::Options;
use dflash::pair::{Draft, Locator, PairChoice, Target};
use dflash::progress::Progress;
use dflash::registry::Registry;
use dflash::report::Outcome;
use tempfile::TempDir;

use crate::CONFIG;
use crate::server::{COMMIT, Repo, Server, plain, serve};

const TARGET: &str = "meta-llama/Llama-3.1-8B-Instruct";
const DRAFT: &str = "z-lab/LLaMA3.1-8B-Instruct-DFlash-UltraChat";

struct House {
    dir: TempDir,
    env: Environment,
    options: Options,
}

impl House {
    fn new(server: &Server) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let pairs = [("HOME", dir.path().to_str().unwrap()), ("HF_ENDPOINT", &server.url)];
        let env = Environment::from_pairs(pairs);
        let options = Options::resolve(&PairArgs::default(), &RuntimeArgs::default(), &env).unwrap();
        Self { dir, env, options }
    }

    fn pair(&self, model: &str, draft: Option<&str>) -> Outcome<(Target, Draft)> {
        let choice = PairChoice::of(Some(model), draft).unwrap();
        let (options, env) = (&self.options, &self.env);
        let locator = Locator { registry: Registry::built_in(), options, env, progress: Progress::Silent };
        let target = locator.target(&choice)?;
        let draft = locator.draft(&choice, &target, None)?;
        Ok((target, draft))
    }

    fn snapshot(&self, repo: &str) -> std::path::PathBuf {
        let folder = format!("models--{}", repo.replace('/', "--"));
        self.dir.path().join(".cache/huggingface/hub").join(folder).join("snapshots").join(COMMIT)
    }
}

fn model(id: &'static str, config: &'static [u8]) -> Repo {
    Repo::new(id, &[("config.json", config), ("tokenizer.json", b"{}"), ("model.safetensors", b"x")])
}

fn paths(server: &Server) -> Vec<String> {
    server.seen().into_iter().map(|request| request.path).collect()
}

#[test]
fn a_known_pair_comes_draft_first_and_then_without_a_request() {
    let server = serve(vec![model(TARGET, CONFIG), model(DRAFT, CONFIG)]);
    let house = House::new(&server);
    for name in ["Llama-3.1-8B-Instruct", "meta-llama/llama-3.1-8b-instruct", TARGET] {
        let (target, draft) = house.pair(name, None).unwrap();
        assert_eq!(target.path, house.snapshot(TARGET), "{name}");
        assert_eq!(draft, Draft::Model { path: house.snapshot(DRAFT), registry_quant: None });
    }
    let asked = paths(&server);
    assert_eq!(asked.len(), 7, "{asked:?}");
    assert!(asked[..3].iter().all(|path| path.contains(DRAFT)), "{asked:?}");
}

#[test]
fn a_variant_of_anybody_gets_the_same_draft() {
    let server = serve(vec![model("some/Meta-Llama-3.1-8B-Instruct-4bit", CONFIG), model(DRAFT, CONFIG)]);
    let house = House::new(&server);
    let (target, draft) = house.pair("some/Meta-Llama-3.1-8B-Instruct-4bit", None).unwrap();
    assert_eq!(target.path, house.snapshot("some/Meta-Llama-3.1-8B-Instruct-4bit"));
    assert!(matches!(draft, Draft::Model { path, .. } if path == house.snapshot(DRAFT)));
    let own = house.pair(TARGET, Some("none"));
    assert!(own.unwrap_err().to_string().contains("no such repository"), "the target itself is not there");
}

#[test]
fn a_draft_that_is_not_to_be_had_is_known_before_the_target_comes() {
    let server = serve(vec![model(TARGET, CONFIG)]);
    let house = House::new(&server);
    for draft in [None, Some("some/Draft")] {
        let said = house.pair(TARGET, draft).unwrap_err().to_string();
        assert!(said.contains(&format!("'{}'", draft.unwrap_or(DRAFT))), "{said}");
    }
    assert!(!paths(&server).iter().any(|path| path.contains(TARGET)));
}

#[test]
fn an_unknown_target_without_a_draft_is_not_fetched() {
    let server = serve(vec![model("some/Model-7B", CONFIG)]);
    let house = House::new(&server);
    assert!(house.pair("some/Model-7B", None).unwrap_err().to_string().contains("no draft is known"));
    assert_eq!(server.seen(), []);
    let (target, draft) = house.pair("some/Model-7B", Some("ngram")).unwrap();
    assert_eq!((target.path, draft), (house.snapshot("some/Model-7B"), Draft::Ngram));
}

#[test]
fn a_type_that_is_not_built_is_refused_by_its_config() {
    let other: &[u8] = br#"{"model_type":"mamba-like"}"#;
    let draft: &[u8] = br#"{"model_type":"llama","architectures":["DFlashDraftModel"]}"#;
    let server = serve(vec![model("some/Mamba", other), model("some/Draft", draft)]);
    let house = House::new(&server);
    let said = house.pair("some/Mamba", Some("none")).unwrap_err().to_string();
    assert!(said.contains("model type mamba-like"), "{said}");
    let said = house.pair("some/Draft", Some("none")).unwrap_err().to_string();
    assert!(said.contains("hint: pass it as --draft some/Draft"), "{said}");
    assert!(server.seen_of(".safetensors").is_empty());
}

#[test]
fn a_half_fetched_snapshot_is_completed() {
    let server = Server::start(|request, _| plain(&[model(TARGET, CONFIG)], request));
    let house = House::new(&server);
    house.pair(TARGET, Some("none")).unwrap();
    fs::remove_file(house.snapshot(TARGET).join("model.safetensors")).unwrap();
    let before = server.seen().len();
    let (target, _) = house.pair(TARGET, Some("none")).unwrap();
    assert_eq!(fs::read(target.path.join("model.safetensors")).unwrap(), b"x");
    assert_eq!(server.seen().len(), before + 1, "the content was still there");
}
