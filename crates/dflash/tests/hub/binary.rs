//! Through the real binary, to the text of a tiny model.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

use crate::server::{COMMIT, Reply, Repo, Server, etag, plain, serve};

const FILE: &str = "tiny-Q4_1.gguf";
const MODEL: &str = "org/tiny-GGUF:Q4_1";

fn weights() -> Vec<u8> {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../dflash-models/tests/data/gguf");
    fs::read(data.join("mixed-untied.gguf")).unwrap()
}

fn tiny() -> Repo {
    Repo::new("org/tiny-GGUF", &[(FILE, &weights()), ("tiny-Q8_0.gguf", b"other")])
}

struct Home(TempDir);

impl Home {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn repo(&self) -> PathBuf {
        self.0.path().join(".cache/huggingface/hub/models--org--tiny-GGUF")
    }

    fn command(&self, endpoint: &str, model: &str, more: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dflash"));
        command.args(["generate", "--no-chat-template", "--prompt", "1 2 3", "--max-tokens", "8"]);
        command.args(["--draft", "none", "--model", model]).args(more);
        command.env_clear().env("HOME", self.0.path()).env("HF_ENDPOINT", endpoint);
        command.current_dir(self.0.path());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn run(&self, endpoint: &str, model: &str, more: &[&str]) -> Output {
        self.command(endpoint, model, more).output().unwrap()
    }
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn a_model_is_fetched_once_and_then_runs_offline() {
    let (server, home) = (serve(vec![tiny()]), Home::new());
    let first = text(&home.run(&server.url, MODEL, &[]));
    assert!(!first.is_empty());
    let asked = server.seen().len();
    assert_eq!(asked, 2, "a listing and a file");
    for (model, more) in
        [(MODEL, &[][..]), (MODEL, &["--offline"]), ("org/tiny-GGUF", &[]), ("tiny-gguf", &[])]
    {
        assert_eq!(text(&home.run(&server.url, model, more)), first, "{model}");
    }
    assert_eq!(server.seen().len(), asked, "the cache answers");
}

#[test]
fn offline_says_one_thing_and_asks_nobody() {
    let (server, home) = (serve(vec![tiny()]), Home::new());
    for (more, name) in [(&["--offline"][..], "X"), (&[], "HF_HUB_OFFLINE"), (&[], "DFLASH_OFFLINE")] {
        let output = home.command(&server.url, MODEL, more).env(name, "1").output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert_eq!(said.matches("error:").count(), 1, "{said}");
        assert!(said.contains(home.repo().to_str().unwrap()), "{said}");
    }
    assert_eq!(server.seen(), []);
    assert!(!home.repo().exists());
}

#[test]
fn the_doctor_asks_nobody_and_warns() {
    let (server, home) = (serve(vec![tiny()]), Home::new());
    let mut doctor = Command::new(env!("CARGO_BIN_EXE_dflash"));
    doctor.args(["doctor", "--draft", "none", "--model", MODEL]).env_clear().current_dir(home.0.path());
    let output = doctor.env("HOME", home.0.path()).env("HF_ENDPOINT", &server.url).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("`dflash generate` fetches it"), "{said}");
    assert_eq!(server.seen(), []);
}

#[test]
fn a_path_of_the_same_name_wins() {
    let (server, home) = (serve(vec![tiny()]), Home::new());
    let path = home.0.path().join("org/tiny-GGUF");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, weights()).unwrap();
    text(&home.run(&server.url, "org/tiny-GGUF", &[]));
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    let said = String::from_utf8(home.run(&server.url, "org/tiny-GGUF", &[]).stderr).unwrap();
    assert!(said.contains("org/tiny-GGUF") && said.contains("it has no config.json"), "{said}");
    assert_eq!(server.seen(), []);
}

#[test]
fn two_processes_fetch_once() {
    let (server, home) = (serve(vec![tiny()]), Home::new());
    let runs = [0, 1].map(|_| home.command(&server.url, MODEL, &[]).spawn().unwrap());
    let [a, b] = runs.map(|run| text(&run.wait_with_output().unwrap()));
    assert_eq!(a, b);
    assert_eq!(server.seen_of(FILE).len(), 1);
}

#[test]
fn a_killed_run_is_continued_by_the_next() {
    use std::os::unix::process::ExitStatusExt;
    const PART: usize = 10_000;
    let home = Home::new();
    let part = home.repo().join("blobs").join(format!("{}.incomplete", etag(FILE, &weights())));
    let server = Server::start(|request, before| {
        let first = request.path.ends_with(FILE) && before == 0;
        Reply { cut: first.then_some(PART), hold: first, ..plain(&[tiny()], request) }
    });
    let mut run = home.command(&server.url, MODEL, &[]).spawn().unwrap();
    while fs::read(&part).map_or(0, |bytes| bytes.len()) < PART {
        assert!(run.try_wait().unwrap().is_none(), "it waits for the rest");
        std::thread::yield_now();
    }
    assert!(Command::new("kill").args(["-INT", &run.id().to_string()]).status().unwrap().success());
    assert_eq!(run.wait().unwrap().signal(), Some(2), "it ends as a shell expects");
    assert_eq!(fs::read(&part).unwrap(), &weights()[..PART]);
    assert!(!home.repo().join("snapshots").join(COMMIT).join(FILE).exists());
    text(&home.run(&server.url, MODEL, &[]));
    assert_eq!(server.seen_of(FILE)[1].header("range"), Some(&*format!("bytes={PART}-")));
}
