"""Values to columns: what is understood, what is kept with its reason, and heartbeats between."""

from datetime import UTC, datetime

import pyarrow as pa
import pytest

from headrace.pipeline.unreadable import Unreadable

pytest.importorskip("pyspark")

from headrace.pipeline import parse

NAMES = [*parse.PLACE.names, "word", "length", *parse.OUTCOME.names]
TIME = datetime(2026, 1, 2, tzinfo=UTC)


def words(value: bytes) -> tuple[str, int]:
    """A parser that understands texts and nothing else."""
    if not value:
        raise Unreadable("it is empty")
    try:
        text = value.decode()
    except UnicodeDecodeError:
        raise Unreadable("it is no text") from None
    return text, len(text)


def parsed(*values: bytes | None) -> pa.RecordBatch:
    """What becomes of records at offsets from 5 on."""
    count = len(values)
    batch = pa.record_batch(
        {
            "topic": pa.array(["t"] * count, pa.string()),
            "partition": pa.array([3] * count, pa.int32()),
            "offset": pa.array(range(5, 5 + count), pa.int64()),
            "timestamp": pa.array([TIME] * count, pa.timestamp("us", "UTC")),
            "value": pa.array(values, pa.binary()),
        }
    )
    return parse._parse_batch(batch, words, [pa.string(), pa.int64()], NAMES)


def test_each_record_is_one_row_understood_refused_or_a_heartbeat() -> None:
    rows = parsed(b"abc", None, b"\xff", b"").to_pylist()
    assert [(row["offset"], row["topic"], row["partition"]) for row in rows] == [
        (5, "t", 3), (6, "t", 3), (7, "t", 3), (8, "t", 3),
    ]  # fmt: skip
    assert all(row["timestamp"] == TIME for row in rows)
    assert [[row[name] for name in ("word", "length", *parse.OUTCOME.names)] for row in rows] == [
        ["abc", 3, False, None, None],
        [None, None, True, None, None],
        [None, None, False, "it is no text", b"\xff"],
        [None, None, False, "it is empty", b""],
    ]


def test_no_records_are_no_rows_of_the_same_columns() -> None:
    none = parsed()
    assert none.num_rows == 0
    assert none.schema == parsed(b"a").schema


def test_a_fault_of_the_parsers_own_is_not_taken_for_a_bad_value() -> None:
    with pytest.raises(TypeError):
        parse._parse_batch(parsed(b"a"), len, [pa.string()], NAMES)  # type: ignore[arg-type]
