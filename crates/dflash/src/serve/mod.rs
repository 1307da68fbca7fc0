//! `dflash serve`: a pair over HTTP.

mod args;
mod banner;
pub mod idle;
mod logs;
mod names;
mod request;

use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use dflash_grammar::Grammars;
use dflash_server::metrics::Metrics;
use dflash_server::{App, Ended, ModelFacts, ServeError, ServedModel, Signal};
use dflash_text::{ChatFormat, ChatTemplate, Tokenizer};

use crate::env::Environment;
use crate::experience;
use crate::interrupt::{self, Interrupt};
use crate::options::VerifyMode;
use crate::progress::Progress;
use crate::report::{Failure, Outcome, say};
use crate::runtime::{DraftInfo, PairInfo, Runtime, RuntimeParts};
use crate::text::TextParts;

pub use args::{AddressArgs, DefaultArgs, IdleArgs, LoadArgs, LogArgs, ServeArgs};
pub use logs::LogChoice;
pub use names::ServedNames;
pub use request::ServeRequest;

/// For states that are to be written when the server has ended.
const WRITING: Duration = Duration::from_secs(10);

/// Runs the command.
///
/// # Errors
/// A pair that cannot be had, an address that is taken.
pub fn serve(request: &ServeRequest, env: &Environment) -> Outcome<ExitCode> {
    request.remarks.iter().for_each(say);
    dflash_server::logs::init(request.logs.format, request.logs.level);
    let (engine, prefix) = (request.engine, Some(&request.prefix));
    let runtime =
        Runtime::open_for(&request.pair, &request.options, engine, prefix, env, Progress::of_stderr())?;
    let (model, experience) = served(runtime, request)?;
    let banner = banner::Banner::new(&model, &request.settings);
    // From now on the server sees to signals.
    let (_, caught) = Interrupt::catch();
    let metrics = Metrics::new(request.logs.diagnostics(&model, request)?);
    let app = App::observed(model, request.settings.clone(), metrics);
    let engine = app.model.engine.end();
    let ended = dflash_server::serve(app, |address| say(banner.at(address)));
    drop(experience);
    match ended.map_err(|error| no_server(&error))? {
        // What is kept of the last answers is written.
        Ended::Drained => drop(engine.wait(WRITING)),
        Ended::Cut(signal) => {
            drop(caught);
            interrupt::end_by_signal(number(signal));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn no_server(error: &ServeError) -> Failure {
    let failure = Failure::from_error(error);
    match error {
        ServeError::Listen { .. } => failure
            .hint("pass --host with an address of this machine, and --port with a free one, or 0 for any"),
        ServeError::Start(_) => failure,
    }
}

fn number(signal: Signal) -> i32 {
    match signal {
        Signal::Interrupt => signal_hook::consts::SIGINT,
        Signal::Terminate => signal_hook::consts::SIGTERM,
    }
}

fn served(runtime: Runtime, request: &ServeRequest) -> Outcome<(ServedModel, experience::Kept)> {
    let RuntimeParts { engine, text, stop_ids, info, experience } = runtime.into_parts();
    let TextParts { tokenizer, template, tool_use } = text.into_parts();
    let chosen = chosen_template(&tokenizer, request)?;
    // A template that was chosen is for conversations with tools too.
    let tool_use = tool_use.filter(|_| chosen.is_none());
    let format = ChatFormat::new(&tokenizer, chosen.or(template), None);
    let format = tool_use.into_iter().fold(format, ChatFormat::with_tool_use);
    let ServedNames { id, aliases, others } =
        ServedNames::of(&request.names, &request.pair.model, &info.called);
    let created = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |passed| passed.as_secs());
    let model = ServedModel {
        id,
        aliases,
        created,
        engine,
        grammars: Grammars::new(&tokenizer, &stop_ids),
        format,
        facts: ModelFacts {
            vocab: info.target.vocab.min(tokenizer.vocab_len()),
            other_names: others,
            ..facts(&info, request)
        },
        tokenizer,
        stop_ids,
    };
    Ok((model, experience))
}

fn chosen_template(tokenizer: &Tokenizer, request: &ServeRequest) -> Outcome<Option<ChatTemplate>> {
    let Some(source) = &request.template else { return Ok(None) };
    ChatTemplate::new(source, tokenizer.special_tokens()).map(Some).map_err(|error| {
        Failure::from_error(&error).hint("--chat-template takes a template, or @PATH of its file")
    })
}

fn facts(info: &PairInfo, request: &ServeRequest) -> ModelFacts {
    let names = info.names();
    let draft_quant = match &info.draft {
        DraftInfo::Model { quant: (quant, source), .. } => {
            Some((quant.to_string(), source.name().to_owned()))
        }
        DraftInfo::None | DraftInfo::Ngram => None,
    };
    let drafting_off = match (&info.draft, request.options.verify_mode.value) {
        (DraftInfo::None, _) => Some("--draft none"),
        (_, VerifyMode::Off) => Some("--verify-mode off"),
        _ => None,
    };
    ModelFacts {
        target: names.target,
        draft: names.draft,
        draft_quant,
        context: info.target.context,
        draft_fallback: info.fallback.clone(),
        drafting_off: drafting_off.map(str::to_owned),
        backend: info.backend.clone(),
        max_batch: request.engine.max_batch,
        prefill_step_size: request.options.prefill_step_size.value,
        prefix: request.engine.prefix,
        ..ModelFacts::default()
    }
}
