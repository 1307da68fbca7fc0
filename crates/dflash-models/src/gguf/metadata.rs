use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::cursor::Cursor;
use super::value::{Value, value};
use crate::ModelError;
use crate::json::{MAX_LAYERS, MAX_SIZE};

/// The metadata of a GGUF file with typed access. Errors name file and key.
#[derive(Debug, Clone)]
pub(crate) struct Metadata {
    path: PathBuf,
    values: BTreeMap<String, Value>,
}

impl Metadata {
    pub(super) fn read(path: &Path, cursor: &mut Cursor<'_>, count: usize) -> Result<Self, String> {
        let mut values = BTreeMap::new();
        for _ in 0..count {
            let key = cursor.string()?;
            let kind = cursor.u32()?;
            let value = value(cursor, kind).map_err(|what| format!("{what} (key {key})"))?;
            if values.insert(key.clone(), value).is_some() {
                return Err(format!("the key {key} stands there twice"));
            }
        }
        Ok(Self { path: path.to_owned(), values })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// All keys in alphabetical order.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.values.keys().map(String::as_str)
    }

    /// A value of any type.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.values.get(key)
    }

    /// The error for an absent key.
    pub fn missing(&self, key: &str) -> ModelError {
        ModelError::MissingKey { path: self.path.clone(), key: key.into() }
    }

    /// The error for a value of the wrong kind.
    pub fn bad(&self, key: &str, expected: &str) -> ModelError {
        let found = self.shown(key);
        ModelError::BadValue { path: self.path.clone(), key: key.into(), found, expected: expected.into() }
    }

    /// The error for a value whose mathematics is not implemented.
    pub fn refused(&self, key: &str, reason: &'static str) -> ModelError {
        ModelError::Refused { path: self.path.clone(), key: key.into(), value: self.shown(key), reason }
    }

    /// A value for people.
    pub fn shown(&self, key: &str) -> String {
        match self.values.get(key) {
            None => "absent".into(),
            Some(Value::Integer(n)) => n.to_string(),
            Some(Value::Float(x)) => x.to_string(),
            Some(Value::Flag(flag)) => flag.to_string(),
            Some(Value::Text(text)) => format!("{:?}", text.chars().take(80).collect::<String>()),
            Some(_) => "an array".into(),
        }
    }

    /// Whether a key holds this number; `false` counts as zero.
    pub fn is(&self, key: &str, number: f32) -> bool {
        match self.values.get(key) {
            Some(Value::Flag(flag)) => !flag && number == 0.0,
            Some(Value::Integer(n)) => *n as f32 == number,
            Some(Value::Float(x)) => *x == f64::from(number),
            _ => false,
        }
    }

    fn typed<'a, T>(
        &'a self,
        key: &str,
        expected: &str,
        of: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, ModelError> {
        self.values.get(key).map(|value| of(value).ok_or_else(|| self.bad(key, expected))).transpose()
    }

    /// A string.
    ///
    /// # Errors
    /// [`ModelError::BadValue`].
    pub fn text(&self, key: &str) -> Result<Option<&str>, ModelError> {
        self.typed(key, "a string", |value| match value {
            Value::Text(text) => Some(text.as_str()),
            _ => None,
        })
    }

    /// A truth value.
    ///
    /// # Errors
    /// [`ModelError::BadValue`].
    pub fn flag(&self, key: &str) -> Result<Option<bool>, ModelError> {
        self.typed(key, "true or false", |value| match value {
            Value::Flag(flag) => Some(*flag),
            _ => None,
        })
    }

    /// A finite float.
    ///
    /// # Errors
    /// [`ModelError::BadValue`].
    pub fn number(&self, key: &str) -> Result<Option<f32>, ModelError> {
        let finite = |x: f64| Some(x as f32).filter(|x| x.is_finite());
        self.typed(key, "a number", |value| match value {
            Value::Float(x) => finite(*x),
            Value::Integer(n) => finite(*n as f64),
            _ => None,
        })
    }

    /// An integer that fits 32 bits without sign, such as a token id.
    ///
    /// # Errors
    /// [`ModelError::BadValue`].
    pub fn id(&self, key: &str) -> Result<Option<u32>, ModelError> {
        self.typed(key, "a token id", |value| match value {
            Value::Integer(n) => u32::try_from(*n).ok(),
            _ => None,
        })
    }

    /// An integer from 0 to `max`.
    ///
    /// # Errors
    /// [`ModelError::BadValue`].
    pub fn integer(&self, key: &str, max: usize) -> Result<Option<usize>, ModelError> {
        self.typed(key, &format!("an integer from 0 to {max}"), |value| match value {
            Value::Integer(n) => usize::try_from(*n).ok().filter(|&n| n <= max),
            _ => None,
        })
    }

    /// A size: an integer from 1 to 2,097,152, or an array that holds only one such value.
    ///
    /// # Errors
    /// [`ModelError::BadValue`].
    pub fn size(&self, key: &str) -> Result<Option<usize>, ModelError> {
        let size = |n: i128| usize::try_from(n).ok().filter(|n| (1..=MAX_SIZE).contains(n));
        self.typed(key, "one size for all layers", |value| match value {
            Value::Integer(n) => size(*n),
            Value::Integers(list) => {
                let first = *list.first()?;
                list.iter().all(|&n| n == first).then(|| size(first.into())).flatten()
            }
            _ => None,
        })
    }

    /// A size that must be there.
    ///
    /// # Errors
    /// [`ModelError::MissingKey`] or [`ModelError::BadValue`].
    pub fn required_size(&self, key: &str) -> Result<usize, ModelError> {
        self.size(key)?.ok_or_else(|| self.missing(key))
    }

    /// A number of layers that must be there.
    ///
    /// # Errors
    /// [`ModelError::MissingKey`] or [`ModelError::BadValue`].
    pub fn layers(&self, key: &str) -> Result<usize, ModelError> {
        match self.required_size(key)? {
            layers if layers <= MAX_LAYERS => Ok(layers),
            _ => Err(self.bad(key, &format!("1 to {MAX_LAYERS}"))),
        }
    }

    /// What is added to a mean square before its root: a positive number that must be there.
    ///
    /// # Errors
    /// [`ModelError::MissingKey`] or [`ModelError::BadValue`].
    pub fn epsilon(&self, key: &str) -> Result<f32, ModelError> {
        match self.number(key)? {
            Some(eps) if eps > 0.0 => Ok(eps),
            Some(_) => Err(self.bad(key, "a positive number")),
            None => Err(self.missing(key)),
        }
    }

    /// An integer from 0 to 2,097,152.
    ///
    /// # Errors
    /// [`ModelError::BadValue`].
    pub fn count(&self, key: &str) -> Result<Option<usize>, ModelError> {
        self.typed(key, "a count", |value| match value {
            Value::Integer(n) => usize::try_from(*n).ok().filter(|&n| n <= MAX_SIZE),
            _ => None,
        })
    }

    /// A size for each of `layers` layers: an array, or one integer for all.
    ///
    /// # Errors
    /// [`ModelError::MissingKey`] or [`ModelError::BadValue`].
    pub fn sizes(&self, key: &str, layers: usize) -> Result<Vec<usize>, ModelError> {
        let size = |n: i64| usize::try_from(n).ok().filter(|n| (1..=MAX_SIZE).contains(n));
        match self.values.get(key) {
            Some(Value::Integers(list)) => {
                let sizes = list.iter().map(|&n| size(n)).collect::<Option<Vec<_>>>();
                let sizes = sizes.filter(|sizes| sizes.len() == layers);
                sizes.ok_or_else(|| self.bad(key, &format!("{layers} sizes, one per layer")))
            }
            _ => Ok(vec![self.required_size(key)?; layers]),
        }
    }

    /// An array of truth values.
    ///
    /// # Errors
    /// [`ModelError::BadValue`].
    pub fn flags(&self, key: &str) -> Result<Option<&[bool]>, ModelError> {
        self.typed(key, "an array of truth values", |value| match value {
            Value::Flags(list) => Some(list.as_slice()),
            _ => None,
        })
    }

    /// An array of strings.
    ///
    /// # Errors
    /// [`ModelError::BadValue`].
    pub fn texts(&self, key: &str) -> Result<Option<&[String]>, ModelError> {
        self.typed(key, "an array of strings", |value| match value {
            Value::Texts(list) => Some(list.as_slice()),
            _ => None,
        })
    }

    /// An array of integers.
    ///
    /// # Errors
    /// [`ModelError::BadValue`].
    pub fn integers(&self, key: &str) -> Result<Option<&[i64]>, ModelError> {
        self.typed(key, "an array of integers", |value| match value {
            Value::Integers(list) => Some(list.as_slice()),
            _ => None,
        })
    }

    /// An array of floats.
    ///
    /// # Errors
    /// [`ModelError::BadValue`].
    pub fn floats(&self, key: &str) -> Result<Option<&[f32]>, ModelError> {
        self.typed(key, "an array of numbers", |value| match value {
            Value::Floats(list) => Some(list.as_slice()),
            _ => None,
        })
    }
}
