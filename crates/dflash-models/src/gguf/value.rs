use super::cursor::Cursor;

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

const TEXT: u32 = 8;
const ARRAY: u32 = 9;

/// Reads a value of the type that GGUF numbers `kind`.
///
/// # Errors
/// What is wrong, for people.
pub(super) fn value(cursor: &mut Cursor<'_>, kind: u32) -> Result<Value, String> {
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
