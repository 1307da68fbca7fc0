//! Thrift's compact protocol, as far as Parquet's metadata uses it.

use std::collections::BTreeMap;

use super::ParquetError;

/// A value; a struct is its fields by number.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Thrift<'a> {
    Bool(bool),
    Int(i64),
    Bytes(&'a [u8]),
    List(Vec<Thrift<'a>>),
    Struct(BTreeMap<i64, Thrift<'a>>),
    /// Numbers with a fraction, which nothing here needs.
    Other,
}

/// What a field is that is not there.
const ABSENT: &Thrift<'static> = &Thrift::Other;

impl<'a> Thrift<'a> {
    /// The field of a struct.
    pub(super) fn field(&self, number: i64) -> &Thrift<'a> {
        match self {
            Self::Struct(fields) => fields.get(&number).unwrap_or(ABSENT),
            _ => ABSENT,
        }
    }

    pub(super) fn int(&self) -> Option<i64> {
        if let Self::Int(value) = self { Some(*value) } else { None }
    }

    /// A whole number that is a size or a place.
    pub(super) fn size(&self) -> Option<usize> {
        self.int().and_then(|value| value.try_into().ok())
    }

    pub(super) fn bool(&self) -> Option<bool> {
        if let Self::Bool(value) = self { Some(*value) } else { None }
    }

    pub(super) fn bytes(&self) -> Option<&'a [u8]> {
        if let Self::Bytes(value) = self { Some(value) } else { None }
    }

    /// The items of a list; none of anything else.
    pub(super) fn items(&self) -> &[Thrift<'a>] {
        if let Self::List(items) = self { items } else { &[] }
    }
}

/// The struct that `bytes` are.
pub(super) fn parse(bytes: &[u8]) -> Result<Thrift<'_>, ParquetError> {
    parse_first(bytes).map(|(value, _)| value)
}

/// The struct with which `bytes` begin, and how many of them it takes.
pub(super) fn parse_first(bytes: &[u8]) -> Result<(Thrift<'_>, usize), ParquetError> {
    let mut reader = Reader { rest: bytes };
    let value = reader.fields(DEEPEST).ok_or(ParquetError::Damaged("its metadata cannot be read"))?;
    Ok((value, bytes.len() - reader.rest.len()))
}

/// Parquet's own metadata is five deep.
const DEEPEST: usize = 16;

struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(first)
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(taken)
    }

    /// Seven bits a byte, the low ones first.
    fn number(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    /// The sign is the lowest bit.
    fn signed(&mut self) -> Option<i64> {
        let value = self.number()?;
        Some((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    fn fields(&mut self, depth: usize) -> Option<Thrift<'a>> {
        let (mut fields, mut number) = (BTreeMap::new(), 0_i64);
        loop {
            let head = self.byte()?;
            if head == 0 {
                return Some(Thrift::Struct(fields));
            }
            number = match head >> 4 {
                0 => self.signed()?,
                step => number.checked_add(step.into())?,
            };
            // The value of a field that is a boolean is its kind.
            let value = match head & 0x0f {
                1 => Thrift::Bool(true),
                2 => Thrift::Bool(false),
                kind => self.value(kind, depth)?,
            };
            fields.insert(number, value);
        }
    }

    fn value(&mut self, kind: u8, depth: usize) -> Option<Thrift<'a>> {
        let inner = depth.checked_sub(1)?;
        Some(match kind {
            1 | 2 => Thrift::Bool(self.byte()? == 1),
            3 => Thrift::Int(i64::from(self.byte()? as i8)),
            4..=6 => Thrift::Int(self.signed()?),
            7 => {
                self.take(8)?;
                Thrift::Other
            }
            8 => {
                let length = self.number()?.try_into().ok()?;
                Thrift::Bytes(self.take(length)?)
            }
            9 | 10 => self.list(inner)?,
            12 => self.fields(inner)?,
            _ => return None,
        })
    }

    fn list(&mut self, depth: usize) -> Option<Thrift<'a>> {
        let head = self.byte()?;
        let count = match head >> 4 {
            15 => self.number()?,
            count => count.into(),
        };
        // Every item takes a byte at least, so the end of the bytes ends this too.
        (0..count).map(|_| self.value(head & 0x0f, depth)).collect::<Option<_>>().map(Thrift::List)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_struct_of_every_kind() {
        // 1: 150, 2: true, 4: "ab", 5: [1, -1], 21: {}
        let bytes =
            [0x15, 0xac, 0x02, 0x11, 0x28, 0x02, b'a', b'b', 0x19, 0x25, 0x02, 0x01, 0x0c, 42, 0, 0, 9];
        let (value, length) = parse_first(&bytes).unwrap();
        assert_eq!(length, bytes.len() - 1);
        assert_eq!((value.field(1).size(), value.field(2).bool()), (Some(150), Some(true)));
        assert_eq!(value.field(4).bytes(), Some(&b"ab"[..]));
        assert_eq!(value.field(5).items(), [Thrift::Int(1), Thrift::Int(-1)]);
        assert_eq!(value.field(21), &Thrift::Struct(BTreeMap::new()));
        assert_eq!((value.field(3).int(), value.field(1).field(1).int()), (None, None));
    }

    #[test]
    fn endless_bytes_are_refused() {
        parse(&[0x1c; 100]).unwrap_err();
        parse(&[0x19, 0xf8, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01]).unwrap_err();
        parse(&[0x15, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]).unwrap_err();
        parse(&[0x18, 0x05, 1, 2]).unwrap_err();
    }
}
