"""Comparisons that are refused, each with one error."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headrace.pipeline.diffs.compare import compare
from headrace.pipeline.diffs.table_diff import DiffError
from headrace.spark.tables.delta_parts.snapshot import snapshot_of
from headrace.spark.tables.errors import TableError
from tests.support.spark.delta_rows import SCHEMA, diff, row, table

ROWS = [row(offset) for offset in range(40)]


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"on": ("nam",)}, "on: there is no column nam in"),
        ({"ignore": frozenset({"nam"})}, "ignore: there is no column nam"),
        ({"tolerances": {"nam": 1}}, "tolerance: there is no column nam"),
        ({"tolerances": {"name": 1}}, "tolerance: name is string, not a number"),
        ({"on": ("name",), "ignore": frozenset({"name"})}, "name is not compared: it is ignored"),
        ({"ignore": frozenset(SCHEMA.names)}, "no column is left to compare"),
    ],
)
def test_settings_that_name_unfit_columns_are_refused(
    tmp_path: Path, settings: Any, text: str
) -> None:
    path = table(tmp_path / "t", ROWS)
    with pytest.raises(DiffError, match=text):
        diff(path, path, **settings)


def test_tolerance_without_a_key_is_refused(tmp_path: Path) -> None:
    before, after = table(tmp_path / "a", ROWS), table(tmp_path / "b", ROWS[1:])
    with pytest.raises(DiffError, match="tolerance: needs a key"):
        diff(before, after, keys=(), tolerances={"amount": 1})


def test_a_deleted_file_of_a_version_is_an_error(tmp_path: Path) -> None:
    path = table(tmp_path / "t", ROWS)
    before = snapshot_of(path)
    (path / before.files[0].path).unlink()
    with pytest.raises(
        TableError, match=f"version 0 cannot be read any more: {before.files[0].path}"
    ):
        compare(before, before)


def test_a_missing_table_or_version_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TableError, match="there is no Delta table at"):
        snapshot_of(tmp_path / "nothing")
    path = table(tmp_path / "t", ROWS)
    with pytest.raises(TableError, match="version 7 cannot be read"):
        snapshot_of(path, 7)


@pytest.mark.parametrize(
    ("before", "after", "name"),
    [
        (
            '"configuration":{}',
            '"configuration":{"delta.columnMapping.mode":"name"}',
            "columnMapping",
        ),
        (
            '"minReaderVersion":1,"minWriterVersion":2',
            '"minReaderVersion":3,"minWriterVersion":7,"readerFeatures":["deletionVectors"],'
            '"writerFeatures":["deletionVectors"]',
            "deletionVectors",
        ),
    ],
)
def test_tables_whose_files_have_other_rows_or_names_are_refused(
    tmp_path: Path, before: str, after: str, name: str
) -> None:
    schema = pa.schema([("_partition", pa.int32()), ("_offset", pa.int64())])
    path = table(tmp_path / "t", [{"_partition": 0, "_offset": 1}], schema=schema)
    (log,) = (path / "_delta_log").glob("*.json")
    text = log.read_text()
    assert before in text
    log.write_text(text.replace(before, after))
    with pytest.raises(TableError, match=f"the table has {name}"):
        snapshot_of(path)
