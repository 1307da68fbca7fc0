use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::cursor::Cursor;
use crate::ModelError;
use crate::json::MAX_SIZE;

/// A value of the metadata. Integers of all widths are held as `i128`, floats as `f64`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    /// Any integer type.
    Integer(i128),
    /// Either float type.
    Float(f64),
    /// A truth value.
    Flag(bool),
    /// A string.
    Text(String),
    /// An array of integers.
    Integers(Vec<i64>),
    /// An array of floats.
    Floats(Vec<f32>),
    /// An array of truth values.
    Flags(Vec<bool>),
    /// An array of strings.
    Texts(Vec<String>),
}

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

    fn shown(&self, key: &str) -> String {
        match self.values.get(key) {
            None => "absent".into(),
            Some(Value::Integer(n)) => n.to_string(),
            Some(Value::Float(x)) => x.to_string(),
            Some(Value::Flag(flag)) => flag.to_string(),
            Some(Value::Text(text)) => format!("{:?}", text.chars().take(80).collect::<String>()),
            Some(_) => "an array".into(),
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

const TEXT: u32 = 8;
const ARRAY: u32 = 9;

fn value(cursor: &mut Cursor<'_>, kind: u32) -> Result<Value, String> {
    match kind {
        TEXT => cursor.string().map(Value::Text),
        ARRAY => array(cursor),
        _ => scalar(cursor, kind),
    }
}

fn scalar(cursor: &mut Cursor<'_>, kind: u32) -> Result<Value, String> {
    Ok(match kind {
        0 => Value::Integer(u8::from_le_bytes(cursor.array()?).into()),
        1 => Value::Integer(i8::from_le_bytes(cursor.array()?).into()),
        2 => Value::Integer(u16::from_le_bytes(cursor.array()?).into()),
        3 => Value::Integer(i16::from_le_bytes(cursor.array()?).into()),
        4 => Value::Integer(cursor.u32()?.into()),
        5 => Value::Integer(i32::from_le_bytes(cursor.array()?).into()),
        6 => Value::Float(f32::from_le_bytes(cursor.array()?).into()),
        7 => Value::Flag(flag(cursor)?),
        10 => Value::Integer(cursor.u64()?.into()),
        11 => Value::Integer(i64::from_le_bytes(cursor.array()?).into()),
        12 => Value::Float(f64::from_le_bytes(cursor.array()?)),
        _ => return Err(format!("value type {kind} is unknown")),
    })
}

fn flag(cursor: &mut Cursor<'_>) -> Result<bool, String> {
    match cursor.array::<1>()?[0] {
        0 => Ok(false),
        1 => Ok(true),
        other => Err(format!("{other} is not a truth value")),
    }
}

fn array(cursor: &mut Cursor<'_>) -> Result<Value, String> {
    let kind = cursor.u32()?;
    let least = match kind {
        0 | 1 | 7 => 1,
        2 | 3 => 2,
        4..=6 => 4,
        TEXT | 10..=12 => 8,
        _ => return Err(format!("arrays of type {kind} are not read")),
    };
    let count = cursor.count(least, "array elements")?;
    match kind {
        TEXT => (0..count).map(|_| cursor.string()).collect::<Result<_, _>>().map(Value::Texts),
        7 => (0..count).map(|_| flag(cursor)).collect::<Result<_, _>>().map(Value::Flags),
        6 | 12 => (0..count).map(|_| float(cursor, kind)).collect::<Result<_, _>>().map(Value::Floats),
        _ => (0..count).map(|_| integer(cursor, kind)).collect::<Result<_, _>>().map(Value::Integers),
    }
}

fn float(cursor: &mut Cursor<'_>, kind: u32) -> Result<f32, String> {
    match scalar(cursor, kind)? {
        Value::Float(x) => Ok(x as f32),
        _ => Err("an array mixes its types".into()),
    }
}

fn integer(cursor: &mut Cursor<'_>, kind: u32) -> Result<i64, String> {
    match scalar(cursor, kind)? {
        Value::Integer(n) => i64::try_from(n).map_err(|_| format!("{n} is out of range")),
        _ => Err("an array mixes its types".into()),
    }
}
