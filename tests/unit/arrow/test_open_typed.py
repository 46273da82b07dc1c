"""`headrace.arrow.open` with `value_schema`: typed rows of a topic's files."""

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

import headrace.arrow
from headrace.arrow.typed.typed_rows import RefusedRecordError
from tests.support.client.open_topic import flush, poured
from tests.support.log.log import NOW_MS, World, append

TIME = datetime.fromtimestamp(NOW_MS / 1000, UTC)


@pytest.fixture
def directory(world: World, tmp_path: Path) -> Path:
    """A log directory with a sound record and one that does not fit."""
    log = world.log()
    append(log, b'{"id":1,"tags":["a"]}')
    append(log, b'{"id":"x"}')
    flush(world, log)
    return poured(world, tmp_path)


def test_typed_rows_have_fields_then_columns_of_the_record(directory: Path) -> None:
    ddl = "id BIGINT NOT NULL, tags ARRAY<STRING>, _corrupt_record STRING"
    reader = headrace.arrow.open(directory, "t", value_schema=ddl, mode="permissive")
    assert reader.schema.names == [
        "id", "tags", "_corrupt_record", "_partition", "_offset", "_timestamp",
    ]  # fmt: skip
    first, second = reader.read_all().to_pylist()
    assert (first["id"], first["tags"], first["_corrupt_record"]) == (1, ["a"], None)
    assert (first["_partition"], first["_offset"], first["_timestamp"]) == (0, 0, TIME)
    assert (second["id"], second["_corrupt_record"], second["_offset"]) == (None, '{"id":"x"}', 1)


def test_other_columns_of_the_record_are_named(directory: Path) -> None:
    reader = headrace.arrow.open(
        directory, "t", value_schema="id INT", mode="dropmalformed", columns=["topic", "value"]
    )
    assert reader.schema.field("_topic").type == pa.string()
    assert reader.read_all().to_pylist() == [
        {"id": 1, "_topic": "t", "_value": b'{"id":1,"tags":["a"]}'}
    ]


def test_a_value_that_does_not_fit_ends_the_read_by_default(directory: Path) -> None:
    reader = headrace.arrow.open(directory, "t", value_schema="id BIGINT")
    with pytest.raises(RefusedRecordError, match=r"^t-0@1: id: expected an integer"):
        reader.read_all()


def test_an_invalid_schema_or_mode_is_refused_at_once(directory: Path) -> None:
    with pytest.raises(ValueError, match=r"^value_schema: .*expected a type"):
        headrace.arrow.open(directory, "t", value_schema="id LIGHT")
    with pytest.raises(ValueError, match=r"^value_schema: _offset is a column of the record"):
        headrace.arrow.open(directory, "t", value_schema="_offset INT")
    with pytest.raises(ValueError, match="mode 'strict'"):
        headrace.arrow.open(directory, "t", value_schema="id INT", mode="strict")  # type: ignore[arg-type]
