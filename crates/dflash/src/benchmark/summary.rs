use std::collections::BTreeMap;

use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};

use super::answered::{Answered, positions, ratio};
use super::bench::Bench;
use super::category::Category;
use super::ceiling::Ceiling;
use super::leg::Leg;
use super::machine::Machine;
use super::manifest::extend;
use super::positions::Positions;
use super::prompt_report::PromptReport;
use super::score::{Score, scores};
use crate::generate::ids_sha256;
use crate::report::Outcome;
use crate::request::ComparisonRequest;
use crate::runtime::{DraftInfo, PairNames};

/// What `summary.json` holds.
#[derive(Debug, Clone, Serialize)]
pub struct Summary {
    /// Version of this layout.
    pub schema: u32,
    /// The models.
    pub pair: PairNames,
    /// When it began, as RFC 3339 writes it.
    pub timestamp: String,
    /// What was measured on.
    pub machine: Machine,
    /// Version of this build.
    pub dflash_version: &'static str,
    /// Kernels and threads.
    pub backend: String,
    /// What must be said beside every number.
    pub label: Option<String>,
    /// What was asked for and not measured, because it was interrupted or failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub incomplete: Option<String>,
    /// Settings.
    pub config: Value,
    /// Ways of decoding.
    pub legs: Vec<Leg>,
    /// By category, in the order of the suite.
    #[serde(serialize_with = "in_order")]
    pub categories: Vec<(String, Category)>,
    /// All prompts together.
    pub all: Category,
    /// SHA-256 of the ids of all answers together, by leg.
    pub ids_sha256: BTreeMap<Leg, String>,
    /// Every prompt.
    pub prompts: Vec<PromptReport>,
    /// Drafted ids by position.
    pub acceptance_by_position: Positions,
    /// What cycles cost here: the policy picks widths by it.
    pub costs: Vec<Cost>,
    /// Where the time of the draft's leg went.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_split_s: Option<TimeSplit>,
    /// Most memory held, in 10^9 bytes, by leg; as `process` where only that is known.
    pub peak_memory_gb: Map<String, Value>,
    /// What was read from memory while decoding, beside what the machine can read.
    pub bandwidth: Map<String, Value>,
    /// Right answers by leg, where the suite has answers.
    pub score: Option<BTreeMap<Leg, Score>>,
}

/// What a cycle costs by rows.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Cost {
    /// Rows, the staged one included.
    pub rows: usize,
    /// A pass of the target.
    pub verify_ms: f64,
    /// A block of the draft.
    pub draft_ms: Option<f64>,
}

/// Seconds of one repetition of all prompts.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TimeSplit {
    /// Drafting, and taking what was committed into the draft's context.
    pub draft: f64,
    /// Passes of the target with their choices.
    pub verify: f64,
    /// Going back to what was accepted.
    pub rollback: f64,
    /// The rest.
    pub other: f64,
}

/// What was measured besides the answers.
pub struct Surroundings {
    /// Bytes per second that this machine reads at best.
    pub bandwidth: f64,
    /// When it began.
    pub timestamp: String,
    /// Why prompts are missing.
    pub incomplete: Option<String>,
}

impl Summary {
    /// Of what was measured.
    pub fn of(
        bench: &Bench,
        request: &ComparisonRequest,
        legs: &[Leg],
        prompts: &[Answered<'_>],
        surroundings: Surroundings,
    ) -> Outcome<Self> {
        let ceiling = Ceiling::of(&bench.costs, bench.pair.decoder.options().max_width());
        let category = |prompts: &[&Answered<'_>]| Category::of(prompts, &ceiling, request.oracle);
        let by_category = by_category(prompts).into_iter();
        Ok(Self {
            schema: 1,
            pair: bench.pair.info.names(),
            timestamp: surroundings.timestamp,
            machine: Machine::here(),
            dflash_version: env!("CARGO_PKG_VERSION"),
            backend: bench.pair.info.backend.clone(),
            label: label(request),
            incomplete: surroundings.incomplete,
            config: config(bench, request),
            legs: legs.to_vec(),
            categories: by_category.map(|(name, prompts)| (name.to_owned(), category(&prompts))).collect(),
            all: category(&prompts.iter().collect::<Vec<_>>()),
            ids_sha256: legs.iter().map(|&leg| (leg, all_ids(prompts, leg))).collect(),
            prompts: prompts.iter().map(|prompt| PromptReport::of(prompt, legs)).collect(),
            acceptance_by_position: positions(prompts),
            costs: costs(&ceiling),
            time_split_s: time_split(prompts, request.repeat),
            peak_memory_gb: peak_memory(prompts, legs),
            bandwidth: bandwidth(prompts, legs, surroundings.bandwidth),
            score: scores(&bench.pair.text, prompts, legs)?,
        })
    }
}

impl Summary {
    /// 1 when a leg gave other ids.
    pub fn exit_code(&self) -> u8 {
        u8::from(self.all.identical == Some(false))
    }
}

/// What must be said beside every number of a benchmark that is not one of models alone.
pub fn label(request: &ComparisonRequest) -> Option<String> {
    request.oracle.map(|rate| format!("ORACLE {rate}: a scripted draft, not a model"))
}

fn in_order<S: Serializer>(categories: &[(String, Category)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(categories.iter().map(|(name, category)| (name, category)))
}

/// Prompts by category, in the order in which these come.
fn by_category<'a, 'b>(prompts: &'b [Answered<'a>]) -> Vec<(&'b str, Vec<&'b Answered<'a>>)> {
    let mut found: Vec<(&str, Vec<&Answered<'_>>)> = Vec::new();
    for prompt in prompts {
        let name = prompt.question.prompt.category.as_str();
        match found.iter_mut().find(|(known, _)| *known == name) {
            Some((_, prompts)) => prompts.push(prompt),
            None => found.push((name, vec![prompt])),
        }
    }
    found
}

fn config(bench: &Bench, request: &ComparisonRequest) -> Value {
    let mut config = json!(request.suite);
    let options = &request.options;
    let engine = bench.pair.decoder.options();
    let quant = match &bench.pair.info.draft {
        DraftInfo::Model { quant, .. } => Some(quant.0.to_string()),
        _ => None,
    };
    let more = json!({
        "max_tokens": request.max_tokens,
        "repeat": request.repeat,
        "cooldown_s": request.cooldown.as_secs(),
        "chat_template": request.chat_template,
        "stop_ids": request.eos,
        "oracle": request.oracle,
        "threads": bench.pair.backend.threads(),
        "verify_mode": options.verify_mode.value,
        "verify_len_cap": engine.verify_cap,
        "block_tokens": engine.block,
        "prefill_step_size": engine.prefill_chunk,
        "draft_quant": quant,
        "draft_sink_size": options.draft_sink_size.value,
        "draft_window_size": options.draft_window_size.value,
    });
    extend(&mut config, more);
    config
}

fn all_ids(prompts: &[Answered<'_>], leg: Leg) -> String {
    let answers = prompts.iter().filter_map(|prompt| prompt.first(leg));
    ids_sha256(&answers.flat_map(|decoded| decoded.ids.iter().copied()).collect::<Vec<_>>())
}

/// At the measured rows.
fn costs(ceiling: &Ceiling<'_>) -> Vec<Cost> {
    // A draft's block may be shorter than a copy.
    let measured = |curve: &dflash_engine::Curve, rows| {
        rows > 1 && curve.points().last().is_some_and(|last| rows <= last.0)
    };
    let cost = |&(rows, seconds): &(usize, f64)| Cost {
        rows,
        verify_ms: 1e3 * seconds,
        draft_ms: ceiling.draft.filter(|curve| measured(curve, rows)).map(|curve| 1e3 * curve.at(rows)),
    };
    ceiling.verify.points().iter().map(cost).collect()
}

fn time_split(prompts: &[Answered<'_>], repeat: usize) -> Option<TimeSplit> {
    let mut split = TimeSplit { draft: 0.0, verify: 0.0, rollback: 0.0, other: 0.0 };
    let mut answers = prompts.iter().flat_map(|prompt| prompt.of(Leg::Dflash)).peekable();
    answers.peek()?;
    for decoded in answers {
        let phases = &decoded.stats.phases;
        let draft = phases.draft_s + phases.observe_s;
        split.draft += draft / repeat as f64;
        split.verify += phases.verify_s / repeat as f64;
        split.rollback += phases.rollback_s / repeat as f64;
        let other = decoded.stats.decode_s - draft - phases.verify_s - phases.rollback_s;
        split.other += other.max(0.0) / repeat as f64;
    }
    Some(split)
}

fn peak_memory(prompts: &[Answered<'_>], legs: &[Leg]) -> Map<String, Value> {
    let own = prompts.iter().flat_map(|prompt| &prompt.trials).all(|trial| trial.decoded.peak_is_own);
    let peak = |leg: Leg| {
        let answers = prompts.iter().flat_map(|prompt| prompt.of(leg));
        answers.filter_map(|decoded| decoded.peak_memory_bytes).max()
    };
    let gigabytes = |bytes: u64| json!(bytes as f64 / 1e9);
    match own {
        true => legs.iter().filter_map(|&leg| Some((leg.name().to_owned(), gigabytes(peak(leg)?)))).collect(),
        false => {
            let most = legs.iter().filter_map(|&leg| peak(leg)).max();
            most.map(|bytes| ("process".to_owned(), gigabytes(bytes))).into_iter().collect()
        }
    }
}

fn bandwidth(prompts: &[Answered<'_>], legs: &[Leg], ceiling: f64) -> Map<String, Value> {
    let fraction = |leg: Leg| {
        let answers = || prompts.iter().flat_map(move |prompt| prompt.of(leg));
        let bytes: u64 = answers().map(|decoded| decoded.decode_bytes).sum();
        let seconds: f64 = answers().map(|decoded| decoded.stats.decode_s).sum();
        Some((format!("{}_fraction", leg.name()), json!(ratio(bytes as f64, seconds)? / ceiling)))
    };
    let ceiling = ("ceiling_gb_s".to_owned(), json!(ceiling / 1e9));
    [ceiling].into_iter().chain(legs.iter().filter_map(|&leg| fraction(leg))).collect()
}
