use std::time::Duration;

pub const HELP: &str = "\
load [--url http://127.0.0.1:8000] [--key KEY] [--prompts FILE] [--max-tokens 64] [--json]
     [--streams 32] [--seconds 60] [--slow STREAMS] [--drop PERCENT] [--seed 1]
     [--throughput 1,2,4,8] [--rounds 5]";

/// What to do with which server.
pub struct Args {
    /// Host and port.
    pub server: String,
    pub key: Option<String>,
    pub prompts: Vec<String>,
    pub max_tokens: usize,
    pub json: bool,
    pub mode: Mode,
}

pub enum Mode {
    /// As many requests as fit into the time.
    Soak {
        streams: usize,
        time: Duration,
        /// Streams that read slowly.
        slow: usize,
        /// Percent of the requests that end in a disconnection.
        drop: u32,
        seed: u64,
    },
    /// So many streams at once, with drafting and without.
    Throughput { streams: Vec<usize>, rounds: usize },
}

impl Args {
    pub fn read(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut server = "127.0.0.1:8000".to_owned();
        let (mut key, mut prompts, mut json) = (None, super::prompts::built_in(), false);
        let (mut max_tokens, mut streams, mut seconds, mut slow, mut drop, mut seed, mut rounds) =
            (64, 32, 60, 0, 0, 1, 5);
        let mut throughput = None;
        while let Some(name) = words.next() {
            if name == "--json" {
                json = true;
                continue;
            }
            let value = words.next().ok_or_else(|| format!("{name} takes a value"))?;
            match name.as_str() {
                "--url" => server = value.trim_start_matches("http://").trim_end_matches('/').to_owned(),
                "--key" => key = Some(value),
                "--prompts" => prompts = super::prompts::of_file(&value)?,
                "--max-tokens" => max_tokens = number(&name, &value)?,
                "--streams" => streams = number(&name, &value)?,
                "--seconds" => seconds = number(&name, &value)?,
                "--slow" => slow = number(&name, &value)?,
                "--drop" => drop = number(&name, &value)?,
                "--seed" => seed = number(&name, &value)?,
                "--rounds" => rounds = number(&name, &value)?,
                "--throughput" => {
                    let all = value.split(',').map(|count| number(&name, count));
                    throughput = Some(all.collect::<Result<Vec<usize>, _>>()?);
                }
                _ => return Err(format!("unknown option {name}")),
            }
        }
        let mode = match throughput {
            Some(streams) => Mode::Throughput { streams, rounds },
            None => Mode::Soak { streams, time: Duration::from_secs(seconds), slow, drop, seed },
        };
        Ok(Self { server, key, prompts, max_tokens, json, mode })
    }
}

fn number<T: std::str::FromStr>(name: &str, value: &str) -> Result<T, String> {
    value.parse().map_err(|_| format!("{name} takes a number, not {value:?}"))
}
