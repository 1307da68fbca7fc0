use serde_json::{Value, json};
use sysinfo::System;

use super::Check;
use crate::cache::human_bytes;
use crate::env::Environment;
use crate::options::Options;
use crate::progress::Progress;
use crate::report::FailureKind;
use crate::request::DoctorRequest;
use crate::runtime::{DraftInfo, PairInfo, Runtime};

/// Positions whose K/V the memory estimate counts, or the model's context where it is shorter.
const ESTIMATED_POSITIONS: usize = 8192;

/// Loads the pair from what is on this machine already and looks at how its halves match.
pub fn pair(request: &DoctorRequest, options: &Options, env: &Environment) -> Vec<Check> {
    let mut offline = options.clone();
    offline.offline.value = true;
    match Runtime::open(&request.pair, &offline, env, Progress::Silent) {
        Ok(runtime) => vec![matched(&runtime), memory(runtime.info())],
        // Nothing is broken when the default pair was simply not fetched yet.
        Err(failure) if !options.offline.value && failure.kind() == FailureKind::NotFetched => {
            // It was looked for without the network, which is no setting of the user's.
            vec![Check::warning("pair", format!("{}; `dflash generate` fetches it", failure.message()))]
        }
        Err(failure) => vec![Check::fatal("pair", failure.to_string())],
    }
}

fn matched(runtime: &Runtime) -> Check {
    let info = runtime.info();
    let target = &info.target;
    let mut message = format!(
        "target {} ({}, {} layers of {}, vocabulary {}, context {}, stop ids {:?})",
        info.target_path.display(),
        target.family,
        target.layers,
        target.hidden,
        target.vocab,
        target.context,
        runtime.stop_ids(),
    );
    let draft = match &info.draft {
        DraftInfo::None => "no draft: plain decoding".to_owned(),
        DraftInfo::Ngram => "no draft model: copies from the context".to_owned(),
        DraftInfo::Model { path, spec, quant } => format!(
            "draft  {} ({} layers, block {}, taps {:?} of {} layers, mask id {}, quantisation {})\n\
             the halves match: hidden size, vocabulary, layers and taps",
            path.display(),
            spec.layers,
            spec.block,
            spec.taps,
            target.layers,
            spec.mask_id,
            quant.0,
        ),
    };
    message = format!("{message}\n{draft}");
    for note in &info.notes {
        message += &format!("\nnote: {note}");
    }
    Check::ok("pair", message).with(pair_details(info))
}

fn pair_details(info: &PairInfo) -> Value {
    let draft = match &info.draft {
        DraftInfo::Model { spec, quant, .. } => json!({
            "layers": spec.layers, "block": spec.block, "taps": spec.taps, "mask_token_id": spec.mask_id,
            "quant": quant.0, "quant_source": quant.1,
        }),
        DraftInfo::None | DraftInfo::Ngram => Value::Null,
    };
    let target = &info.target;
    json!({
        "names": info.names(), "backend": info.backend, "weight_bytes": info.weight_bytes, "draft": draft,
        "target": {
            "family": target.family, "hidden": target.hidden, "layers": target.layers, "vocab": target.vocab,
            "context": target.context,
        },
        "notes": info.notes,
    })
}

/// Weights and a long sequence's cache against what the system has free.
fn memory(info: &PairInfo) -> Check {
    let mut system = System::new();
    system.refresh_memory();
    let positions = info.target.context.min(ESTIMATED_POSITIONS) as u64;
    let cache = info.cache_bytes_per_position * positions + info.state_bytes;
    let needed = info.weight_bytes + cache;
    // The weights are loaded already, so what is free now comes on top of them.
    let free = system.available_memory() + info.weight_bytes;
    let message = format!(
        "{} needed (weights {}, cache of {positions} positions {}), {} free of {}",
        human_bytes(needed),
        human_bytes(info.weight_bytes),
        human_bytes(cache),
        human_bytes(free),
        human_bytes(system.total_memory()),
    );
    let check = match needed <= free {
        true => Check::ok("memory", message),
        false => Check::fatal("memory", message),
    };
    check.with(json!({ "needed_bytes": needed, "free_bytes": free, "total_bytes": system.total_memory() }))
}
