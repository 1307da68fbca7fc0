use std::path::{Path, PathBuf};

use serde_json::{Map as Json, Value};

use crate::ModelError;
use crate::map::regular;

/// A JSON file.
pub struct Document {
    path: PathBuf,
    value: Value,
}

impl Document {
    /// Reads a file.
    ///
    /// # Errors
    /// [`ModelError::Io`], [`ModelError::NotAFile`] or [`ModelError::Json`].
    pub fn open(path: &Path) -> Result<Self, ModelError> {
        regular(path)?;
        let io = |source| ModelError::Io { path: path.to_owned(), source };
        Self::parse(path, &std::fs::read(path).map_err(io)?)
    }

    /// Reads a file that may be absent.
    ///
    /// # Errors
    /// As [`Document::open`], except for an absent file.
    pub fn open_optional(path: &Path) -> Result<Option<Self>, ModelError> {
        if path.exists() { Self::open(path).map(Some) } else { Ok(None) }
    }

    /// Parses the contents of `path`.
    ///
    /// # Errors
    /// [`ModelError::Json`].
    pub fn parse(path: &Path, bytes: &[u8]) -> Result<Self, ModelError> {
        let json = |source| ModelError::Json { path: path.to_owned(), source };
        Ok(Self { path: path.to_owned(), value: serde_json::from_slice(bytes).map_err(json)? })
    }

    /// The top-level object.
    ///
    /// # Errors
    /// [`ModelError::BadValue`] when it is something else.
    pub fn keys(&self) -> Result<Keys<'_>, ModelError> {
        let map = self.value.as_object().ok_or_else(|| ModelError::BadValue {
            path: self.path.clone(),
            key: "(top level)".into(),
            found: shown(&self.value),
            expected: "an object".into(),
        })?;
        Ok(Keys { path: &self.path, prefix: String::new(), map })
    }
}

/// An object of a JSON file with typed access; a `null` counts as absent. Errors name file and key.
#[derive(Clone)]
pub struct Keys<'a> {
    path: &'a Path,
    prefix: String,
    map: &'a Json<String, Value>,
}

impl<'a> Keys<'a> {
    /// The file.
    pub fn path(&self) -> &'a Path {
        self.path
    }

    /// Dotted path of a key from the top of the file.
    pub fn name(&self, key: &str) -> String {
        format!("{}{key}", self.prefix)
    }

    /// All entries.
    pub fn entries(&self) -> impl Iterator<Item = (&'a String, &'a Value)> + use<'a> {
        self.map.iter()
    }

    /// The value, unless absent or `null`.
    pub fn get(&self, key: &str) -> Option<&'a Value> {
        self.map.get(key).filter(|value| !value.is_null())
    }

    /// The error for an absent key.
    pub fn missing(&self, key: &str) -> ModelError {
        ModelError::MissingKey { path: self.path.to_owned(), key: self.name(key) }
    }

    /// The error for a value of the wrong kind.
    pub fn bad(&self, key: &str, expected: &str) -> ModelError {
        let found = self.map.get(key).map(shown).unwrap_or_else(|| "absent".into());
        ModelError::BadValue {
            path: self.path.to_owned(),
            key: self.name(key),
            found,
            expected: expected.into(),
        }
    }

    /// The error for a value whose mathematics is not implemented.
    pub fn refused(&self, key: &str, reason: &'static str) -> ModelError {
        let value = self.map.get(key).map(shown).unwrap_or_else(|| "absent".into());
        ModelError::Refused { path: self.path.to_owned(), key: self.name(key), value, reason }
    }

    /// The error for two places that disagree.
    pub fn conflict(&self, first: (String, String), second: (String, String)) -> ModelError {
        ModelError::Conflict {
            path: self.path.to_owned(),
            first: first.0,
            first_value: first.1,
            second: second.0,
            second_value: second.1,
        }
    }

    /// A nested object.
    ///
    /// # Errors
    /// [`ModelError::BadValue`].
    pub fn object(&self, key: &str) -> Result<Option<Keys<'a>>, ModelError> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let map = value.as_object().ok_or_else(|| self.bad(key, "an object"))?;
        Ok(Some(Keys { path: self.path, prefix: format!("{}.", self.name(key)), map }))
    }

    /// A string.
    ///
    /// # Errors
    /// [`ModelError::BadValue`].
    pub fn text(&self, key: &str) -> Result<Option<&'a str>, ModelError> {
        self.get(key).map(|value| value.as_str().ok_or_else(|| self.bad(key, "a string"))).transpose()
    }

    /// A truth value.
    ///
    /// # Errors
    /// [`ModelError::BadValue`].
    pub fn flag(&self, key: &str) -> Result<Option<bool>, ModelError> {
        self.get(key).map(|value| value.as_bool().ok_or_else(|| self.bad(key, "true or false"))).transpose()
    }

    /// A finite number.
    ///
    /// # Errors
    /// [`ModelError::BadValue`].
    pub fn number(&self, key: &str) -> Result<Option<f32>, ModelError> {
        let finite = |value: &Value| value.as_f64().map(|x| x as f32).filter(|x| x.is_finite());
        self.get(key).map(|value| finite(value).ok_or_else(|| self.bad(key, "a number"))).transpose()
    }

    /// A number that must be there.
    ///
    /// # Errors
    /// [`ModelError::MissingKey`] or [`ModelError::BadValue`].
    pub fn required_number(&self, key: &str) -> Result<f32, ModelError> {
        self.number(key)?.ok_or_else(|| self.missing(key))
    }

    /// A non-negative integer of at most `max`.
    ///
    /// # Errors
    /// [`ModelError::BadValue`].
    pub fn integer(&self, key: &str, max: usize) -> Result<Option<usize>, ModelError> {
        let fits = |value: &Value| usize::try_from(value.as_u64()?).ok().filter(|&n| n <= max);
        let expected = || self.bad(key, &format!("an integer from 0 to {max}"));
        self.get(key).map(|value| fits(value).ok_or_else(expected)).transpose()
    }

    /// A size: an integer from 1 to [`MAX_SIZE`].
    ///
    /// # Errors
    /// [`ModelError::BadValue`].
    pub fn size(&self, key: &str) -> Result<Option<usize>, ModelError> {
        match self.integer(key, MAX_SIZE)? {
            Some(0) => Err(self.bad(key, &format!("an integer from 1 to {MAX_SIZE}"))),
            size => Ok(size),
        }
    }

    /// What is added to a mean square before its root: a positive number that must be there.
    ///
    /// # Errors
    /// [`ModelError::MissingKey`] or [`ModelError::BadValue`].
    pub fn epsilon(&self, key: &str) -> Result<f32, ModelError> {
        match self.required_number(key)? {
            eps if eps > 0.0 => Ok(eps),
            _ => Err(self.bad(key, "a positive number")),
        }
    }

    /// `num_hidden_layers`.
    ///
    /// # Errors
    /// [`ModelError::MissingKey`] or [`ModelError::BadValue`].
    pub fn layers(&self) -> Result<usize, ModelError> {
        let key = "num_hidden_layers";
        match self.required_size(key)? {
            layers if layers <= MAX_LAYERS => Ok(layers),
            _ => Err(self.bad(key, &format!("1 to {MAX_LAYERS}"))),
        }
    }

    /// `layer_types`: of each of the layers what `kind` makes of its name. `known` says in an error which names
    /// there are.
    ///
    /// # Errors
    /// [`ModelError::BadValue`], or [`ModelError::Refused`] where `kind` does not know a name.
    pub fn layer_types<K>(
        &self,
        layers: usize,
        kind: impl Fn(&str) -> Option<K>,
        known: &'static str,
    ) -> Result<Option<Vec<K>>, ModelError> {
        let key = "layer_types";
        let Some(value) = self.get(key) else { return Ok(None) };
        let list = value.as_array().filter(|list| list.len() == layers);
        let list = list.ok_or_else(|| self.bad(key, &format!("a list of {layers} names")))?;
        let kind = |name: &Value| name.as_str().and_then(&kind).ok_or_else(|| self.refused(key, known));
        list.iter().map(kind).collect::<Result<_, _>>().map(Some)
    }

    /// A truth value that may stand in `inner` as well, where it must be the same.
    ///
    /// # Errors
    /// [`ModelError::BadValue`] or [`ModelError::Conflict`].
    pub fn same_flag(&self, inner: &Keys<'_>, key: &str) -> Result<Option<bool>, ModelError> {
        match (self.flag(key)?, inner.flag(key)?) {
            (Some(a), Some(b)) if a != b => {
                Err(self.conflict((self.name(key), a.to_string()), (inner.name(key), b.to_string())))
            }
            (a, b) => Ok(a.or(b)),
        }
    }

    /// A size that must be there.
    ///
    /// # Errors
    /// [`ModelError::MissingKey`] or [`ModelError::BadValue`].
    pub fn required_size(&self, key: &str) -> Result<usize, ModelError> {
        self.size(key)?.ok_or_else(|| self.missing(key))
    }

    /// A list of non-negative integers; a lone integer counts as a list of one.
    ///
    /// # Errors
    /// [`ModelError::BadValue`].
    pub fn ids(&self, key: &str) -> Result<Option<Vec<u32>>, ModelError> {
        let id = |value: &Value| u32::try_from(value.as_u64()?).ok();
        let ids = |value: &Value| match value {
            Value::Array(list) => list.iter().map(id).collect(),
            lone => Some(vec![id(lone)?]),
        };
        self.get(key).map(|value| ids(value).ok_or_else(|| self.bad(key, "a list of ids"))).transpose()
    }
}

/// Sizes beyond this are damage, not models; it keeps every product of three sizes within 64 bits.
pub const MAX_SIZE: usize = 1 << 21;

/// More layers than any model has: what a config says of each is held before the first tensor is read.
pub const MAX_LAYERS: usize = 1 << 10;

/// A value as it is shown in an error: short.
pub fn shown(value: &Value) -> String {
    let text = value.to_string();
    if text.chars().count() <= 80 { text } else { text.chars().take(77).chain("...".chars()).collect() }
}
