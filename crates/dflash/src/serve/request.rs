use std::fs;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::Path;
use std::time::Duration;

use dflash_engine::sampling::Field;
use dflash_engine::{EngineOptions, Sampling};
use dflash_server::ServerSettings;
use serde_json::{Map, Value};

use super::args::{AddressArgs, DefaultArgs, LoadArgs};
use super::{LogChoice, ServeArgs, idle};
use crate::env::Environment;
use crate::options::Options;
use crate::pair::PairChoice;
use crate::prefix::PrefixChoice;
use crate::report::{Failure, Outcome};
use crate::setting::{Names, bytes, whole_number};

/// Answers side by side at most: more would share a step into nothing.
const LARGEST_BATCH: usize = 64;
/// Far more than anybody waits for.
const LONGEST_QUEUE: usize = 4096;
/// A week.
const LONGEST_TIME: f64 = 604_800.0;
/// Keys in a file.
const MOST_KEYS: usize = 1024;

/// A valid `dflash serve`.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ServeRequest {
    /// Which models.
    pub pair: PairChoice,
    /// The shared settings.
    pub options: Options,
    /// How the engine shares its steps.
    pub engine: EngineOptions,
    /// What is kept of prompts and answers.
    pub prefix: PrefixChoice,
    /// How the server behaves.
    pub settings: ServerSettings,
    /// Names of the model; the first one stands in answers.
    pub names: Vec<String>,
    /// Chat template instead of the model's own.
    pub template: Option<String>,
    /// What is written on stderr while it runs.
    pub logs: LogChoice,
    /// What to say before anything is loaded.
    pub remarks: Vec<String>,
}

impl ServeRequest {
    /// Validates the arguments.
    ///
    /// # Errors
    /// The first setting that is wrong.
    pub fn read(args: &ServeArgs, env: &Environment) -> Outcome<Self> {
        let model = text("--model", "DFLASH_MODEL", &args.pair.model, env)?;
        let draft = text("--draft", "DFLASH_DRAFT", &args.pair.draft, env)?;
        let (settings, prefix) = (settings(args, env)?, PrefixChoice::read(&args.prefix, env)?);
        let remarks = idle::remark(args, env)?.into_iter().chain(exposed(&settings)).collect();
        Ok(Self {
            pair: PairChoice::of(model.as_deref(), draft.as_deref())?,
            options: Options::for_server(&args.pair, &args.runtime, env)?,
            engine: EngineOptions { prefix: prefix.memory(), ..engine(&args.load, env)? },
            prefix,
            names: names(&args.address)?,
            template: template(&args.defaults, env)?,
            logs: LogChoice::read(&args.logs, env)?,
            settings,
            remarks,
        })
    }
}

fn settings(args: &ServeArgs, env: &Environment) -> Outcome<ServerSettings> {
    let (defaults, load) = (&args.defaults, &args.load);
    let standard = ServerSettings::default();
    let count = |flag, var, typed: &Option<String>, default, min| {
        setting(flag, var, typed, env, default, whole_number(min))
    };
    let plain_beyond = count("--dflash-max-ctx", "DFLASH_MAX_CTX", &defaults.dflash_max_ctx, 0, 0)?;
    let timeout =
        seconds("--request-timeout", "DFLASH_REQUEST_TIMEOUT", &load.request_timeout, env, Duration::ZERO)?;
    Ok(ServerSettings {
        address: address(&args.address, env)?,
        allowed_origins: origins(&args.address, env)?,
        allowed_hosts: hosts(&args.address, env)?,
        api_keys: api_keys(&args.address, env)?,
        max_body_bytes: max_body(load, env, standard.max_body_bytes)?,
        max_tokens: count("--max-tokens", "DFLASH_MAX_TOKENS", &defaults.max_tokens, standard.max_tokens, 1)?,
        sampling: sampling(defaults, env)?,
        template_kwargs: template_args(defaults, env)?,
        fastpath_max_tokens: count(
            "--fastpath-max-tokens",
            "DFLASH_FASTPATH_MAX_TOKENS",
            &defaults.fastpath_max_tokens,
            0,
            0,
        )?,
        speculative_prompt: (plain_beyond > 0).then_some(plain_beyond),
        request_timeout: (!timeout.is_zero()).then_some(timeout),
        drain: seconds("--drain-timeout", "DFLASH_DRAIN_TIMEOUT", &load.drain_timeout, env, standard.drain)?,
        log_prompts: args.logs.log_prompts,
        ..standard
    })
}

fn engine(args: &LoadArgs, env: &Environment) -> Outcome<EngineOptions> {
    let step_rows = |text: &str| whole_number(1)(text).map(Some);
    Ok(EngineOptions {
        max_batch: setting(
            "--max-batch",
            "DFLASH_MAX_BATCH",
            &args.max_batch,
            env,
            8,
            up_to(1, LARGEST_BATCH),
        )?,
        waiting: setting("--queue", "DFLASH_QUEUE", &args.queue, env, 64, up_to(0, LONGEST_QUEUE))?,
        step_rows: setting("--step-rows", "DFLASH_STEP_ROWS", &args.step_rows, env, None, step_rows)?,
        prefix: None,
    })
}

fn address(args: &AddressArgs, env: &Environment) -> Outcome<SocketAddr> {
    let port = |text: &str| text.parse::<u16>().map_err(|_| "a port, 0 to 65535".to_owned());
    let port = setting("--port", "DFLASH_PORT", &args.port, env, 8000, port)?;
    let host = text("--host", "DFLASH_HOST", &args.host, env)?.unwrap_or_else(|| "127.0.0.1".to_owned());
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let wrong = || {
        Failure::usage(format!("invalid value '{host}' for --host"))
            .cause("--host takes an address of this machine, such as 127.0.0.1, 0.0.0.0, :: or localhost")
    };
    let found = (bare, port).to_socket_addrs().map_err(|error| wrong().cause(error))?.next();
    found.ok_or_else(wrong)
}

fn origins(args: &AddressArgs, env: &Environment) -> Outcome<Vec<String>> {
    let names = Names::new("--allowed-origins", "DFLASH_ALLOWED_ORIGINS");
    let parse = |text: &str| match list(text) {
        origins if origins.is_empty() || !origins.iter().all(|origin| is_origin(origin)) => {
            Err("`*` or origins such as https://chat.example:8443, separated by commas".to_owned())
        }
        origins => Ok(origins),
    };
    let everybody = vec!["*".to_owned()];
    Ok(names.resolve(args.allowed_origins.as_deref(), env, everybody, parse)?.value)
}

/// Scheme, host and port, and no path; `null` is what local files and sandboxes send.
fn is_origin(text: &str) -> bool {
    let host = text.split_once("://").map(|(_, rest)| rest);
    text == "*" || text == "null" || host.is_some_and(|host| !host.is_empty() && !host.contains('/'))
}

fn hosts(args: &AddressArgs, env: &Environment) -> Outcome<Vec<String>> {
    let names = Names::new("--allowed-hosts", "DFLASH_ALLOWED_HOSTS");
    Ok(names.resolve(args.allowed_hosts.as_deref(), env, Vec::new(), |text| Ok(list(text)))?.value)
}

fn list(text: &str) -> Vec<String> {
    text.split(',')
        .map(|item| item.trim().trim_end_matches('/'))
        .filter(|item| !item.is_empty())
        .map(str::to_owned)
        .collect()
}

fn api_keys(args: &AddressArgs, env: &Environment) -> Outcome<Vec<String>> {
    let mut keys: Vec<String> =
        text("--api-key", "DFLASH_API_KEY", &args.api_key, env)?.into_iter().collect();
    if keys.iter().any(|key| !is_key(key)) {
        return Err(Failure::usage("invalid value for --api-key").cause("a key is ASCII without blanks"));
    }
    let path = args.api_key_file.clone().or_else(|| env.path("DFLASH_API_KEY_FILE"));
    if let Some(path) = path {
        keys.extend(keys_of(&path)?);
    }
    Ok(keys)
}

fn keys_of(path: &Path) -> Outcome<Vec<String>> {
    let unusable =
        |why: String| Failure::usage(format!("cannot use the key file {}", path.display())).cause(why);
    let text = fs::read_to_string(path).map_err(|error| unusable(error.to_string()))?;
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    let keys: Vec<String> = lines.filter(|line| !line.is_empty()).map(str::to_owned).collect();
    match keys.iter().position(|key| !is_key(key)) {
        Some(index) => Err(unusable(format!("key {} is not ASCII without blanks", index + 1))),
        None if keys.is_empty() => Err(unusable("there is no key in it".to_owned())),
        None if keys.len() > MOST_KEYS => Err(unusable(format!("it has more than {MOST_KEYS} keys"))),
        None => Ok(keys),
    }
}

fn is_key(key: &str) -> bool {
    !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_graphic())
}

fn max_body(args: &LoadArgs, env: &Environment, default: usize) -> Outcome<usize> {
    let parse = |text: &str| match bytes(text) {
        Ok(size @ 1..) => usize::try_from(size).map_err(|_| "a size of memory".to_owned()),
        Ok(0) => Err("a size above 0".to_owned()),
        Err(takes) => Err(takes),
    };
    setting("--max-body", "DFLASH_MAX_BODY", &args.max_body, env, default, parse)
}

fn sampling(args: &DefaultArgs, env: &Environment) -> Outcome<Sampling> {
    let default = Sampling::default();
    let number = |flag, var, typed: &Option<String>, field: Field, default| {
        setting(flag, var, typed, env, default, |text| match text.parse::<f64>() {
            Ok(value) if field.accepts(value) => Ok(value),
            _ => Err(field.valid().to_owned()),
        })
    };
    Ok(Sampling {
        temperature: number("--temp", "DFLASH_TEMP", &args.temp, Field::Temperature, default.temperature)?,
        top_p: number("--top-p", "DFLASH_TOP_P", &args.top_p, Field::TopP, default.top_p)?,
        top_k: setting("--top-k", "DFLASH_TOP_K", &args.top_k, env, default.top_k, whole_number(0))?,
        min_p: number("--min-p", "DFLASH_MIN_P", &args.min_p, Field::MinP, default.min_p)?,
        ..default
    })
}

fn template_args(args: &DefaultArgs, env: &Environment) -> Outcome<Map<String, Value>> {
    let names = Names::new("--chat-template-args", "DFLASH_CHAT_TEMPLATE_ARGS");
    let parse = |text: &str| match serde_json::from_str(text) {
        Ok(Value::Object(object)) => Ok(object),
        _ => Err("a JSON object, as in {\"enable_thinking\": false}".to_owned()),
    };
    let mut variables = names.resolve(args.chat_template_args.as_deref(), env, Map::new(), parse)?.value;
    if args.enable_thinking {
        variables.insert("enable_thinking".to_owned(), Value::Bool(true));
    }
    Ok(variables)
}

fn template(args: &DefaultArgs, env: &Environment) -> Outcome<Option<String>> {
    let given = text("--chat-template", "DFLASH_CHAT_TEMPLATE", &args.chat_template, env)?;
    match given.as_deref().map(|given| (given, given.strip_prefix('@'))) {
        None => Ok(None),
        Some((inline, None)) => Ok(Some(inline.to_owned())),
        Some((_, Some(path))) => fs::read_to_string(path)
            .map(Some)
            .map_err(|error| Failure::usage(format!("cannot read the chat template {path}")).cause(error)),
    }
}

fn names(args: &AddressArgs) -> Outcome<Vec<String>> {
    match args.served_model_name.iter().any(|name| name.trim().is_empty()) {
        true => Err(Failure::usage("invalid value '' for --served-model-name")),
        false => Ok(args.served_model_name.clone()),
    }
}

/// What people should know whose server others can reach.
fn exposed(settings: &ServerSettings) -> Option<String> {
    let address = settings.address.ip();
    match (address.is_loopback(), settings.api_keys.is_empty()) {
        (true, _) => None,
        (false, false) => {
            Some(format!("warning: other machines can reach {address}: the API key goes over it unencrypted"))
        }
        (false, true) => Some(format!(
            "WARNING: other machines can reach {address}, and no API key is set: WHOEVER REACHES IT MAY USE IT\n  \
             pass --api-key or --api-key-file, or --host 127.0.0.1"
        )),
    }
}

pub(super) fn setting<T>(
    flag: &'static str,
    var: &'static str,
    typed: &Option<String>,
    env: &Environment,
    default: T,
    parse: impl Fn(&str) -> Result<T, String>,
) -> Outcome<T> {
    Ok(Names::new(flag, var).resolve(typed.as_deref(), env, default, parse)?.value)
}

fn text(
    flag: &'static str,
    var: &'static str,
    typed: &Option<String>,
    env: &Environment,
) -> Outcome<Option<String>> {
    setting(flag, var, typed, env, None, |text| Ok(Some(text.to_owned())))
}

fn seconds(
    flag: &'static str,
    var: &'static str,
    typed: &Option<String>,
    env: &Environment,
    default: Duration,
) -> Outcome<Duration> {
    setting(flag, var, typed, env, default, |text| match text.parse::<f64>() {
        Ok(seconds) if (0.0..=LONGEST_TIME).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err(format!("seconds, 0 to {LONGEST_TIME}")),
    })
}

fn up_to(min: usize, max: usize) -> impl Fn(&str) -> Result<usize, String> {
    move |text| match text.parse::<usize>() {
        Ok(value) if (min..=max).contains(&value) => Ok(value),
        _ => Err(format!("a whole number from {min} to {max}")),
    }
}
