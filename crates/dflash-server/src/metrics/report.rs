use serde_json::{Value, json};

use super::counts::ratio;
use super::progress::Progress;
use super::snapshot::Snapshot;

const GIGA: f64 = 1e9;

/// The figures of a server as JSON, in the words of the reference and some of its own. Keys are sorted; what is not
/// known is null.
pub fn report(snapshot: &Snapshot) -> Value {
    let current: Vec<Value> = snapshot.current.iter().map(Progress::current).collect();
    let mut report = json!({
        "server": server(snapshot),
        "runtime": runtime(snapshot),
        "memory": memory(snapshot),
        "current_request": current.first(),
        "current_requests": current,
        "last_request": snapshot.records.back(),
        "recent_requests": snapshot.records,
        "rates": rates(snapshot),
        "prefix_cache": prefix_cache(snapshot),
        "totals": totals(snapshot),
        "engine": engine(snapshot),
        "policy": snapshot.counts.policy,
        "counts": snapshot.counts,
    });
    report.sort_all_objects();
    report
}

fn server(snapshot: &Snapshot) -> Value {
    let facts = &snapshot.facts;
    let quant = facts.draft_quant.as_ref();
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "model": snapshot.model,
        "target": facts.target,
        "draft": facts.draft,
        "draft_quant": quant.map(|(spec, _)| spec),
        "draft_quant_source": quant.map(|(_, source)| source),
        "draft_load_dtype": null,
        "draft_load_dtype_source": null,
        "backend": facts.backend,
        "context": facts.context,
        "mode": "dflash",
        "uptime_s": snapshot.uptime_s,
    })
}

fn runtime(snapshot: &Snapshot) -> Value {
    json!({
        "prefill_step_size": snapshot.facts.prefill_step_size,
        "prefix_cache_enabled": snapshot.prefix.is_some(),
        "target_fa_window": null,
        "diagnostics": snapshot.diagnostics,
    })
}

fn engine(snapshot: &Snapshot) -> Value {
    let load = snapshot.load;
    json!({
        "active": load.active,
        "waiting": load.waiting,
        "max_batch": snapshot.facts.max_batch,
        "cancelled": load.cancelled,
        "faults": load.faults,
        "steps": load.steps,
        "step_s": load.step.map(|step| step.as_secs_f64()),
        "alive": load.alive,
    })
}

fn memory(snapshot: &Snapshot) -> Value {
    let gigabytes = |bytes: Option<u64>| bytes.map(|bytes| bytes as f64 / GIGA);
    json!({
        "rss_gb": gigabytes(snapshot.memory.rss),
        "rss_peak_gb": gigabytes(snapshot.memory.peak),
        "phys_footprint_gb": null,
        "mlx_active_gb": null,
        "mlx_cache_gb": null,
        "mlx_peak_gb": null,
        "wired_gb": null,
        "wired_limit_gb": null,
    })
}

fn rates(snapshot: &Snapshot) -> Value {
    let (counts, uptime) = (&snapshot.counts, snapshot.uptime_s);
    let decoding = snapshot.current.iter().filter(|progress| progress.delivered.is_some());
    json!({
        "requests_per_s": ratio(counts.answered() as f64, uptime),
        "requests_per_s_60s": snapshot.requests_per_s,
        "generated_tokens_per_s": ratio(counts.generated_tokens as f64, uptime),
        "average_decode_tok_s": counts.decode_tokens_per_second(),
        "prefill_tokens_physical_per_s": ratio(counts.prompt_tokens as f64, counts.prefill_s),
        "prefill_tokens_restored_per_s": null,
        "active_decode_tok_s": decoding.map(Progress::tokens_per_second).fold(0.0, |sum, rate| sum + rate),
        "tokens_per_cycle": counts.tokens_per_cycle(),
        "acceptance_ratio": counts.acceptance_ratio(),
    })
}

fn prefix_cache(snapshot: &Snapshot) -> Value {
    let (stats, most) = (snapshot.prefix, snapshot.facts.prefix);
    json!({
        "entries": stats.map(|stats| stats.entries),
        "max_entries": most.map(|most| most.entries),
        "bytes": stats.map(|stats| stats.bytes),
        "max_bytes": most.map(|most| most.bytes),
        "hits": stats.map(|stats| stats.lookups.hits()),
        "misses": stats.map(|stats| stats.lookups.misses()),
        "insertions": stats.map(|stats| stats.stored),
        "evictions": stats.map(|stats| stats.evicted),
        "prefill_tokens_saved": stats.map(|stats| stats.tokens_saved),
        "last_restored_tokens": null,
        "last_computed_tokens": null,
        "counts": stats,
    })
}

fn totals(snapshot: &Snapshot) -> Value {
    let counts = &snapshot.counts;
    json!({
        "requests": counts.answered(),
        "cancelled": counts.with_outcome("cancelled"),
        "failed": counts.with_outcome("error"),
        "refused": counts.refused.values().sum::<u64>(),
        "prompt_tokens": counts.prompt_tokens,
        "generated_tokens": counts.generated_tokens,
        "drafted_tokens": counts.drafted_tokens,
        "accepted_tokens": counts.accepted_tokens,
        "cycles": counts.passes(),
        "decode_s": counts.decode_s,
        "prefill_s": counts.prefill_s,
        "prefill_tokens_physical": counts.prompt_tokens.saturating_sub(counts.cached_tokens),
        "prefill_tokens_restored": counts.cached_tokens,
        "cache_hits": snapshot.prefix.map(|stats| stats.lookups.hits()),
        "cache_misses": snapshot.prefix.map(|stats| stats.lookups.misses()),
    })
}
