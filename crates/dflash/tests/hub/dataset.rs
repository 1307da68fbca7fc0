use dflash::cli::{PairArgs, RuntimeArgs};
use dflash::env::Environment;
use dflash::options::Options;
use dflash::progress::Progress;
use dflash::report::{FailureKind, Outcome};
use dflash::suite::{self, Prompt, SuiteArgs, SuiteRequest};
use tempfile::TempDir;

use crate::files;
use crate::server::{COMMIT, Reply, Repo, Server, serve};

const QUESTIONS: &[u8] = include_bytes!("../data/parquet/snappy.parquet");
const AIME: &[u8] =
    b"{\"problem\":\"Find n.\",\"answer\":\"70\",\"id\":\"0\"}\n{\"problem\":\"Find m.\",\"answer\":5}\n";

/// A home with a cache of its own.
struct Home(TempDir);

impl Home {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// The prompts that `dflash benchmark` with these flags begins with.
    fn prompts(&self, server: &Server, flags: &[(&str, &str)]) -> Outcome<Vec<Prompt>> {
        let env = [("HOME", self.0.path().to_str().unwrap()), ("HF_ENDPOINT", &server.url)];
        let flag =
            |name: &str| flags.iter().find(|(flag, _)| *flag == name).map(|(_, value)| (*value).to_owned());
        let env = Environment::from_pairs(env);
        let runtime = RuntimeArgs { offline: flag("offline").is_some(), ..RuntimeArgs::default() };
        let options = Options::resolve(&PairArgs::default(), &runtime, &env).unwrap();
        let args = SuiteArgs {
            suite: flag("suite"),
            limit: flag("limit"),
            shuffle: flag("seed").is_some(),
            seed: flag("seed"),
            ..SuiteArgs::default()
        };
        suite::prompts(&SuiteRequest::read(&args, &env)?, &options, &env, Progress::Silent)
    }

    /// What the user is told.
    fn said(&self, server: &Server, flags: &[(&str, &str)]) -> String {
        let said = self.prompts(server, flags).unwrap_err().to_string();
        said.replace(&server.url, "[HUB]").replace(self.0.path().to_str().unwrap(), "[DIR]")
    }
}

fn gsm8k() -> Repo {
    let file: &[(&str, &[u8])] = &[("README.md", b"x"), ("main/test-00000-of-00001.parquet", QUESTIONS)];
    Repo::new("openai/gsm8k", file).dataset()
}

fn aime() -> Repo {
    Repo::new("math-ai/aime25", &[("test.jsonl", AIME)]).dataset()
}

fn ids(prompts: &[Prompt]) -> Vec<&str> {
    prompts.iter().map(|prompt| prompt.id.as_str()).collect()
}

#[test]
fn a_dataset_is_fetched_once_into_the_shared_cache() {
    let server = serve(vec![gsm8k()]);
    let home = Home::new();
    let prompts = home.prompts(&server, &[("suite", "gsm8k")]).unwrap();
    assert_eq!(prompts.len(), 10);
    assert_eq!(prompts[3].id, "gsm8k-3");
    assert_eq!(prompts[3].text, "Question: Question 3: what is 3 × 3?\nAnswer: ");
    assert_eq!(prompts[3].category, "gsm8k");
    let repo = home.0.path().join(".cache/huggingface/hub/datasets--openai--gsm8k");
    let file = format!("snapshots/{COMMIT}/main/test-00000-of-00001.parquet");
    assert!(repo.join(&file).is_file());
    assert!(!files(&repo).iter().any(|name| name.contains("README")), "{:?}", files(&repo));

    let before = server.seen().len();
    for more in [("seed", "0"), ("offline", "")] {
        home.prompts(&server, &[("suite", "gsm8k"), more]).unwrap();
    }
    assert_eq!(server.seen().len(), before, "it is here");
}

#[test]
fn a_seed_chooses_rows_that_their_ids_tell() {
    let server = serve(vec![gsm8k()]);
    let home = Home::new();
    let shuffled =
        |seed| home.prompts(&server, &[("suite", "gsm8k"), ("limit", "4"), ("seed", seed)]).unwrap();
    let (first, other) = (shuffled("1"), shuffled("2"));
    assert_eq!(ids(&first), ids(&shuffled("1")));
    assert_ne!(ids(&first), ids(&other));
    for prompt in &first {
        let row = prompt.id.strip_prefix("gsm8k-").unwrap();
        assert!(prompt.text.starts_with(&format!("Question: Question {row}: ")), "{prompt:?}");
    }
}

#[test]
fn problems_of_aime_have_answers() {
    let server = serve(vec![aime()]);
    let prompts = Home::new().prompts(&server, &[("suite", "aime25")]).unwrap();
    assert_eq!(ids(&prompts), ["aime25-0", "aime25-1"]);
    let answers: Vec<_> = prompts.iter().map(|prompt| prompt.answer.as_deref()).collect();
    assert_eq!(answers, [Some("70"), Some("5")]);
    assert!(prompts[0].text.starts_with("Problem: Find n.\n") && prompts[0].chat_template);
}

#[test]
fn what_is_not_here_stays_away_offline() {
    let server = serve(vec![gsm8k()]);
    let flags = [("suite", "gsm8k"), ("offline", "")];
    let home = Home::new();
    let expected = "error: 'openai/gsm8k' is not on this machine\n\
        caused by: it is not in [DIR]/.cache/huggingface/hub/datasets--openai--gsm8k, and offline mode forbids the \
        download\n\
        hint: run once without --offline, DFLASH_OFFLINE and HF_HUB_OFFLINE\n\
        hint: or take a built-in suite, or prompts of your own with --prompt-file JSONL";
    assert_eq!(home.said(&server, &flags), expected);
    assert_eq!(home.prompts(&server, &flags).unwrap_err().kind(), FailureKind::NotFetched);
    assert!(server.seen().is_empty());
}

#[test]
fn refusals_name_the_dataset_and_its_page() {
    let refused = Server::start(|_, _| Reply::status(401));
    let said = Home::new().said(&refused, &[("suite", "math500")]);
    assert!(said.starts_with("error: cannot get 'HuggingFaceH4/MATH-500' from the Hub\n"), "{said}");
    assert!(said.contains("[HUB]/datasets/HuggingFaceH4/MATH-500"), "{said}");
    let moved = serve(vec![Repo::new("math-ai/aime25", &[("other.jsonl", AIME)]).dataset()]);
    let said = Home::new().said(&moved, &[("suite", "aime25")]);
    assert!(said.contains("it lacks test.jsonl\nhint: look at [HUB]/datasets/math-ai/aime25\n"), "{said}");
    // A model of the same name is another repository.
    let model = serve(vec![Repo { kind: "models", ..aime() }]);
    let said = Home::new().said(&model, &[("suite", "aime25")]);
    assert!(said.contains("HTTP 404"), "{said}");
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let name = "openai_humaneval/test-00000-of-00001.parquet";
    for (content, cause) in [
        (QUESTIONS, "there is no column 'prompt'"),
        (&QUESTIONS[..900], "the file is damaged: it does not begin and end as a Parquet file"),
    ] {
        let server = serve(vec![Repo::new("openai/openai_humaneval", &[(name, content)]).dataset()]);
        let said = Home::new().said(&server, &[("suite", "humaneval")]);
        let expected = format!(
            "error: cannot read {name} of the dataset 'openai/openai_humaneval'\ncaused by: {cause}\nhint: remove [DIR]/"
        );
        assert!(said.starts_with(&expected), "{said}");
    }
}
