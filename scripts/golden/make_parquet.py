"""Small Parquet files as pyarrow writes them, for the reader of datasets in crates/dflash/src/suite/parquet."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

OUT = Path(__file__).resolve().parents[2] / "crates/dflash/tests/data/parquet"
ROWS = 50


def table(nullable: bool) -> pa.Table:
    questions = [f"Question {row}: what is {row} × {row}?" for row in range(ROWS)]
    answers = [f"{['red', 'green', 'blue'][row % 3]}\n{'#' * (row % 7)}" for row in range(ROWS)]
    fields = [
        pa.field("more", pa.struct([pa.field("inner", pa.string()), pa.field("deep", pa.list_(pa.string()))])),
        pa.field("question", pa.string(), nullable=nullable),
        pa.field("number", pa.int64()),
        pa.field("answer", pa.string(), nullable=nullable),
        pa.field("gaps", pa.string()),
    ]
    more = [{"inner": "x", "deep": ["y"] * (row % 3)} for row in range(ROWS)]
    gaps = [None if row % 4 == 1 else "here" for row in range(ROWS)]
    columns = [more, questions, list(range(ROWS)), answers, gaps]
    arrays = [pa.array(values, type=field.type) for values, field in zip(columns, fields)]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def main() -> None:
    OUT.mkdir(parents=True, exist_ok=True)
    pq.write_table(table(True), OUT / "snappy.parquet", compression="snappy")
    pq.write_table(
        table(True), OUT / "plain-v2.parquet", compression="none", use_dictionary=False, data_page_version="2.0"
    )
    pq.write_table(table(False), OUT / "required.parquet", compression="snappy", data_page_version="2.0")
    pq.write_table(
        table(True), OUT / "small-pages.parquet", compression="snappy", data_page_size=64, row_group_size=20,
        write_batch_size=5, dictionary_pagesize_limit=600,
    )
    pq.write_table(table(True), OUT / "gzip.parquet", compression="gzip")


if __name__ == "__main__":
    main()
