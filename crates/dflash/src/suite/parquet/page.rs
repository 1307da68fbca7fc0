use super::thrift::{self, Thrift};
use super::{ParquetError, hybrid};

/// More than the values of any suite; a larger page is no page of one.
const LARGEST_PAGE: usize = 256 << 20;
const MOST_VALUES: usize = 1 << 24;

const DATA: i64 = 0;
const INDEX: i64 = 1;
const DICTIONARY: i64 = 2;
const DATA_V2: i64 = 3;

const PLAIN: i64 = 0;
const PLAIN_DICTIONARY: i64 = 2;
const RLE_DICTIONARY: i64 = 8;

const UNCOMPRESSED: i64 = 0;
const SNAPPY: i64 = 1;
const CODECS: [&str; 8] = ["UNCOMPRESSED", "SNAPPY", "GZIP", "LZO", "BROTLI", "LZ4", "ZSTD", "LZ4_RAW"];
const ENCODINGS: [&str; 10] = [
    "PLAIN",
    "GROUP_VAR_INT",
    "PLAIN_DICTIONARY",
    "RLE",
    "BIT_PACKED",
    "DELTA_BINARY_PACKED",
    "DELTA_LENGTH_BYTE_ARRAY",
    "DELTA_BYTE_ARRAY",
    "RLE_DICTIONARY",
    "BYTE_STREAM_SPLIT",
];

/// A value of a row; `None` where the row has nothing.
pub(super) type Cell = Option<Vec<u8>>;

/// The values of a column chunk, of which `chunk` is the metadata; `optional` says whether rows may have nothing.
pub(super) fn values(file: &[u8], chunk: &Thrift<'_>, optional: bool) -> Result<Vec<Cell>, ParquetError> {
    let codec = chunk.field(4).int().unwrap_or(UNCOMPRESSED);
    let count = chunk.field(5).size().filter(|count| *count <= MOST_VALUES).ok_or(cut())?;
    let mut rest = chunk_bytes(file, chunk)?;
    let (mut cells, mut dictionary) = (Vec::new(), Vec::new());
    while cells.len() < count {
        let (header, length) = thrift::parse_first(rest)?;
        let size = header.field(3).size().ok_or(cut())?;
        let (body, after) = rest[length..].split_at_checked(size).ok_or(cut())?;
        rest = after;
        let page = Page { header: &header, body, codec, optional };
        match header.field(1).int() {
            Some(DATA) => cells.extend(page.cells(&dictionary)?),
            Some(DATA_V2) => cells.extend(page.cells_v2(&dictionary)?),
            Some(DICTIONARY) => dictionary = page.dictionary()?,
            Some(INDEX) => {}
            _ => return Err(cut()),
        }
    }
    Ok(cells)
}

fn cut() -> ParquetError {
    ParquetError::Damaged("a page is not where it should be")
}

/// The pages of a chunk, the dictionary first.
fn chunk_bytes<'a>(file: &'a [u8], chunk: &Thrift<'_>) -> Result<&'a [u8], ParquetError> {
    let first = chunk.field(9).size().ok_or(cut())?;
    let start = chunk.field(11).size().filter(|start| *start > 0).map_or(first, |start| start.min(first));
    let size = chunk.field(7).size().ok_or(cut())?;
    start.checked_add(size).and_then(|end| file.get(start..end)).ok_or(cut())
}

struct Page<'a> {
    header: &'a Thrift<'a>,
    body: &'a [u8],
    codec: i64,
    optional: bool,
}

impl Page<'_> {
    fn dictionary(&self) -> Result<Vec<Vec<u8>>, ParquetError> {
        let count = self.header.field(7).field(1).size().ok_or(cut())?;
        plain(&self.unpacked(self.body, self.codec)?, count)
    }

    fn cells(&self, dictionary: &[Vec<u8>]) -> Result<Vec<Cell>, ParquetError> {
        let about = self.header.field(5);
        let body = self.unpacked(self.body, self.codec)?;
        let count = count(about)?;
        let (levels, body) = match self.optional {
            false => (&[][..], &body[..]),
            true => {
                let (length, rest) = body.split_first_chunk::<4>().ok_or(cut())?;
                rest.split_at_checked(u32::from_le_bytes(*length) as usize).ok_or(cut())?
            }
        };
        self.filled(levels, body, count, about.field(2), dictionary)
    }

    fn cells_v2(&self, dictionary: &[Vec<u8>]) -> Result<Vec<Cell>, ParquetError> {
        let about = self.header.field(8);
        let length = |field| about.field(field).size().ok_or(cut());
        let (_, body) = self.body.split_at_checked(length(6)?).ok_or(cut())?;
        let (levels, body) = body.split_at_checked(length(5)?).ok_or(cut())?;
        let codec = if about.field(7).bool() == Some(false) { UNCOMPRESSED } else { self.codec };
        // The levels before it are not compressed, and count in the size that is announced.
        let body = self.unpacked(body, codec)?;
        self.filled(levels, &body, count(about)?, about.field(4), dictionary)
    }

    /// Cells of which `levels` says where there is something, and `body` what.
    fn filled(
        &self,
        levels: &[u8],
        body: &[u8],
        count: usize,
        encoding: &Thrift<'_>,
        dictionary: &[Vec<u8>],
    ) -> Result<Vec<Cell>, ParquetError> {
        let levels = if self.optional { hybrid::numbers(levels, 1, count)? } else { vec![1; count] };
        let present = levels.iter().filter(|level| **level == 1).count();
        let mut values = encoded(body, present, encoding, dictionary)?.into_iter();
        Ok(levels.into_iter().map(|level| if level == 1 { values.next() } else { None }).collect())
    }

    fn unpacked(&self, bytes: &[u8], codec: i64) -> Result<Vec<u8>, ParquetError> {
        match codec {
            UNCOMPRESSED => Ok(bytes.to_vec()),
            SNAPPY => {
                let damaged = |_| ParquetError::Damaged("a page cannot be decompressed");
                if snap::raw::decompress_len(bytes).map_err(damaged)? > LARGEST_PAGE {
                    return Err(ParquetError::Damaged("a page is too large"));
                }
                snap::raw::Decoder::new().decompress_vec(bytes).map_err(damaged)
            }
            other => Err(ParquetError::Unsupported(format!("the compression {}", name(&CODECS, other)))),
        }
    }
}

fn count(about: &Thrift<'_>) -> Result<usize, ParquetError> {
    about.field(1).size().filter(|count| (1..=MOST_VALUES).contains(count)).ok_or(cut())
}

fn name(names: &[&str], number: i64) -> String {
    let known = usize::try_from(number).ok().and_then(|index| names.get(index));
    known.map_or_else(|| format!("number {number}"), |name| (*name).to_owned())
}

/// `count` values of a page.
fn encoded(
    body: &[u8],
    count: usize,
    encoding: &Thrift<'_>,
    dictionary: &[Vec<u8>],
) -> Result<Vec<Vec<u8>>, ParquetError> {
    match encoding.int() {
        Some(PLAIN) => plain(body, count),
        // A page of nothing may have no width either.
        Some(PLAIN_DICTIONARY | RLE_DICTIONARY) if count == 0 => Ok(Vec::new()),
        Some(PLAIN_DICTIONARY | RLE_DICTIONARY) => {
            let (&width, body) = body.split_first().filter(|(width, _)| **width <= 32).ok_or(cut())?;
            let numbers = hybrid::numbers(body, width.into(), count)?.into_iter();
            let values: Option<Vec<_>> = numbers.map(|number| dictionary.get(number as usize)).collect();
            let values = values.ok_or(ParquetError::Damaged("a value is not in its dictionary"))?;
            // A few bytes can name a long value any number of times.
            match values.iter().map(|value| value.len()).sum::<usize>() > LARGEST_PAGE {
                true => Err(ParquetError::Damaged("a page is too large")),
                false => Ok(values.into_iter().cloned().collect()),
            }
        }
        other => {
            let name = name(&ENCODINGS, other.unwrap_or(-1));
            Err(ParquetError::Unsupported(format!("the encoding {name}")))
        }
    }
}

/// `count` values, each after its length.
fn plain(mut bytes: &[u8], count: usize) -> Result<Vec<Vec<u8>>, ParquetError> {
    let mut next = || {
        let (length, rest) = bytes.split_first_chunk::<4>()?;
        let (value, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        bytes = rest;
        Some(value.to_vec())
    };
    (0..count).map(|_| next()).collect::<Option<_>>().ok_or(ParquetError::Damaged("a page ends too early"))
}
