//! `dflash generate`: one prompt, streamed to standard output.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use dflash_engine::{
    Decoding, EngineError, Event, FinishReason, Phases, PolicyStats, PositionCount, Request, Stats,
};
use dflash_grammar::StopGuard;
use dflash_text::TextGuard;
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::check;
use crate::cycles;
use crate::env::Environment;
use crate::logprobs::TokenReport;
use crate::obtain::hex;
use crate::progress::{Progress, Step};
use crate::report::{Failure, Outcome, say};
use crate::request::GenerateRequest;
use crate::run::{print, to_json};
use crate::runtime::Runtime;

/// One decoded answer.
#[derive(Debug, Clone)]
pub struct Answer {
    /// Its text, cut at a stop string.
    pub text: String,
    /// Its ids, a stop id included.
    pub ids: Vec<u32>,
    /// Why it ended.
    pub reason: FinishReason,
    /// What it took.
    pub stats: Stats,
    /// The seed, where tokens were drawn.
    pub seed: Option<u64>,
    /// Log-probabilities of every token, where they were asked for.
    pub logprobs: Option<Vec<TokenReport>>,
}

/// The figures of an answer as `--json` prints them.
#[derive(Debug, Clone, Serialize)]
pub struct AnswerReport {
    /// The text.
    pub text: String,
    /// Token ids.
    pub ids: Vec<u32>,
    /// `stop` or `length`.
    pub finish_reason: FinishReason,
    /// Ids of the prompt.
    pub prompt_tokens: usize,
    /// Ids delivered.
    pub completion_tokens: usize,
    /// Seconds to the first id.
    pub prefill_s: f64,
    /// Seconds from the first id to the last.
    pub decode_s: f64,
    /// Ids after the first per second.
    pub decode_tok_s: f64,
    /// Target passes after prefill.
    pub cycles: usize,
    /// Ids per cycle.
    pub tokens_per_cycle: f64,
    /// Accepted drafted ids over delivered ids.
    pub acceptance_ratio: f64,
    /// Accepted over verified drafted ids.
    pub acceptance_per_drafted: f64,
    /// Cycles by rows verified.
    pub cycles_by_width: std::collections::BTreeMap<usize, usize>,
    /// Cycles by proposer.
    pub cycles_by_proposer: std::collections::BTreeMap<&'static str, usize>,
    /// Drafted ids by their position in the block.
    pub accepted_by_position: Vec<PositionCount>,
    /// Where the time of the cycles went.
    pub phases: Phases,
    /// What the width policy did and why.
    pub policy: PolicyStats,
    /// SHA-256 of the ids as little-endian 32-bit numbers.
    pub ids_sha256: String,
    /// The seed, where tokens were drawn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Log-probabilities of every token, where they were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logprobs: Option<Vec<TokenReport>>,
}

impl Answer {
    /// The figures.
    pub fn report(&self) -> AnswerReport {
        let stats = &self.stats;
        AnswerReport {
            text: self.text.clone(),
            ids: self.ids.clone(),
            finish_reason: self.reason,
            prompt_tokens: stats.prompt_tokens,
            completion_tokens: stats.completion_tokens,
            prefill_s: stats.prefill_s,
            decode_s: stats.decode_s,
            decode_tok_s: stats.decode_tokens_per_second(),
            cycles: stats.cycles,
            tokens_per_cycle: stats.tokens_per_cycle(),
            acceptance_ratio: stats.acceptance_ratio(),
            acceptance_per_drafted: stats.acceptance_per_drafted(),
            cycles_by_width: stats.cycles_by_width.clone(),
            cycles_by_proposer: stats.cycles_by_proposer.clone(),
            accepted_by_position: stats.accepted_by_position.clone(),
            phases: stats.phases,
            policy: stats.policy,
            ids_sha256: ids_sha256(&self.ids),
            seed: self.seed,
            logprobs: self.logprobs.clone(),
        }
    }
}

/// SHA-256 of the ids as little-endian 32-bit numbers, in hexadecimal.
pub fn ids_sha256(ids: &[u32]) -> String {
    let bytes: Vec<u8> = ids.iter().flat_map(|id| id.to_le_bytes()).collect();
    hex(&Sha256::digest(bytes))
}

/// Runs the command.
pub fn generate(request: &GenerateRequest, env: &Environment) -> Outcome<ExitCode> {
    let runtime = Runtime::open(&request.pair, &request.options, env, Progress::of_stderr())?;
    let ids = prompt_ids(&runtime, request)?;
    if request.check {
        return check::check(&runtime, request, &ids);
    }
    if request.json {
        let answer = answer(&runtime, request, &ids, Decoding::Speculative, None)?;
        return print(&to_json(&answer.report())?);
    }
    let mut stdout = io::stdout().lock();
    let mut sink = |text: &str| show(&mut stdout, text);
    let answer = answer(&runtime, request, &ids, Decoding::Speculative, Some(&mut sink))?;
    if !answer.text.ends_with('\n') {
        show(&mut stdout, "\n")?;
    }
    say(summary(&answer, request.max_tokens));
    Ok(ExitCode::SUCCESS)
}

/// The prompt as the request wants it seen.
pub fn prompt_ids(runtime: &Runtime, request: &GenerateRequest) -> Outcome<Vec<u32>> {
    match request.chat_template {
        true => runtime.text().encode_chat(request.system.as_deref(), &request.prompt),
        false => runtime.text().encode_raw(&request.prompt),
    }
}

/// Takes new text; false when nobody reads any more.
type Sink<'a> = dyn FnMut(&str) -> Outcome<bool> + 'a;

/// Decodes the prompt and hands its text on as it comes. Without a sink a terminal sees how far it is.
pub fn answer(
    runtime: &Runtime,
    request: &GenerateRequest,
    prompt: &[u32],
    decoding: Decoding,
    mut sink: Option<&mut Sink<'_>>,
) -> Outcome<Answer> {
    let mut meter = Meter::new();
    let guard = match request.stop.is_empty() {
        true => None,
        false => Some(Box::new(StopGuard(runtime.text().stream(&request.stop)?)) as _),
    };
    let submission = runtime.engine().submit(Request {
        stop_ids: runtime.stop_ids().to_vec(),
        guard,
        decoding,
        sampling: request.sampling.params.clone(),
        logprobs: request.sampling.logprobs,
        ..Request::new(prompt.to_vec(), request.max_tokens)
    });
    let mut stream = runtime.text().stream(&request.stop)?;
    let (mut text, mut ids) = (String::new(), Vec::new());
    let mut logprobs = request.sampling.logprobs.map(|_| Vec::new());
    for event in submission.map_err(engine_failure)? {
        match event {
            Event::Tokens(new) => {
                new.iter().for_each(|&id| _ = stream.push(id));
                ids.extend(new);
                match &sink {
                    Some(_) => meter.hide(),
                    None => meter.show("answer", ids.len(), request.max_tokens),
                }
                if !pass_on(&mut stream, &mut text, sink.as_deref_mut())? {
                    return Err(Failure::reader_gone());
                }
            }
            Event::Finished { reason, stats } => {
                stream.finish();
                pass_on(&mut stream, &mut text, sink)?;
                return Ok(Answer { text, ids, reason, stats, seed: request.sampling.seed(), logprobs });
            }
            Event::Failed(error) => return Err(engine_failure(error)),
            Event::PrefillProgress { done, total } => meter.show("prompt", done, total),
            Event::Logprobs(new) => {
                let told = new.iter().map(|token| TokenReport::of(runtime.text(), token));
                logprobs.iter_mut().for_each(|all| all.extend(told.clone()));
            }
            Event::Admitted { .. } | Event::Cycle(_) => {}
        }
    }
    Err(Failure::new("the engine stopped in the middle of the answer"))
}

/// Says what a request that cannot be decoded needs.
pub fn engine_failure(error: EngineError) -> Failure {
    let failure = Failure::from_error(&error);
    match error {
        EngineError::PromptTooLong { .. } => {
            failure.hint("shorten the prompt, or take a model with a longer context")
        }
        EngineError::UnknownId { .. } => failure.hint(
            "the model's tokenizer has tokens that its weights lack: it may belong to another model; compare \
             tokenizer.json with vocab_size of config.json",
        ),
        EngineError::Sampling(_) => failure.hint("--logit-bias takes ids of the model's own tokens"),
        EngineError::EmptyPrompt => failure.hint("the prompt has no tokens: give more text"),
        EngineError::Backend(_) => failure.hint("`dflash doctor` loads the model and checks it"),
        _ => failure,
    }
}

fn pass_on(stream: &mut TextGuard, text: &mut String, sink: Option<&mut Sink<'_>>) -> Outcome<bool> {
    let new = stream.take_text();
    text.push_str(&new);
    sink.filter(|_| !new.is_empty()).map_or(Ok(true), |sink| sink(&new))
}

/// Progress of what takes more than a second.
struct Meter {
    began: Instant,
    step: Option<(&'static str, Step)>,
}

impl Meter {
    fn new() -> Self {
        Self { began: Instant::now(), step: None }
    }

    fn show(&mut self, label: &'static str, done: usize, total: usize) {
        if self.began.elapsed() < Duration::from_secs(1) {
            return;
        }
        if self.step.as_ref().is_none_or(|(shown, _)| *shown != label) {
            self.step = Some((label, Progress::of_stderr().token_step(label, total)));
        }
        if let Some((_, step)) = &self.step {
            step.set(done as u64);
        }
    }

    fn hide(&mut self) {
        self.step = None;
    }
}

/// Writes text at once; false when the reader has gone (`| head`).
fn show(out: &mut impl Write, text: &str) -> Outcome<bool> {
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Failure::new("cannot write to standard output").cause(error)),
    }
}

/// One line about an answer, for people: above all what it cost, and whether it was cut.
pub fn summary(answer: &Answer, max_tokens: usize) -> String {
    let stats = &answer.stats;
    let mut line =
        format!("{} tokens | {:.1} tok/s", stats.completion_tokens, stats.decode_tokens_per_second());
    if stats.drafted > 0 {
        let (ratio, per_cycle) = (100.0 * stats.acceptance_ratio(), stats.tokens_per_cycle());
        line += &format!(" | {ratio:.1}% acceptance | {per_cycle:.2} tokens per cycle");
        line += &format!(" | cycles: {}", cycles::by_proposer(&stats.cycles_by_proposer));
    }
    // Only a policy that picks widths knows what plain steps cost.
    if stats.policy.gained_s != 0.0 && stats.drafted + stats.policy.dropped_blocks > 0 {
        line += &format!(" | about {} against plain decoding", cycles::gain(stats.policy.gained_s));
    }
    if let Some(seed) = answer.seed {
        line += &format!(" | seed {seed}");
    }
    line += &format!(" | prompt {} tokens in {:.2} s", stats.prompt_tokens, stats.prefill_s);
    line + match answer.reason {
        FinishReason::Stop => "",
        FinishReason::Length if stats.completion_tokens == max_tokens => " | cut at --max-tokens",
        FinishReason::Length => " | cut where the model's context ends",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(drafted: usize, policy: PolicyStats) -> String {
        let stats = Stats {
            completion_tokens: 5,
            decode_s: 2.0,
            cycles: 3,
            drafted,
            cycles_by_proposer: [("copy", 1), ("none", 2)].into(),
            policy,
            ..Stats::default()
        };
        let (text, ids, reason) = (String::new(), Vec::new(), FinishReason::Stop);
        summary(&Answer { text, ids, reason, stats, seed: None, logprobs: None }, 9)
    }

    #[test]
    fn the_line_says_what_drafting_brought() {
        let of =
            |gained_s, dropped_blocks| PolicyStats { gained_s, dropped_blocks, ..PolicyStats::default() };
        let told = "cycles: 1 copy, 2 plain | about 0.25 s lost against plain decoding | prompt";
        assert!(line(1, of(-0.25, 0)).contains(told), "{}", line(1, of(-0.25, 0)));
        assert!(line(0, of(-0.25, 2)).contains("about 0.25 s lost"), "a dropped block cost its time");
        assert!(!line(0, of(0.25, 0)).contains("against"), "nothing was drafted");
        assert!(!line(1, PolicyStats::default()).contains("against"), "a fixed width knows no plain steps");
    }
}
