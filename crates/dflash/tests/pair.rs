//! From names to files.
#![cfg(unix)]

use std::fs;
use std::path::{Path, PathBuf};

use dflash::cli::{PairArgs, RuntimeArgs};
use dflash::env::Environment;
use dflash::options::Options;
use dflash::pair::{Draft, DraftChoice, Locator, PairChoice, Target};
use dflash::progress::Progress;
use dflash::registry::Registry;
use dflash::report::Outcome;
use tempfile::TempDir;

struct House {
    dir: TempDir,
    env: Environment,
    options: Options,
}

impl House {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let env = Environment::from_pairs([("HOME", dir.path())]);
        let runtime = RuntimeArgs { offline: true, ..RuntimeArgs::default() };
        let options = Options::resolve(&PairArgs::default(), &runtime, &env).unwrap();
        Self { dir, env, options }
    }

    fn locator(&self) -> Locator<'_> {
        Locator {
            registry: Registry::built_in(),
            options: &self.options,
            env: &self.env,
            progress: Progress::Silent,
        }
    }

    fn model_dir(&self, name: &str) -> PathBuf {
        let path = self.dir.path().join(name);
        fs::create_dir_all(&path).unwrap();
        fs::write(path.join("config.json"), "{}").unwrap();
        fs::write(path.join("model.safetensors"), "x").unwrap();
        path
    }

    fn in_hub(&self, repo: &str) -> PathBuf {
        self.model_dir(&format!(".cache/huggingface/hub/models--{}/snapshots/1", repo.replace('/', "--")))
    }

    fn target(&self, model: &str) -> Outcome<Target> {
        self.locator().target(&choice(Some(model), None))
    }

    fn draft(&self, model: &str, draft: Option<&str>, general_name: Option<&str>) -> Outcome<Draft> {
        let choice = choice(Some(model), draft);
        let locator = self.locator();
        locator.draft(&choice, &locator.target(&choice)?, general_name)
    }

    fn said<T: std::fmt::Debug>(&self, outcome: Outcome<T>) -> String {
        outcome.unwrap_err().to_string().replace(&self.dir.path().display().to_string(), "[DIR]")
    }
}

fn choice(model: Option<&str>, draft: Option<&str>) -> PairChoice {
    PairChoice::of(model, draft).unwrap()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn words_for_drafts() {
    assert_eq!(choice(None, None), PairChoice { model: "smollm2-135m".into(), draft: DraftChoice::Paired });
    assert_eq!(choice(None, Some("None")).draft, DraftChoice::None);
    assert_eq!(choice(None, Some("ngram")).draft, DraftChoice::Ngram);
    assert_eq!(choice(None, Some("AUTO")).draft, DraftChoice::Auto);
    assert_eq!(choice(None, Some("./none")).draft, DraftChoice::Named("./none".into()));
}

#[test]
fn a_path_is_taken_as_it_is() {
    let house = House::new();
    let dir = house.model_dir("Qwen3-4B-Instruct");
    let draft = house.model_dir("draft");
    let expected = Draft::Model { path: draft.clone(), registry_quant: None };
    assert_eq!(house.draft(text(&dir), Some(text(&draft)), None).unwrap(), expected);
    assert_eq!(house.draft(text(&dir), Some("none"), None).unwrap(), Draft::None);
    assert_eq!(house.draft(text(&dir), Some("ngram"), None).unwrap(), Draft::Ngram);
    let said = house.said(house.draft(text(&dir), None, None));
    assert!(
        said.contains("z-lab/Qwen3-4B-DFlash-b16") && said.contains("nothing is fetched unasked"),
        "{said}"
    );
    let paired = house.in_hub("z-lab/Qwen3-4B-DFlash-b16");
    let expected = Draft::Model { path: paired, registry_quant: None };
    assert_eq!(house.draft(text(&dir), None, None).unwrap(), expected);
    assert_eq!(house.target(text(&dir)).unwrap().path, dir);
}

#[test]
fn the_default_draft_is_built_in() {
    let house = House::new();
    let dir = house.model_dir("SmolLM2-135M-Instruct");
    let Draft::Model { path, registry_quant } = house.draft(text(&dir), None, None).unwrap() else {
        panic!()
    };
    assert!(path.starts_with(house.dir.path().join(".cache/dflash/smollm2-135m-dflash")));
    assert!(path.join("model.safetensors").is_file());
    assert_eq!(registry_quant, None);
}

#[test]
fn a_file_says_its_own_name_when_its_path_does_not() {
    let house = House::new();
    let file = house.dir.path().join("model.gguf");
    fs::write(&file, "GGUF").unwrap();
    assert!(matches!(house.draft(text(&file), None, Some("Smollm2 135M 8k")), Ok(Draft::Model { .. })));
    insta::assert_snapshot!("no_draft_known", house.said(house.draft(text(&file), None, Some("Another 7B"))));
}

#[test]
fn the_hub_cache_serves_known_and_unknown_names() {
    let house = House::new();
    let target = house.in_hub("mlx-community/Qwen3.5-9B-4bit");
    let draft = house.in_hub("z-lab/Qwen3.5-9B-DFlash");
    let other = house.in_hub("some/Model-1B");
    assert_eq!(house.target("mlx-community/Qwen3.5-9B-4bit").unwrap().path, target);
    assert_eq!(house.target("some/Model-1B").unwrap().path, other);
    let w4 = "w4".parse().ok();
    let paired = Draft::Model { path: draft.clone(), registry_quant: w4 };
    assert_eq!(house.draft("mlx-community/Qwen3.5-9B-4bit", None, None).unwrap(), paired);
    assert_eq!(
        house.draft(text(&target), None, None).unwrap(),
        paired,
        "a snapshot's path knows its repository"
    );
    assert_eq!(house.draft("Qwen3.5-9B-4bit", Some("z-lab/Qwen3.5-9B-DFlash"), None).unwrap(), paired);
    let by_path = Draft::Model { path: draft.clone(), registry_quant: None };
    assert_eq!(house.draft("Qwen3.5-9B-4bit", Some(text(&draft)), None).unwrap(), by_path);
}

#[test]
fn what_is_not_here_is_named() {
    let house = House::new();
    house.in_hub("Qwen/Qwen3-8B");
    house.in_hub("some/Model-1B");
    let part = house.in_hub("org/Part");
    fs::remove_file(part.join("model.safetensors")).unwrap();
    let mut said = String::new();
    for (model, draft) in [
        ("./absent.gguf", None),
        ("absent", None),
        ("smollm2-135m", None),
        ("smollm2-135m", Some("./absent")),
        ("SmolLM2-135M-Instruct-8bit", None),
        ("Qwen3-4B", None),
        ("mlx-community/Qwen3.5-9B-4bit", None),
        ("Qwen3-8B", None),
        ("org/Part", None),
        ("org/Absent-8B", None),
        ("org/Absent-8B", Some("none")),
        ("Llama-3.1-8B-Instruct", None),
        ("Llama-3.1-8B-Instruct-4bit", Some("none")),
        ("some/Model-1B", Some("z-lab/Qwen3.8-27B-DFlash2")),
        ("some/Model-1B", Some("org/Absent-DFlash")),
        ("some/Model-1B", Some("Absent-DFlash")),
    ] {
        let words = draft.map(|draft| format!(" --draft {draft}")).unwrap_or_default();
        said += &format!("> --model {model}{words}\n{}\n", house.said(house.draft(model, draft, None)));
    }
    insta::assert_snapshot!("not_here", said);
}
