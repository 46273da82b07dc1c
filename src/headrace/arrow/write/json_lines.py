"""Records as lines of JSON, converted a RecordBatch at a time (docs/schemas/consume.json)."""

import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headrace.arrow.read.columns import HEADERS

COLUMNS = ("key", "value", "partition", "offset", "timestamp", HEADERS)
"""The columns that a RecordBatch must have."""
_MICROS_PER_MS = 1000
_ESCAPES = (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t"))
_CONTROL = "[\x00-\x1f]"
_ESCAPED = r'[\x00-\x1f"\\]'

RowLine = Callable[[dict[str, Any]], bytes]


def json_lines(batch: pa.RecordBatch, topic: str, row_line: RowLine) -> bytes | memoryview:
    """Return a JSON line for each row.

    `row_line` converts a single row; used for batches with headers or with bytes that are not
    UTF-8, which are rare.
    """
    if not batch.num_rows:
        return b""
    try:
        key, value = string_literals(batch.column("key")), string_literals(batch.column("value"))
    except pa.ArrowInvalid:
        return b"".join(map(row_line, batch.to_pylist()))
    if batch.column(HEADERS).null_count < batch.num_rows:
        return b"".join(map(row_line, batch.to_pylist()))
    times = pc.divide(batch.column("timestamp").cast(pa.int64()), _MICROS_PER_MS)
    lines = pc.binary_join_element_wise(
        f'{{"topic":{json.dumps(topic)},"partition":',
        batch.column("partition").cast(pa.string()),
        ',"offset":',
        batch.column("offset").cast(pa.string()),
        ',"timestamp":',
        times.cast(pa.string()),
        ',"key":',
        key,
        ',"value":',
        value,
        ',"headers":[]}\n',
        "",
    )
    _, ends, data = lines.buffers()
    first, last = memoryview(ends).cast("i")[lines.offset], memoryview(ends).cast("i")[len(lines)]
    return memoryview(data)[first:last]


def string_literals(array: pa.Array) -> pa.Array:
    """Return strings, of type `binary` or `string`, as JSON literals; null as `null`.

    Raises ArrowInvalid if one of type `binary` is not UTF-8.
    """
    texts = array.cast(pa.string())
    if not pc.any(pc.match_substring_regex(texts, _ESCAPED)).as_py():
        return pc.binary_join_element_wise('"', texts, '"', "").fill_null("null")
    for plain, escaped in _ESCAPES:
        texts = pc.replace_substring(texts, plain, escaped)
    if pc.any(pc.match_substring_regex(texts, _CONTROL)).as_py():
        literals = [
            None if text is None else json.dumps(text, ensure_ascii=False)
            for text in array.cast(pa.string()).to_pylist()
        ]
        texts = pa.array(literals, pa.string())
    else:
        texts = pc.binary_join_element_wise('"', texts, '"', "")
    return texts.fill_null("null")
