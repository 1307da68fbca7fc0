//! Models of the Hub: cache, downloads and refusals, against a server of a few bytes.
#![cfg(unix)]

mod binary;
mod dataset;
mod download;
mod pairs;
mod refusals;
mod server;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use dflash::env::Environment;
use dflash::hub::{Hub, HubError, HubId, HubSettings, Patience, Role};
use dflash::progress::Progress;
use server::{Repo, Server};
use tempfile::TempDir;

const CONFIG: &[u8] = br#"{"model_type":"llama"}"#;
const WEIGHTS: &[u8] = b"weights, and enough of them to be cut somewhere in the middle";
const REPO: &str = "org/Model-1B";

/// A machine with a cache of its own.
struct Machine {
    dir: TempDir,
    hub: Hub,
}

impl Machine {
    fn new(server: &Server) -> Self {
        Self::with(server, &[])
    }

    fn with(server: &Server, more: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let own = [("HOME", dir.path().to_str().unwrap()), ("HF_ENDPOINT", &server.url)];
        let env = Environment::from_pairs(own.iter().chain(more).copied());
        let mut settings = HubSettings::resolve(&env, false).unwrap();
        settings.patience = Patience { first_pause: Duration::ZERO, ..Patience::default() };
        Self { hub: Hub { settings, progress: Progress::Silent }, dir }
    }

    fn fetch(&self, id: &str) -> Result<PathBuf, HubError> {
        self.hub.fetch(&HubId::parse(id).unwrap(), Role::Target, &|_| Ok(()))
    }

    /// What the user is told.
    fn said(&self, id: &str, server: &Server) -> String {
        let error = self.fetch(id).unwrap_err();
        let said = error.into_failure(&HubId::parse(id).unwrap(), &server.url).to_string();
        said.replace(&server.url, "[HUB]").replace(self.dir.path().to_str().unwrap(), "[DIR]")
    }

    fn repo_dir(&self) -> PathBuf {
        self.hub.settings.cache.repo_dir(&HubId::of_repo(REPO)).unwrap()
    }

    fn part(&self, name: &str, content: &[u8]) -> PathBuf {
        self.repo_dir().join("blobs").join(format!("{}.incomplete", server::etag(name, content)))
    }

    /// What an earlier run left.
    fn begun(&self, name: &str, content: &[u8], left: &[u8]) {
        let part = self.part(name, content);
        fs::create_dir_all(part.parent().unwrap()).unwrap();
        fs::write(part, left).unwrap();
    }
}

fn model() -> Repo {
    Repo::new(REPO, &[("config.json", CONFIG), ("tokenizer.json", b"{}"), ("model.safetensors", WEIGHTS)])
}

/// Names below `dir`, sorted, with `/`.
fn files(dir: &Path) -> Vec<String> {
    let mut names = Vec::new();
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let name = entry.file_name().into_string().unwrap();
        match entry.file_type().unwrap().is_dir() {
            true => names.extend(files(&entry.path()).into_iter().map(|below| format!("{name}/{below}"))),
            false => names.push(name),
        }
    }
    names.sort();
    names
}
