//! Columns of text in Parquet files, as datasets of the Hub are stored: top-level columns, pages plain or by a
//! dictionary, raw or compressed by Snappy. What else the format has is refused by name.
//!
//! Written after the format's own description (<https://parquet.apache.org/docs/file-format/>). A general reader takes
//! longer to build than all that the Hub needs together.

mod hybrid;
mod page;
mod thrift;

use thrift::Thrift;

/// Why a column cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum ParquetError {
    /// It is no Parquet file, or not all of one.
    #[error("the file is damaged: {0}")]
    Damaged(&'static str),
    /// It uses a part of the format that is not read here.
    #[error("{0} is not supported")]
    Unsupported(String),
    /// No column is called so.
    #[error("there is no column '{0}'")]
    NoColumn(String),
    /// A row has nothing in the column.
    #[error("row {row} has no '{column}'")]
    Null {
        /// From 0.
        row: usize,
        /// The column.
        column: String,
    },
}

const MAGIC: &[u8; 4] = b"PAR1";
/// Physical type of texts.
const BYTE_ARRAY: i64 = 6;
const REQUIRED: i64 = 0;
const OPTIONAL: i64 = 1;

/// The texts of the column called `name`, by rows.
pub(super) fn texts(file: &[u8], name: &str) -> Result<Vec<String>, ParquetError> {
    let footer = thrift::parse(footer(file)?)?;
    let optional = is_optional(&footer, name)?;
    let mut rows = Vec::new();
    for group in footer.field(4).items() {
        let chunk =
            group.field(1).items().iter().map(|chunk| chunk.field(3)).find(|chunk| is_at(chunk, name));
        let chunk = chunk.ok_or_else(|| ParquetError::NoColumn(name.to_owned()))?;
        rows.extend(page::values(file, chunk, optional)?);
    }
    let texts = rows.into_iter().enumerate().map(|(row, value)| match value {
        None => Err(ParquetError::Null { row, column: name.to_owned() }),
        Some(bytes) => String::from_utf8(bytes).map_err(|_| ParquetError::Damaged("a text is not UTF-8")),
    });
    texts.collect()
}

/// The bytes of the metadata: its length stands before the final mark.
fn footer(file: &[u8]) -> Result<&[u8], ParquetError> {
    let cut = ParquetError::Damaged("it does not begin and end as a Parquet file");
    let body = file.strip_prefix(MAGIC).and_then(|rest| rest.strip_suffix(MAGIC)).ok_or(cut.clone())?;
    let (body, length) = body.split_last_chunk::<4>().ok_or(cut.clone())?;
    let start = body.len().checked_sub(u32::from_le_bytes(*length) as usize).ok_or(cut)?;
    Ok(&body[start..])
}

/// Whether a column chunk is that of the top-level column `name`.
fn is_at(chunk: &Thrift<'_>, name: &str) -> bool {
    matches!(chunk.field(3).items(), [only] if only.bytes() == Some(name.as_bytes()))
}

/// Whether rows of the column may have nothing.
fn is_optional(footer: &Thrift<'_>, name: &str) -> Result<bool, ParquetError> {
    let schema = footer.field(2).items();
    let element = top_level(schema).find(|element| element.field(4).bytes() == Some(name.as_bytes()));
    let element = element.ok_or_else(|| ParquetError::NoColumn(name.to_owned()))?;
    match (element.field(1).int(), element.field(3).int().unwrap_or(REQUIRED)) {
        (Some(BYTE_ARRAY), REQUIRED) => Ok(false),
        (Some(BYTE_ARRAY), OPTIONAL) => Ok(true),
        _ => Err(ParquetError::Unsupported(format!("a column '{name}' that is not text"))),
    }
}

/// The children of the schema's root: elements come depth first, each with the number of its own children.
fn top_level<'a>(schema: &'a [Thrift<'a>]) -> impl Iterator<Item = &'a Thrift<'a>> {
    let mut inner = 0;
    schema.iter().skip(1).filter(move |element| {
        let is_top = inner == 0;
        inner = i64::max(inner - 1, 0) + element.field(5).int().unwrap_or(0).max(0);
        is_top
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `scripts/golden/make_parquet.py` writes into every file.
    fn expected(row: usize) -> (String, String) {
        let kind = ["red", "green", "blue"][row % 3];
        (format!("Question {row}: what is {row} × {row}?"), format!("{kind}\n{}", "#".repeat(row % 7)))
    }

    macro_rules! golden {
        ($name:literal) => {
            ($name, include_bytes!(concat!("../../../tests/data/parquet/", $name, ".parquet")).as_slice())
        };
    }

    const FILES: [(&str, &[u8]); 4] =
        [golden!("snappy"), golden!("plain-v2"), golden!("required"), golden!("small-pages")];

    #[test]
    fn columns_are_those_that_were_written() {
        for (name, file) in FILES {
            let (questions, answers) = (texts(file, "question").unwrap(), texts(file, "answer").unwrap());
            let rows: Vec<_> = questions.into_iter().zip(answers).collect();
            assert_eq!(rows, (0..50).map(expected).collect::<Vec<_>>(), "{name}");
        }
    }

    #[test]
    fn other_columns_are_refused_by_name() {
        let (_, file) = FILES[0];
        assert_eq!(texts(file, "prompt"), Err(ParquetError::NoColumn("prompt".to_owned())));
        // It is a field inside of another column.
        assert_eq!(texts(file, "inner"), Err(ParquetError::NoColumn("inner".to_owned())));
        let said = |name| texts(file, name).unwrap_err().to_string();
        assert_eq!(said("number"), "a column 'number' that is not text is not supported");
        assert_eq!(said("gaps"), "row 1 has no 'gaps'");
    }

    #[test]
    fn an_unknown_compression_is_refused_by_name() {
        let (_, file) = golden!("gzip");
        assert_eq!(texts(file, "question").unwrap_err().to_string(), "the compression GZIP is not supported");
    }

    #[test]
    fn damage_is_an_error_wherever_it_is() {
        for (_, file) in FILES {
            for end in 0..file.len() {
                texts(&file[..end], "question").unwrap_err();
            }
            for at in 0..file.len() {
                let mut damaged = file.to_vec();
                damaged[at] ^= 1 << (at % 8);
                // A change of a letter is no damage that can be seen.
                let _ = texts(&damaged, "question");
            }
        }
    }
}
