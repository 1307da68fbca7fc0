use dflash_engine::{Decoding, EngineError, Event};
use serde_json::Value;

use super::exposition::exposition;
use super::memory::Memory;
use super::report::report;
use super::snapshot::Snapshot;
use super::{Metrics, RequestFacts, scripted};
use crate::ModelFacts;

fn facts(id: &str) -> RequestFacts {
    RequestFacts { id: id.into(), api: "chat.completions", stream: true, prompt_tokens: 5, max_tokens: 64 }
}

fn snapshot(metrics: &Metrics) -> Snapshot {
    let state = metrics.state();
    Snapshot {
        model: "tiny".into(),
        facts: ModelFacts { draft: "a \"draft\"\\".into(), max_batch: 8, ..ModelFacts::default() },
        diagnostics: "off",
        uptime_s: 10.0,
        started_at: 1.7e9,
        memory: Memory { rss: Some(2_000_000_000), peak: None },
        prefix: Some(dflash_engine::PrefixStats::default()),
        load: dflash_engine::Load {
            active: 1,
            waiting: 2,
            cancelled: 3,
            faults: 4,
            steps: 5,
            step: None,
            alive: true,
        },
        counts: state.counts.clone(),
        current: state.current.values().cloned().collect(),
        records: state.recent.records.clone(),
        requests_per_s: state.recent.per_second(),
    }
}

/// Two complete answers, one cancelled, one failed, one in work and one in the queue.
fn busy() -> (Metrics, Vec<super::Observer>) {
    let metrics = Metrics::default();
    for id in ["a", "b"] {
        scripted::answer(&mut metrics.observe(&facts(id), 0, Decoding::Speculative));
    }
    scripted::begin(&mut metrics.observe(&facts("gone"), 0, Decoding::Speculative));
    let mut failed = metrics.observe(&facts("failed"), 0, Decoding::Plain);
    failed.see(&Event::Failed(EngineError::Stopped));
    let mut decoding = metrics.observe(&facts("decoding"), 0, Decoding::Speculative);
    scripted::begin(&mut decoding);
    let queued = metrics.observe(&facts("queued"), 1, Decoding::Plain);
    metrics.refused("queue_full");
    metrics.refused("queue_full");
    metrics.panicked();
    (metrics, vec![failed, decoding, queued])
}

fn value(text: &str, sample: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {sample} in\n{text}")).parse().unwrap()
}

#[test]
fn text_and_json_count_what_was_done() {
    let (metrics, _work) = busy();
    let snapshot = snapshot(&metrics);
    let json = report(&snapshot);
    let text = exposition(snapshot);
    let both = [
        ("dflash_prompt_tokens_total", "prompt_tokens", 20.0),
        ("dflash_generated_tokens_total", "generated_tokens", 20.0),
        ("dflash_drafted_tokens_total", "drafted_tokens", 20.0),
        ("dflash_accepted_tokens_total", "accepted_tokens", 10.0),
        ("dflash_decode_seconds_total", "decode_s", 4.0),
        ("dflash_prefill_seconds_total", "prefill_s", 1.0),
    ];
    for (sample, total, expected) in both {
        assert_eq!(value(&text, sample), expected, "{sample}");
        assert_eq!(json["totals"][total].as_f64(), Some(expected), "{total}");
    }
    let text_alone = [
        (r#"dflash_requests_total{api="chat.completions",outcome="stop"}"#, 2.0),
        (r#"dflash_requests_total{api="chat.completions",outcome="cancelled"}"#, 1.0),
        (r#"dflash_requests_total{api="chat.completions",outcome="error"}"#, 1.0),
        (r#"dflash_refused_total{reason="queue_full"}"#, 2.0),
        (r#"dflash_cycles_total{proposer="copy",width="8"}"#, 2.0),
        (r#"dflash_cycles_total{proposer="none",width="1"}"#, 2.0),
        (r#"dflash_verified_by_position_total{position="2"}"#, 4.0),
        (r#"dflash_accepted_by_position_total{position="3"}"#, 2.0),
        ("dflash_panics_total", 5.0),
        ("dflash_tokens_per_cycle", 20.0 / 6.0),
        ("dflash_acceptance_ratio", 0.5),
        ("dflash_queue_seconds_count", 4.0),
        ("dflash_queue_seconds_sum", 1.0),
        ("dflash_time_to_first_token_seconds_count", 4.0),
        // Every id but the first of an answer.
        ("dflash_inter_token_seconds_count", 16.0),
        (r#"dflash_request_generated_tokens_bucket{le="4.0"}"#, 2.0),
        (r#"dflash_request_generated_tokens_bucket{le="16.0"}"#, 4.0),
        ("dflash_requests_active", 1.0),
        ("dflash_requests_waiting", 2.0),
        ("process_resident_memory_bytes", 2e9),
    ];
    for (sample, expected) in text_alone {
        assert_eq!(value(&text, sample), expected, "{sample}");
    }
    assert!(text.ends_with("# EOF\n") && !text.contains("memory_peak"));
    assert!(text.contains(r#"draft="a \"draft\"\\""#), "{text}");
}

#[test]
fn requests_are_told_where_they_are() {
    let (metrics, work) = busy();
    let json = report(&snapshot(&metrics));
    let state = |request: &Value| (request["request_id"].clone(), request["state"].clone());
    let current: Vec<_> = json["current_requests"].as_array().unwrap().iter().map(state).collect();
    assert_eq!(current, [("decoding".into(), "decode".into()), ("queued".into(), "queued".into())]);
    assert_eq!(json["current_request"], json["current_requests"][0]);
    assert_eq!(json["current_request"]["queue_s"], 0.25);
    let ends: Vec<_> =
        json["recent_requests"].as_array().unwrap().iter().map(|end| end["finish_reason"].clone()).collect();
    assert_eq!(ends, ["stop", "stop", "cancelled", "error"]);
    assert_eq!(json["last_request"]["request_id"], "failed");
    let first = &json["recent_requests"][0];
    assert_eq!((&first["copyspec_hits"], &first["copyspec_tokens"]), (&1.into(), &3.into()));
    assert_eq!(
        (&first["decode_tok_s"], &first["phase_timings_us"]["prefill"]),
        (&4.0.into(), &500_000.into())
    );
    drop(work);
    let json = report(&snapshot(&metrics));
    assert!(json["current_request"].is_null());
    assert_eq!(json["totals"]["cancelled"], 3);
}

#[test]
fn nothing_yet_is_nothing() {
    let metrics = Metrics::default();
    let json = report(&snapshot(&metrics));
    assert!(json["current_request"].is_null() && json["last_request"].is_null());
    assert_eq!(json["recent_requests"], serde_json::json!([]));
    assert_eq!(value(&exposition(snapshot(&metrics)), "dflash_tokens_per_cycle"), 0.0);
}

#[test]
fn the_reference_s_names_are_there_and_sorted() {
    let (metrics, _work) = busy();
    let json = report(&snapshot(&metrics));
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let names = [
        (
            "server",
            "version model draft draft_quant draft_quant_source draft_load_dtype draft_load_dtype_source mode uptime_s",
        ),
        ("runtime", "prefill_step_size prefix_cache_enabled target_fa_window diagnostics"),
        (
            "memory",
            "rss_gb rss_peak_gb phys_footprint_gb mlx_active_gb mlx_cache_gb mlx_peak_gb wired_gb wired_limit_gb",
        ),
        (
            "current_request",
            "request_id mode_used state prompt_tokens max_tokens generated_tokens cache_hit_tokens cache_status cache_lookup_ms prefill_tokens_processed prefill_tokens_total prefill_s ttft_s decode_s decode_tok_s acceptance_rate tokens_per_cycle cycles adaptive_block_reductions adaptive_block_cycles adaptive_block_min copyspec_hits copyspec_tokens finish_reason prefill_phase_timings_us phase_timings_us elapsed_s",
        ),
        (
            "last_request",
            "request_id prompt_tokens generated_tokens wall_s ttft_s prefill_s decode_s prefill_tok_s_physical prefill_tok_s_apparent prefill_tok_s_restored prefill_tokens_physical prefill_tokens_restored prefill_tokens_computed decode_tok_s acceptance_rate tokens_per_cycle cycles adaptive_block_reductions adaptive_block_cycles adaptive_block_min copyspec_hits copyspec_tokens finish_reason cache_hit_tokens cache_status prefill_phase_timings_us phase_timings_us adaptive_metrics mode_used max_tokens",
        ),
        (
            "rates",
            "requests_per_s requests_per_s_60s generated_tokens_per_s average_decode_tok_s prefill_tokens_physical_per_s prefill_tokens_restored_per_s active_decode_tok_s",
        ),
        (
            "prefix_cache",
            "entries max_entries bytes max_bytes hits misses insertions evictions prefill_tokens_saved last_restored_tokens last_computed_tokens",
        ),
        (
            "totals",
            "requests generated_tokens decode_s prefill_tokens_physical prefill_tokens_restored cache_hits cache_misses",
        ),
    ];
    for (part, expected) in names {
        let present = keys(&json[part]);
        for name in expected.split(' ') {
            assert!(present.iter().any(|key| key == name), "{part}.{name}");
        }
        assert!(present.is_sorted(), "{part}");
    }
    assert!(keys(&json).is_sorted());
}

/// Names of metrics in a text.
fn names(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("dflash_") || word.starts_with("process_"))
}

#[test]
fn the_dashboard_shows_what_is_told_and_all_of_it() {
    let (metrics, _work) = busy();
    let mut snapshot = snapshot(&metrics);
    snapshot.memory.peak = Some(1);
    let text = exposition(snapshot);
    let told: Vec<&str> = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split(['{', ' ']).next())
        .collect();
    let dashboard: Value = serde_json::from_str(include_str!("../../../../deploy/grafana.json")).unwrap();
    let dashboard = dashboard.to_string();
    let shown: Vec<&str> = names(&dashboard).collect();
    for name in &shown {
        assert!(told.contains(name), "{name} is not told");
    }
    let elsewhere = [
        "dflash_build_info",
        "process_start_time_seconds",
        "dflash_prefill_seconds_total",
        "dflash_decode_seconds_total",
        "dflash_tokens_per_cycle",
        "dflash_acceptance_ratio",
    ];
    let sizes = |name: &str| {
        name.starts_with("dflash_request_prompt") || name.starts_with("dflash_request_generated")
    };
    for name in told.iter().filter(|name| !name.ends_with("_sum") && !name.ends_with("_count")) {
        assert!(shown.contains(name) || elsewhere.contains(name) || sizes(name), "{name} is not shown");
    }
}
