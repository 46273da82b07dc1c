"""Which Java is taken, which columns are, and what is sent when a write begins."""

import pickle
import subprocess
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.types import (
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from headrace.spark.errors import OptionError, SourceError
from headrace.spark.sessions import java
from headrace.spark.sessions.java import Java, find_java
from headrace.spark.sink import sink
from headrace.spark.sink.sink import batch_writer, stream_writer
from headrace.spark.sink.sink_columns import SinkColumns, check_columns
from headrace.spark.sink.sink_task import SinkMessage
from headrace.spark.source.columns import chosen_columns, row_schema
from headrace.spark.source.source import HeadraceSource

# --- Java -----------------------------------------------------------------------------------------


def home(place: Path, version: str | None) -> Path:
    """A Java's home; without a version in its `release` file it has to be asked."""
    (place / "bin").mkdir(parents=True)
    program = place / "bin" / "java"
    said = version or "17.0.1"
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{said}\"' >&2\n")
    program.chmod(0o755)
    if version is not None:
        (place / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return place


@pytest.fixture
def bundled(monkeypatch: pytest.MonkeyPatch) -> Java:
    one = Java(Path("/bundled"), 21, bundled=True)
    monkeypatch.setattr(java, "_bundled_java", lambda: one)
    return one


@pytest.mark.parametrize(
    ("version", "major"), [("17.0.9", 17), ("21", 21), ("16.0.2", 16), ("1.8.0_392", 8), (None, 17)]
)
def test_a_javas_version_is_told_by_its_file_or_by_itself(
    tmp_path: Path, version: str | None, major: int
) -> None:
    assert java._major(home(tmp_path / "java", version)) == major


def test_what_is_no_java_has_no_version(tmp_path: Path) -> None:
    assert java._major(tmp_path) is None
    broken = home(tmp_path / "java", None)
    (broken / "bin" / "java").write_text("#!/bin/sh\necho nothing >&2\n")
    assert java._major(broken) is None
    (broken / "bin" / "java").chmod(0o644)
    assert java._major(broken) is None


def test_a_java_of_17_is_taken_and_an_older_one_is_not(tmp_path: Path, bundled: Java) -> None:
    old, new = home(tmp_path / "old", "16.0.2"), home(tmp_path / "new", "17")
    assert find_java({"JAVA_HOME": str(new)}) == Java(new, 17, bundled=False)
    assert find_java({"JAVA_HOME": str(old), "PATH": ""}) is bundled
    on_path = {"JAVA_HOME": str(old), "PATH": str(new / "bin")}
    assert find_java(on_path) == Java(new, 17, bundled=False)


def test_a_wish_is_followed_and_what_is_missing_is_said(
    tmp_path: Path, bundled: Java, monkeypatch: pytest.MonkeyPatch
) -> None:
    new = home(tmp_path / "new", "17")
    assert find_java({"JAVA_HOME": str(new), "HEADRACE_JAVA": "bundled"}) is bundled
    with pytest.raises(SourceError, match="Spark needs Java 17 or newer") as refusal:
        find_java({"HEADRACE_JAVA": "system", "PATH": ""})
    assert "pip install" not in str(refusal.value)
    with pytest.raises(SourceError, match="'mine' is neither bundled nor system"):
        find_java({"HEADRACE_JAVA": "mine"})
    monkeypatch.setattr(java, "_bundled_java", lambda: None)
    with pytest.raises(SourceError, match="pip install"):
        find_java({"PATH": ""})


@pytest.mark.parametrize(("major", "count"), [(17, 0), (23, 0), (24, 2), (25, 2)])
def test_only_newer_javas_are_told_to_be_quiet(major: int, count: int) -> None:
    assert len(Java(Path("/j"), major, bundled=False).quiet_options()) == count


def test_arguments_that_the_bundled_java_lacks_are_left_out(tmp_path: Path) -> None:
    real = tmp_path / "real"
    (real / "bin").mkdir(parents=True)
    (real / "lib").mkdir()
    program = real / "bin" / "java"
    program.write_text('#!/bin/sh\nfor each in "$@"; do echo "$each"; done\n')
    program.chmod(0o755)
    (real / "bin" / "javac").write_text("")
    made = tmp_path / "made"
    made.mkdir()
    for _ in range(2):
        java._make_home(made, real)
    given = ["-a b", "--add-modules=jdk.incubator.vector", "", "--add-modules=other", "'"]
    told = subprocess.run(
        [made / "bin" / "java", *given], capture_output=True, text=True, check=True
    )
    assert told.stdout.splitlines() == ["-a b", "", "--add-modules=other", "'"]
    assert (made / "lib").readlink() == real / "lib"
    assert (made / "bin" / "javac").readlink() == real / "bin" / "javac"
    (real / "lib").rename(real / "other")
    assert sorted(path.name for path in made.iterdir()) == ["bin", "lib"]


# --- columns --------------------------------------------------------------------------------------


def test_columns_of_a_schema_are_ours_in_name_and_type() -> None:
    chosen = StructType([StructField("value", BinaryType()), StructField("offset", LongType())])
    assert chosen_columns(chosen) == (("value", "offset"), frozenset())
    names = ("timestamp", "headers")
    assert chosen_columns(row_schema(names)) == (names, frozenset({"timestamp"}))
    for wrong in (StructField("value", StringType()), StructField("other", LongType())):
        with pytest.raises(OptionError, match=f"schema: {wrong.name} .* is not one of"):
            chosen_columns(StructType([StructField("offset", LongType()), wrong]))


def test_a_column_that_may_be_null_is_not_promised_otherwise() -> None:
    for name in ("key", "value", "headers", "amqp"):
        (column,) = row_schema((name,))
        promised = StructField(name, column.dataType, nullable=False)
        with pytest.raises(OptionError, match=f"schema: {name} may be null, and is to be NOT NULL"):
            chosen_columns(StructType([promised]))


def written(**columns: Any) -> StructType:
    return StructType([StructField(name, kind) for name, kind in columns.items()])


def test_columns_that_are_written_are_the_connectors() -> None:
    every = written(
        key=StringType(), other=LongType(), value=BinaryType(), topic=StringType(),
        partition=IntegerType(), timestamp=TimestampType(),
    )  # fmt: skip
    names = ("key", "value", "topic", "partition", "timestamp")
    assert check_columns(every, None) == SinkColumns(names)
    assert check_columns(every, "t").record == ("key", "value", "partition", "timestamp")
    for wrong, text in (
        (written(key=StringType()), "value: there is no such column"),
        (written(value=StringType()), "topic: missing"),
        (written(value=LongType(), topic=StringType()), "value: the column is bigint"),
        (written(value=StringType(), topic=StringType(), partition=LongType()), "partition: the"),
    ):
        with pytest.raises(OptionError, match=text):
            check_columns(wrong, None)


# --- writers --------------------------------------------------------------------------------------

OPTIONS = {"kafka.bootstrap.servers": "h:1", "topic": "t", "pipeline": "p"}
VALUE = written(value=StringType())


class Driven:
    """In place of `SinkDriver`: what is asked of it."""

    told: list[Any]

    def __init__(self, options: Any) -> None:
        """Nothing is opened."""

    def __enter__(self) -> "Driven":
        return self

    def __exit__(self, *_: object) -> None:
        Driven.told.append("close")

    def begin(self) -> str:
        Driven.told.append("begin")
        return "token"

    def commit(self, messages: Any, batch: int | None) -> None:
        Driven.told.append((messages, batch))

    def abort(self, messages: Any, token: Any) -> None:
        Driven.told.append((messages, token))


@pytest.fixture
def driven(monkeypatch: pytest.MonkeyPatch) -> type[Driven]:
    Driven.told = []
    monkeypatch.setattr(sink, "SinkDriver", Driven)
    return Driven


def test_a_run_begins_once_when_its_writer_is_sent_to_the_tasks(driven: type[Driven]) -> None:
    one = batch_writer(OPTIONS, VALUE)
    assert driven.told == []
    for _ in range(2):
        sent = pickle.loads(pickle.dumps(one))
    assert driven.told == ["begin", "close"]
    assert sent._token == "token"


def test_what_is_committed_and_aborted_are_the_messages_that_came(driven: type[Driven]) -> None:
    message = SinkMessage(None, None, 0)
    check = {"checkpointLocation": "/c"}
    batch_writer(OPTIONS, VALUE).commit([message, None])
    stream_writer(OPTIONS | check, VALUE).commit([None, message], 7)
    one = batch_writer(OPTIONS, VALUE)
    pickle.dumps(one)
    one.abort([message, None])
    assert driven.told == [
        ([message], None), "close", ([message], 7), "close", "begin", "close",
        ([message], "token"), "close",
    ]  # fmt: skip


def test_who_writes_at_least_once_decides_nothing(
    driven: type[Driven], monkeypatch: pytest.MonkeyPatch
) -> None:
    knocked: list[Any] = []
    monkeypatch.setattr(sink, "knock", knocked.append)
    plain = OPTIONS | {"delivery": "at_least_once"}
    one = batch_writer(plain, VALUE)
    pickle.dumps(one)
    one.commit([])
    one.abort([])
    assert (driven.told, knocked) == ([], [])
    guarded = plain | {"kafka.security.protocol": "SASL_PLAINTEXT", "kafka.sasl.mechanism": "PLAIN"}
    guarded |= {"kafka.sasl.username": "u", "kafka.sasl.password": "p"}
    pickle.dumps(batch_writer(guarded, VALUE))
    assert len(knocked) == 1, "so that the driver says who is refused"


def test_a_topic_is_added_to_and_never_overwritten() -> None:
    source = HeadraceSource(OPTIONS)
    with pytest.raises(OptionError, match="a topic cannot be overwritten; use append"):
        source.writer(VALUE, overwrite=True)
    with pytest.raises(OptionError, match="a topic cannot be overwritten; use append or update"):
        source.streamWriter(VALUE, overwrite=True)
    read = {"kafka.bootstrap.servers": "h:1", "subscribe": "t", "columns": "offset"}
    for bound in ({"startingOffsets": "latest"}, {"endingOffsets": "earliest"}, {}):
        names = HeadraceSource(read | bound).schema().fieldNames()
        assert names == ["offset"], "a stream may start at what a batch cannot"
