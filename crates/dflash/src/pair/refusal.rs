//! Why a pair cannot be had, and the way out.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::hub::{HubId, Snapshot};
use crate::registry::{Entry, Registry, TargetSource};
use crate::report::{Failure, Outcome};

const OTHER_DRAFTS: &str = "--draft ngram (copy from the context) or --draft none (plain decoding)";

pub(super) fn no_such_target(model: &str, is_path: bool, registry: &Registry) -> Failure {
    let cause = match is_path {
        true => "there is no such file or directory",
        false => "it is neither a file or directory here, nor a known name, nor in the local hub cache",
    };
    Failure::new(format!("no model '{model}'"))
        .cause(cause)
        .hint(
            "pass --model with a GGUF file, a model directory, a known name, or ORGANISATION/NAME of the Hub",
        )
        .hint(known(registry))
}

pub(super) fn no_such_draft(name: &str) -> Failure {
    Failure::new(format!("no draft at '{name}'"))
        .cause("there is no such file or directory, nor such a repository in the local hub cache")
        .hint(format!("pass --draft PATH, --draft ORGANISATION/NAME of the Hub, {OTHER_DRAFTS}"))
}

pub(super) fn no_draft_for(model: &str, registry: &Registry) -> Failure {
    Failure::new(format!("no draft is known for '{model}'"))
        .hint(format!("pass --draft PATH, --draft ORGANISATION/NAME of the Hub, {OTHER_DRAFTS}"))
        .hint(known(registry))
}

fn known(registry: &Registry) -> String {
    format!("known names: {}", registry.names().collect::<Vec<_>>().join(", "))
}

pub(super) fn only_a_part(id: &HubId, snapshot: &Snapshot) -> Failure {
    Failure::not_fetched(format!("the local hub cache has only a part of '{id}'"))
        .cause(format!("missing in {}: {}", directory(snapshot).display(), snapshot.missing.join(", ")))
        .hint("run once without --offline, DFLASH_OFFLINE and HF_HUB_OFFLINE to fetch the rest")
}

fn directory(snapshot: &Snapshot) -> &Path {
    let is_file = snapshot.path.extension().is_some_and(|extension| extension == "gguf");
    if is_file { snapshot.path.parent().unwrap_or(&snapshot.path) } else { &snapshot.path }
}

pub(super) fn target_not_built(id: &HubId, entry: &Entry) -> Failure {
    Failure::new(format!(
        "'{id}' is a known pair, but this build has no targets of model type {}",
        entry.model_type
    ))
    .cause(types_that_are_built())
    .hint("`dflash models` lists the pairs and says which of them run")
}

pub(super) fn draft_not_built(entry: &Entry) -> Failure {
    let reason = entry.draft.obstacle().unwrap_or_default();
    Failure::new(format!("the draft '{}' is known, but this build cannot run it", entry.draft.label()))
        .cause(reason)
        .hint(format!("pass {OTHER_DRAFTS}"))
}

/// A variant that somebody made is only known by who made it.
pub(super) fn variant_without_organisation(id: &HubId, entry: &Entry) -> Failure {
    let failure = Failure::new(format!("the weights of '{id}' are not on this machine"))
        .cause("there is no such repository in the local hub cache, and no organisation to download it from");
    match &entry.target {
        TargetSource::Wheel(_) => failure
            .hint(format!("pass --model {}, or --model ORGANISATION/{id}", entry.name))
            .hint("or pass --model PATH with weights of your own; the draft is built in"),
        TargetSource::Hub { repo } => {
            failure.hint(format!("pass --model ORGANISATION/{id}, or --model {repo}"))
        }
    }
}

pub(super) fn draft_not_fetched(entry: &Entry) -> Failure {
    let draft = entry.draft.label();
    Failure::not_fetched(format!("the draft of this model, '{draft}', is not on this machine"))
        .cause("--model is a path, so nothing is fetched unasked")
        .hint(format!("pass --draft {draft} to fetch it from the Hub"))
        .hint(format!("or pass {OTHER_DRAFTS}"))
}

/// Adds the ways to do without the paired draft.
pub(super) fn without_draft(failure: Failure) -> Failure {
    failure.hint(format!("or pass {OTHER_DRAFTS}"))
}

fn types_that_are_built() -> String {
    let types = dflash_models::supported_model_types().collect::<Vec<_>>().join(", ");
    format!("model types it has: {types}")
}

/// Looks at a target's `config.json` before its weights are fetched.
pub(super) fn check_model_type(id: &HubId) -> impl Fn(&Path) -> Outcome<()> {
    move |config| {
        let config = read(config);
        if is_draft(&config) {
            return Err(Failure::new(format!("'{id}' is a draft, not a target"))
                .hint(format!("pass it as --draft {id}, with its target as --model")));
        }
        let types = model_types(&config);
        let is_built = |name: &String| dflash_models::supported_model_types().any(|built| built == name);
        // A config that names none is for the loader to judge.
        if types.is_empty() || types.iter().any(is_built) {
            return Ok(());
        }
        Err(Failure::new(format!("this build has no targets of model type {}, which '{id}' is", types[0]))
            .cause(types_that_are_built()))
    }
}

fn read(config: &Path) -> Value {
    let bytes = fs::read(config).unwrap_or_default();
    serde_json::from_slice(&bytes).unwrap_or_default()
}

fn is_draft(config: &Value) -> bool {
    let architectures = config["architectures"].as_array().into_iter().flatten();
    config["dflash_config"].is_object()
        || architectures.filter_map(Value::as_str).any(|name| name.starts_with("DFlash"))
}

/// The type of the model, and of its text part where it has several parts.
fn model_types(config: &Value) -> Vec<String> {
    let types = [&config["model_type"], &config["text_config"]["model_type"]];
    types.into_iter().filter_map(|name| name.as_str().map(str::to_owned)).collect()
}
