//! `dflash serve`: a pair over HTTP.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use dflash_grammar::Grammars;
use dflash_server::{App, ModelFacts, ServedModel, ServerSettings};
use dflash_text::ChatFormat;

use crate::cli::ServeArgs;
use crate::env::Environment;
use crate::options::Options;
use crate::pair::PairChoice;
use crate::progress::Progress;
use crate::report::{Failure, Outcome, say};
use crate::runtime::{Runtime, RuntimeParts};

/// A validated `serve`.
pub struct ServeRequest {
    pair: PairChoice,
    options: Options,
    settings: ServerSettings,
}

impl ServeRequest {
    /// Validates the arguments.
    pub fn read(args: &ServeArgs, env: &Environment) -> Outcome<Self> {
        let host = args.host.as_deref().unwrap_or("127.0.0.1");
        let port = args.port.as_deref().unwrap_or("8000");
        let wrong = |_| Failure::usage(format!("cannot listen on {host}:{port}"));
        let address: SocketAddr = format!("{host}:{port}").parse().map_err(wrong)?;
        Ok(Self {
            pair: PairChoice::of(args.pair.model.as_deref(), args.pair.draft.as_deref())?,
            options: Options::resolve(&args.pair, &args.runtime, env)?,
            settings: ServerSettings { address, ..ServerSettings::default() },
        })
    }
}

/// Runs the command.
pub fn serve(request: &ServeRequest, env: &Environment) -> Outcome<ExitCode> {
    let runtime = Runtime::open(&request.pair, &request.options, env, Progress::of_stderr())?;
    let (model, _experience) = served(runtime, request);
    let id = model.id.clone();
    let ready = |address| say(format!("serving {id} on http://{address}/v1"));
    dflash_server::serve(App::new(model, request.settings.clone()), ready)
        .map_err(|error| Failure::from_error(&error))?;
    Ok(ExitCode::SUCCESS)
}

fn served(runtime: Runtime, request: &ServeRequest) -> (ServedModel, impl Drop) {
    let RuntimeParts { engine, text, stop_ids, info, experience } = runtime.into_parts();
    let names = info.names();
    let facts = ModelFacts {
        target: names.target,
        draft: names.draft,
        draft_quant: None,
        context: info.target.context,
        backend: info.backend,
        max_batch: 1,
        prefill_step_size: request.options.prefill_step_size.value,
    };
    let (tokenizer, template) = text.into_parts();
    let grammars = Grammars::new(&tokenizer, &stop_ids);
    let format = ChatFormat::new(&tokenizer, template, None);
    let created = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |passed| passed.as_secs());
    let model = ServedModel {
        id: "smollm2-135m".into(),
        aliases: Vec::new(),
        created,
        engine,
        tokenizer,
        format,
        grammars,
        stop_ids,
        facts,
    };
    (model, experience)
}
