"""`headrace topic export`: files that other tools read, whole or not there."""

import csv
import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from headrace.cli.main import run as command
from headrace.testing import BrokerThread
from tests.broker.cli.test_query import send

AWKWARD = 'quote " back \\ line \n tab \t é ☃'


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerThread]:
    with BrokerThread() as started:
        for topic in ("t", "bytes", "control"):
            started.create_topics(topic, partitions=2)
        rows = [(b"k%d" % n, b"v%d" % n) for n in range(6)]
        send(started, "t", [*rows, (None, AWKWARD.encode()), (b"", None)])
        send(started, "t", [(b"k", b"with headers")], ("h", b"\xff"))
        send(started, "bytes", [(b"\xff", b"x")])
        send(started, "control", [(None, b"\x01\x1f\x7f")])
        yield started


@pytest.fixture(params=["brokers", "directory"])
def where(request: pytest.FixtureRequest, broker: BrokerThread) -> list[str]:
    if request.param == "brokers":
        return ["-b", broker.bootstrap]
    return ["--data", broker.directory]


def export(*words: str) -> int:
    return command(["topic", "export", *words])


@pytest.mark.parametrize("topic", ["t", "bytes", "control"])
def test_lines_of_json_are_those_of_consume(
    topic: str, broker: BrokerThread, where: list[str], tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    path = tmp_path / "out.jsonl"
    assert export(topic, "--to", "jsonl", "-o", str(path), *where) == 0
    capfd.readouterr()
    command(["consume", topic, "--json", "-o", "start", "-e", "-b", broker.bootstrap])
    consumed = capfd.readouterr().out.splitlines()
    assert sorted(path.read_text().splitlines()) == sorted(consumed)
    assert consumed


def test_parquet_has_the_bytes_and_a_directory_a_file_for_each_partition(
    where: list[str], tmp_path: Path
) -> None:
    assert export("t", "--to", "parquet", "-o", str(tmp_path), *where) == 0
    first = pq.read_table(tmp_path / "t-0.parquet").to_pylist()
    assert [row["offset"] for row in first] == [0, 1, 2, 3, 4]
    assert first[3]["value"] == AWKWARD.encode()
    assert first[4]["headers"] == [{"key": "h", "value": b"\xff"}]
    assert pq.read_table(tmp_path / "t-1.parquet").num_rows == 4
    assert sorted(path.name for path in tmp_path.iterdir()) == ["t-0.parquet", "t-1.parquet"]


def test_csv_has_text_and_refuses_bytes_without_leaving_a_file(
    where: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "out.csv"
    assert export("control", "--to", "csv", "-o", str(path), *where) == 0
    with path.open(newline="") as file:
        (row,) = csv.DictReader(file)
    assert (row["value"], row["partition"], row["key"]) == ("\x01\x1f\x7f", "0", "")
    for topic, column in (("bytes", "key"), ("t", "headers")):
        assert export(topic, "--to", "csv", "-o", str(tmp_path / "bad.csv"), *where) == 1
        assert f"{topic}: {column} holds bytes" in capfd.readouterr().err.splitlines()[-1]
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_is_there_stays_unless_it_may_go(
    where: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "out"
    path.write_text("mine")
    words = ("t", "--to", "jsonl", "-o", str(path), *where)
    assert export(*words) == 2
    assert "--overwrite" in capfd.readouterr().err
    assert path.read_text() == "mine"
    assert export(*words, "--overwrite") == 0
    assert len(path.read_text().splitlines()) == 9
    assert json.loads(path.read_text().splitlines()[0])["topic"] == "t"


def test_a_topic_nobody_has_is_named_with_what_is_like_it(
    where: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert export("byte", "--to", "csv", "-o", str(tmp_path / "x"), *where) == 4
    assert capfd.readouterr().err == "headrace: there is no topic byte; did you mean bytes?\n"
