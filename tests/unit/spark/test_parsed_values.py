"""The option `valueParser` of the source, which a run of a pipeline sets."""

import pickle
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark import SparkFiles

from headrace.arrow.typed.typed_rows import Mode
from headrace.spark.errors import OptionError
from headrace.spark.source.options import parse_options
from headrace.spark.source.parsed_values import PARSER, ParsedValues
from headrace.spark.source.source import HeadraceSource

SCHEMA = pa.schema([("id", pa.int64()), ("at", pa.timestamp("us", tz="UTC"))])
VALUES = ParsedValues("id BIGINT, at TIMESTAMP", "ab", SCHEMA, pickle.dumps("a decoder"), "z.zip")
GIVEN = {"kafka.bootstrap.servers": "a:1", "subscribe": "t", "columns": "offset,key"}
SPOOL = {"quarantineSpool": "/s", "quarantineFlow": "f", "quarantinePipeline": "p"}


def test_the_option_gives_back_the_values() -> None:
    options = parse_options({**GIVEN, **VALUES.to_option()}, streaming=False)
    assert options.typed == VALUES
    assert options.quarantine is None
    more = {"mode": "QUARANTINE", **SPOOL}
    options = parse_options({**GIVEN, **VALUES.to_option(), **more}, streaming=True)
    assert options.typed is not None
    assert options.typed.mode is Mode.QUARANTINE
    assert options.quarantine is not None
    assert options.quarantine.schema_digest == "ab", "another parser refuses other values"


def test_the_driver_knows_the_columns_without_the_function() -> None:
    option = {**VALUES.to_option()}
    source = HeadraceSource({**GIVEN, **option})
    schema = source.schema()
    assert schema.names == ["id", "at", "_offset", "_key"]
    assert all(column.nullable for column in schema), "as those of a record without a value"


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"valueSchema": "id BIGINT"}, "valueSchema: not with valueParser"),
        ({"mode": "PERMISSIVE"}, "mode: 'PERMISSIVE' is not one of"),
        ({PARSER: "{}"}, "valueParser: the text is not what"),
        ({PARSER: "x"}, "valueParser: the text is not what"),
        ({"quarantineSpool": "/s"}, "quarantineSpool: only with mode=QUARANTINE"),
    ],
)
def test_other_options_are_refused(more: dict[str, str], text: str) -> None:
    with pytest.raises(OptionError, match=text):
        parse_options({**GIVEN, **VALUES.to_option(), **more}, streaming=False)


def test_a_task_imports_the_projects_modules_from_the_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SparkFiles, "getRootDirectory", lambda: str(tmp_path))
    monkeypatch.setattr(sys, "path", list(sys.path))
    for _ in range(2):
        decoder: object = VALUES.decoder()
        assert decoder == "a decoder"
    assert sys.path.count(str(tmp_path / "z.zip")) == 1
