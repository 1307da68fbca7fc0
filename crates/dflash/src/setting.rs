//! One resolved value and where it came from: flag, else environment, else default.

use std::fmt;

use serde::Serialize;

use crate::env::Environment;
use crate::report::{Failure, Outcome};

/// Where a value came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// The command line.
    #[serde(rename = "cli")]
    Flag,
    /// An environment variable.
    Env,
    /// Nobody chose it.
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Flag => "flag",
            Self::Env => "environment",
            Self::Default => "default",
        })
    }
}

/// A resolved value with its origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Setting<T> {
    /// The value.
    pub value: T,
    /// Where it came from.
    pub origin: Origin,
}

impl<T> Setting<T> {
    /// A value with its origin.
    pub fn new(value: T, origin: Origin) -> Self {
        Self { value, origin }
    }

    /// The same origin with another value.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Setting<U> {
        Setting::new(f(self.value), self.origin)
    }
}

/// The names under which one setting can be given.
#[derive(Debug, Clone, Copy)]
pub struct Names {
    /// The flag, with its dashes.
    pub flag: &'static str,
    /// The environment variable, if it has one.
    pub env: Option<&'static str>,
}

impl Names {
    /// A setting that has a flag and an environment variable.
    pub const fn new(flag: &'static str, env: &'static str) -> Self {
        Self { flag, env: Some(env) }
    }

    /// A setting that only has a flag.
    pub const fn flag(flag: &'static str) -> Self {
        Self { flag, env: None }
    }

    /// Resolves the setting: `typed` is the flag's text, `parse` says what a text means or what
    /// would have been right.
    pub fn resolve<T>(
        &self,
        typed: Option<&str>,
        env: &Environment,
        default: T,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Outcome<Setting<T>> {
        if let Some(text) = typed {
            return read(self.flag, text, parse).map(|value| Setting::new(value, Origin::Flag));
        }
        if let Some(name) = self.env
            && let Some(text) = env.text(name)?
        {
            return read(name, text, parse).map(|value| Setting::new(value, Origin::Env));
        }
        Ok(Setting::new(default, Origin::Default))
    }
}

fn read<T>(name: &str, text: &str, parse: impl Fn(&str) -> Result<T, String>) -> Outcome<T> {
    parse(text.trim()).map_err(|wanted| {
        Failure::usage(format!("invalid value '{text}' for {name}")).cause(format!("{name} takes {wanted}"))
    })
}

/// A parser of whole numbers that are at least `min`.
pub fn whole_number(min: usize) -> impl Fn(&str) -> Result<usize, String> {
    move |text| match text.parse::<usize>() {
        Ok(value) if value >= min => Ok(value),
        _ => Err(format!("a whole number, {min} or more")),
    }
}

/// Reads a size: a number, with `k`, `m`, `g` or `t` for powers of 1024, and `b` or `ib` behind it at will.
pub fn bytes(text: &str) -> Result<u64, String> {
    let takes = || "a size in bytes, as in 4096, 512k, 16MiB or 1.5g".to_owned();
    let lower = text.to_ascii_lowercase();
    let end = lower.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(lower.len());
    let (number, unit) = (lower[..end].parse::<f64>().map_err(|_| takes())?, lower[end..].trim());
    let power = match unit {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 1,
        "m" | "mb" | "mib" => 2,
        "g" | "gb" | "gib" => 3,
        "t" | "tb" | "tib" => 4,
        _ => return Err(takes()),
    };
    let size = number * 1024_f64.powi(power);
    // Beyond 2^53 there is no memory, and floats cease to count.
    if size <= 9_007_199_254_740_992.0 { Ok(size as u64) } else { Err(takes()) }
}

/// Reads a boolean as environment variables spell it.
pub fn boolean(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "1" | "true" | "yes" | "on" => Ok(true),
        "0" | "false" | "no" | "off" => Ok(false),
        _ => Err("1 or 0, true or false, yes or no, on or off".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn booleans_in_every_spelling() {
        for text in ["1", "true", "YES", "On"] {
            assert_eq!(boolean(text), Ok(true), "{text}");
        }
        for text in ["0", "False", "no", "OFF"] {
            assert_eq!(boolean(text), Ok(false), "{text}");
        }
        assert!(boolean("2").is_err());
    }

    #[test]
    fn sizes_in_powers_of_1024() {
        for (text, size) in [
            ("0", 0),
            ("10b", 10),
            ("1k", 1 << 10),
            ("16MiB", 16 << 20),
            ("1.5 g", 3 << 29),
            ("2TB", 2 << 40),
        ] {
            assert_eq!(bytes(text), Ok(size), "{text}");
        }
        for text in ["", "x", "-1", "1e3", "1kk", "1.2.3", "k", "nan", "999999999t"] {
            assert!(bytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn numbers_below_the_minimum_are_refused() {
        assert_eq!(whole_number(1)("1"), Ok(1));
        for text in ["0", "-1", "1.5", "x", "", "99999999999999999999999"] {
            assert!(whole_number(1)(text).is_err(), "{text}");
        }
    }
}
