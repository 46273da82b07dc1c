"""Write a topic's records to files that other tools read: Parquet, CSV, lines of JSON."""

import json
from collections.abc import Iterator
from typing import BinaryIO, Literal

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from headrace.arrow.read.columns import HEADERS, schema
from headrace.arrow.write.json_lines import COLUMNS, RowLine, json_lines
from headrace.model.errors import HeadraceError

ROW_GROUP_ROWS_MAX = 122_880
ROW_GROUP_BYTES_MAX = 64 << 20
"""Maximum bytes buffered for one Parquet row group: about the writer's memory use."""

FileFormat = Literal["parquet", "csv", "jsonl"]


class NotCsv(HeadraceError):
    """Records contain bytes that CSV cannot represent."""


def write_file(
    file: BinaryIO, batches: Iterator[pa.RecordBatch], form: FileFormat, topic: str,
    row_line: RowLine,
) -> int:  # fmt: skip
    """Write all records, with the columns `json_lines.COLUMNS`; return their number. Raises NotCsv.

    `row_line` as in `json_lines`.
    """
    if form == "parquet":
        return _write_parquet(file, batches)
    if form == "csv":
        return _write_csv(file, batches, topic)
    count = 0
    for batch in batches:
        file.write(json_lines(batch, topic, row_line))
        count += batch.num_rows
    return count


def _write_parquet(file: BinaryIO, batches: Iterator[pa.RecordBatch]) -> int:
    count = 0
    with pq.ParquetWriter(file, schema(COLUMNS), compression="zstd") as writer:
        for rows in _gathered(batches):
            writer.write_table(rows)
            count += rows.num_rows
    return count


def _gathered(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Yield the rows of each row group as a table."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        # Copied, as the decoder's buffers are larger than their content.
        waiting.append(pa.concat_batches([batch]))
        rows += batch.num_rows
        size += batch.nbytes
        if rows >= ROW_GROUP_ROWS_MAX or size >= ROW_GROUP_BYTES_MAX:
            yield pa.Table.from_batches(waiting)
            waiting, rows, size = [], 0, 0
    if waiting:
        yield pa.Table.from_batches(waiting)


def _write_csv(file: BinaryIO, batches: Iterator[pa.RecordBatch], topic: str) -> int:
    texts = {"key": pa.string(), "value": pa.string(), HEADERS: pa.string()}
    names = schema(COLUMNS)
    columns = pa.schema([(name, texts.get(name, names.field(name).type)) for name in COLUMNS])
    count = 0
    with pa.csv.CSVWriter(file, columns) as writer:
        for batch in batches:
            try:
                arrays = [_csv_column(batch.column(name), name, topic) for name in COLUMNS]
            except UnicodeDecodeError:
                raise NotCsv(_no_csv(topic, HEADERS)) from None
            writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=columns))
            count += batch.num_rows
    return count


def _csv_column(array: pa.Array, name: str, topic: str) -> pa.Array:
    if name == HEADERS:
        if array.null_count == len(array):
            return pa.nulls(len(array), pa.string())
        return pa.array([_headers_json(headers) for headers in array.to_pylist()], pa.string())
    if name not in ("key", "value"):
        return array
    try:
        return array.cast(pa.string())
    except pa.ArrowInvalid:
        raise NotCsv(_no_csv(topic, name)) from None


def _no_csv(topic: str, column: str) -> str:
    return (
        f"{topic}: {column} holds bytes that are no UTF-8, which CSV cannot; export --to parquet or"
        " jsonl"
    )


def _headers_json(headers: list[dict[str, bytes | str | None]] | None) -> str | None:
    """Return a row's headers as a JSON list. Raises UnicodeDecodeError."""
    if headers is None:
        return None
    texts = [
        {name: text.decode() if isinstance(text, bytes) else text for name, text in header.items()}
        for header in headers
    ]
    return json.dumps(texts, ensure_ascii=False, separators=(",", ":"))
