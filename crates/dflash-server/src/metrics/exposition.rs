use std::fmt;

use dflash_engine::Lookup;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

use super::histogram::Histogram;
use super::snapshot::Snapshot;

/// What Prometheus reads: OpenMetrics 1.0.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Where states of prompts are kept.
const TIERS: [&str; 2] = ["memory", "disk"];

/// The figures of a server as OpenMetrics.
pub fn exposition(snapshot: Snapshot) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(snapshot));
    let mut text = String::new();
    encode(&mut text, &registry).expect("a string takes everything");
    text
}

impl Collector for Snapshot {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut page = Page(encoder);
        self.build(&mut page)?;
        self.load(&mut page)?;
        self.requests(&mut page)?;
        self.tokens(&mut page)?;
        self.prefix(&mut page)?;
        self.policy(&mut page)?;
        self.times(&mut page)
    }
}

impl Snapshot {
    fn build(&self, page: &mut Page<'_>) -> fmt::Result {
        let labels = [
            ("version", env!("CARGO_PKG_VERSION")),
            ("model", &escaped(&self.model)),
            ("draft", &escaped(&self.facts.draft)),
            ("backend", &escaped(&self.facts.backend)),
        ];
        Info::new(labels).encode(page.metric(
            "dflash_build",
            "What is served, and by what",
            MetricType::Info,
        )?)?;
        page.gauge("dflash_uptime_seconds", "Time since the start", self.uptime_s)?;
        page.gauge("process_start_time_seconds", "Start of the process since 1970", self.started_at)?;
        if let Some(bytes) = self.memory.rss {
            page.gauge("process_resident_memory_bytes", "Memory held, mapped files included", bytes as f64)?;
        }
        if let Some(bytes) = self.memory.peak {
            page.gauge("process_resident_memory_peak_bytes", "Most memory ever held", bytes as f64)?;
        }
        Ok(())
    }

    fn load(&self, page: &mut Page<'_>) -> fmt::Result {
        let load = self.load;
        page.gauge("dflash_requests_active", "Answers in work", load.active as f64)?;
        page.gauge("dflash_requests_waiting", "Answers in the queue", load.waiting as f64)?;
        page.gauge("dflash_batch_limit", "Answers in work at most", self.facts.max_batch as f64)?;
        page.counter("dflash_steps", "Steps of the engine, each for all answers in work", load.steps as f64)?;
        let step = load.step.map_or(0.0, |step| step.as_secs_f64());
        page.gauge("dflash_step_age_seconds", "How long the present step has been running", step)
    }

    fn requests(&self, page: &mut Page<'_>) -> fmt::Result {
        let counts = &self.counts;
        let help = "Answers by API and by how they ended; every choice of a request is one";
        let mut requests = page.metric("dflash_requests", help, MetricType::Counter)?;
        for (api, outcomes) in &counts.requests {
            for (outcome, count) in outcomes {
                labelled(&mut requests, [("api", *api), ("outcome", *outcome)], *count as f64)?;
            }
        }
        let mut refused =
            page.metric("dflash_refused", "Requests refused, by reason", MetricType::Counter)?;
        for (reason, count) in &counts.refused {
            labelled(&mut refused, [("reason", *reason)], *count as f64)?;
        }
        page.counter("dflash_panics", "Panics that cost a request", (counts.panics + self.load.faults) as f64)
    }

    fn tokens(&self, page: &mut Page<'_>) -> fmt::Result {
        let counts = &self.counts;
        page.gauge(
            "dflash_tokens_per_cycle",
            "Ids delivered per target pass, over all answers",
            counts.tokens_per_cycle(),
        )?;
        page.gauge(
            "dflash_acceptance_ratio",
            "Accepted drafted ids over delivered ids, over all answers",
            counts.acceptance_ratio(),
        )?;
        page.counter("dflash_prompt_tokens", "Ids of prompts that were read", counts.prompt_tokens as f64)?;
        page.counter("dflash_generated_tokens", "Ids delivered", counts.generated_tokens as f64)?;
        page.counter(
            "dflash_drafted_tokens",
            "Drafted ids that were verified",
            counts.drafted_tokens as f64,
        )?;
        page.counter(
            "dflash_accepted_tokens",
            "Drafted ids that were accepted",
            counts.accepted_tokens as f64,
        )?;
        let help = "Target passes after prefill, by proposer and rows verified";
        let mut cycles = page.metric("dflash_cycles", help, MetricType::Counter)?;
        for (proposer, widths) in &counts.cycles {
            for (width, count) in widths {
                let width = width.to_string();
                labelled(&mut cycles, [("proposer", *proposer), ("width", &width)], *count as f64)?;
            }
        }
        let help = "Drafted ids that were verified, by position in their block";
        let mut verified = page.metric("dflash_verified_by_position", help, MetricType::Counter)?;
        for (position, count) in (1..).zip(&counts.by_position) {
            labelled(&mut verified, [("position", &position.to_string())], count.verified as f64)?;
        }
        let help = "Drafted ids that were accepted, by position in their block";
        let mut accepted = page.metric("dflash_accepted_by_position", help, MetricType::Counter)?;
        for (position, count) in (1..).zip(&counts.by_position) {
            labelled(&mut accepted, [("position", &position.to_string())], count.accepted as f64)?;
        }
        Ok(())
    }

    fn prefix(&self, page: &mut Page<'_>) -> fmt::Result {
        let Some(stats) = self.prefix else { return Ok(()) };
        let help = "Prompts that were looked up in the prefix cache, by what came of it";
        let mut queries = page.metric("dflash_prefix_queries", help, MetricType::Counter)?;
        for lookup in Lookup::all() {
            let labels = [("found", lookup.found.name()), ("tier", lookup.place())];
            labelled(&mut queries, labels, stats.lookups.of(lookup) as f64)?;
        }
        let help = "Prompt ids that were not prefilled, as their state was kept";
        page.counter("dflash_prefix_saved_tokens", help, stats.tokens_saved as f64)?;
        let help = "Requests that waited for another's prefill of the same ids";
        page.counter("dflash_prefix_joined", help, stats.joined as f64)?;
        let help = "States larger than all that may be kept in memory";
        page.counter("dflash_prefix_too_large", help, stats.too_large as f64)?;
        let disk = stats.tier.unwrap_or_default();
        let help = "States that were not written to disk";
        page.counter("dflash_prefix_store_failures", help, disk.failed as f64)?;
        let help = "States on disk that could not be read";
        page.counter("dflash_prefix_damaged", help, disk.damaged as f64)?;
        let (stored, evicted) = ([stats.stored, disk.stored], [stats.evicted, disk.evicted]);
        page.counter_by_tier("dflash_prefix_stored", "States that were kept", stored.map(|n| n as f64))?;
        let help = "States that made room for others";
        page.counter_by_tier("dflash_prefix_evicted", help, evicted.map(|n| n as f64))?;
        let help = "Time that requests took to go on from states";
        page.counter_by_tier("dflash_prefix_restore_seconds", help, [stats.restore_s, disk.read_s])?;
        let (entries, bytes) = ([stats.entries, disk.entries], [stats.bytes as u64, disk.bytes]);
        page.gauge_by_tier("dflash_prefix_entries", "States that are kept", entries.map(|n| n as f64))?;
        page.gauge_by_tier("dflash_prefix_bytes", "Bytes of the states", bytes.map(|n| n as f64))
    }

    fn policy(&self, page: &mut Page<'_>) -> fmt::Result {
        let (policy, phases) = (&self.counts.policy, &self.counts.phases);
        let mut seconds =
            page.metric("dflash_phase_seconds", "Time of the parts of cycles", MetricType::Counter)?;
        for (phase, time) in [
            ("draft", phases.draft_s),
            ("verify", phases.verify_s),
            ("rollback", phases.rollback_s),
            ("observe", phases.observe_s),
        ] {
            labelled(&mut seconds, [("phase", phase)], time)?;
        }
        let help = "Steps without drafted ids, by reason";
        let mut plain = page.metric("dflash_plain_steps", help, MetricType::Counter)?;
        for (reason, steps) in [
            ("no_offer", policy.plain_without_offer),
            ("unpromising", policy.plain_unpromising),
            ("loss_limit", policy.plain_at_loss_limit),
            ("to_measure", policy.plain_to_measure),
        ] {
            labelled(&mut plain, [("reason", reason)], steps as f64)?;
        }
        page.counter(
            "dflash_probes",
            "Tries of a proposer that did not promise to pay",
            policy.probes as f64,
        )?;
        page.counter(
            "dflash_dropped_blocks",
            "Blocks that were drafted and not verified",
            policy.dropped_blocks as f64,
        )?;
        page.gauge(
            "dflash_gained_seconds",
            "Time won over plain decoding by the policy's own estimate; negative where lost",
            policy.gained_s,
        )
    }

    fn times(&self, page: &mut Page<'_>) -> fmt::Result {
        let counts = &self.counts;
        page.counter("dflash_prefill_seconds", "Time of prefill of complete answers", counts.prefill_s)?;
        page.counter(
            "dflash_decode_seconds",
            "Time from first to last id of complete answers",
            counts.decode_s,
        )?;
        page.histogram(
            "dflash_time_to_first_token_seconds",
            "Time from the arrival of a request to its first id",
            &counts.ttft,
        )?;
        page.histogram(
            "dflash_inter_token_seconds",
            "Time between deliveries, shared by the ids delivered",
            &counts.between,
        )?;
        page.histogram("dflash_queue_seconds", "Time in the queue", &counts.queue)?;
        page.histogram("dflash_request_prefill_seconds", "Time of prefill", &counts.prefill)?;
        page.histogram(
            "dflash_request_seconds",
            "Time from the arrival of a request to the end of its answer",
            &counts.whole,
        )?;
        page.histogram("dflash_request_prompt_tokens", "Ids of a prompt", &counts.prompts)?;
        page.histogram("dflash_request_generated_tokens", "Ids of an answer", &counts.answers)
    }
}

/// What is written so far.
struct Page<'a>(DescriptorEncoder<'a>);

impl Page<'_> {
    fn metric(
        &mut self,
        name: &'static str,
        help: &str,
        kind: MetricType,
    ) -> Result<MetricEncoder<'_>, fmt::Error> {
        self.0.encode_descriptor(name, help, None, kind)
    }

    /// Its name is written with `_total` behind it.
    fn counter(&mut self, name: &'static str, help: &str, value: f64) -> fmt::Result {
        ConstCounter::new(value).encode(self.metric(name, help, MetricType::Counter)?)
    }

    fn gauge(&mut self, name: &'static str, help: &str, value: f64) -> fmt::Result {
        ConstGauge::new(value).encode(self.metric(name, help, MetricType::Gauge)?)
    }

    fn counter_by_tier(&mut self, name: &'static str, help: &str, values: [f64; 2]) -> fmt::Result {
        let mut metric = self.metric(name, help, MetricType::Counter)?;
        TIERS.iter().zip(values).try_for_each(|(tier, value)| labelled(&mut metric, [("tier", tier)], value))
    }

    fn gauge_by_tier(&mut self, name: &'static str, help: &str, values: [f64; 2]) -> fmt::Result {
        let mut metric = self.metric(name, help, MetricType::Gauge)?;
        let mut put = |(tier, value)| ConstGauge::new(value).encode(metric.encode_family(&[("tier", tier)])?);
        TIERS.into_iter().zip(values).try_for_each(&mut put)
    }

    fn histogram(&mut self, name: &'static str, help: &str, histogram: &Histogram) -> fmt::Result {
        let Histogram { buckets, count, sum } = histogram;
        let mut metric = self.metric(name, help, MetricType::Histogram)?;
        metric.encode_histogram::<NoLabelSet>(*sum, *count, buckets, None)
    }
}

fn labelled<const N: usize>(
    metric: &mut MetricEncoder<'_>,
    labels: [(&str, &str); N],
    value: f64,
) -> fmt::Result {
    ConstCounter::new(value).encode(metric.encode_family(&labels)?)
}

/// A label's value; the encoder writes it as it is.
fn escaped(value: &str) -> String {
    value.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n")
}
