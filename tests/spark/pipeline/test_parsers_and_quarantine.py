"""`hp.parser` in runs: values that it refuses are in the quarantine, as malformed JSON is."""

from typing import Any

import pytest

from headrace.cli.main import run as command
from headrace.pipeline.project import load_project
from headrace.pipeline.replays.build import ReplayRequest, build_replay
from headrace.record.batch import Record
from tests.spark.kit import TIME_MS, Topics
from tests.spark.pipeline.run_projects import Project
from tests.spark.pipeline.sinks import ids_of
from tests.spark.sink_kit import committed_rows

FUNCTION = """
from lines import number

class Row(NamedTuple):
    id: int
    name: str | None

def parse(value):
    return number(value), None
"""
MODULE = """
from headrace import pipeline as hp

def number(value):
    {first}
    if not value.isdigit():
        raise hp.Unreadable(f"no number: {{value!r}}")
    return int(value) if value != b"13" else None
"""
TABLE = """
@dp.table(format="{format}")
{checks}def rows():
    return hp.topic("{topic}", hp.parser(parse, Row))
"""
SINK = """
dp.create_sink("copies", "headrace", {{"topic": "{topic}-copies"}})

@dp.append_flow(target="copies", name="rows")
{checks}def rows():
    return (
        hp.topic("{topic}", hp.parser(parse, Row))
        .withColumn("value", F.to_json(F.struct("id")))
    )
"""


def declare(project: Project, sink: str, topic: str, checks: str = "", first: str = "pass") -> None:
    text = SINK if sink == "topic" else TABLE
    # The workers of a session keep modules: each declaration has one of its own.
    module = f"lines{abs(hash((checks, first))) % 10**6}"
    (project.directory / f"{module}.py").write_text(MODULE.format(first=first))
    declared = FUNCTION.replace("from lines ", f"from {module} ")
    project.write(declared + text.format(format=sink, topic=topic, checks=checks))


def line(number: int, value: bytes) -> Record:
    return Record(0, TIME_MS + number, b"k%d" % number, value, [("trace", b"\xff")])


def refused(project: Project, topic: str) -> list[tuple[int, str, str, str]]:
    """Offset, reason, field and attempt of the records in the quarantine, sorted."""
    found: list[Any] = []
    for row in committed_rows(project.bootstrap, f"{topic}.quarantine"):
        own, headers = row["headers"][0], row["headers"][1:]
        added = {each["key"].removeprefix("headrace."): each["value"].decode() for each in headers}
        offset = int(added["offset"])
        assert (own["key"], own["value"]) == ("trace", b"\xff")
        assert row["key"] == b"k%d" % offset
        assert int(row["timestamp"].timestamp() * 1000) == TIME_MS + offset
        found.append((offset, added["reason"], added["field"], added["attempt"]))
    return sorted(found)


def test_a_value_that_a_parser_refuses_is_quarantined_and_replayed(
    project: Project, sink: str, topics: Topics, topic: str
) -> None:
    declare(project, sink, topic)
    values = [b"0", b"x1", b"2", b"13", b"4"]
    topics.append(topic, 0, [line(number, value) for number, value in enumerate(values)])
    assert project.run() == (0, "all records are processed")
    assert ids_of(project, sink, topic) == [0, 2, 4]
    first = [(1, "no number: b'x1'", "", "1"), (3, "id: null, but NOT NULL", "id", "1")]
    assert refused(project, topic) == first
    (batch,) = project.of("batch")
    assert (batch["records"], batch["refused"]) == (3, {topic: 2})
    assert command(["pipeline", "quarantine", "replay", topic, "-b", project.bootstrap]) == 0
    declare(project, sink, topic, first='value = value.removeprefix(b"x")')
    for _ in range(2):
        assert project.run().code == 0
        assert ids_of(project, sink, topic) == [0, 1, 2, 4]
    assert refused(project, topic) == [*first, (3, "id: null, but NOT NULL", "id", "2")]


def test_a_parsers_rows_are_checked_and_their_records_quarantined(
    project: Project, sink: str, topics: Topics, topic: str
) -> None:
    declare(project, sink, topic, '@hp.expect_or_quarantine("small", "id < 3")\n')
    topics.append(topic, 0, [line(number, b"x%d"[number != 1 :] % number) for number in range(4)])
    assert project.run().code == 0
    assert ids_of(project, sink, topic) == [0, 2]
    found = [(offset, reason) for offset, reason, *_ in refused(project, topic)]
    assert found == [(1, "no number: b'x1'"), (3, "check: small")]


@pytest.mark.parametrize("sink", ["delta"])
def test_too_many_refused_values_end_the_run_until_the_parser_is_corrected(
    project: Project, sink: str, topics: Topics, topic: str
) -> None:
    declare(project, sink, topic)
    records = [line(number, b"x%d" % number) for number in range(600)]
    topics.append(topic, 0, [*records, *(line(number, b"5") for number in range(600, 1000))])
    ending = project.run()
    assert ending.code == 11
    assert "600 of the last 1,000 records of topic" in ending.text
    assert ids_of(project, sink, topic) == []
    declare(project, sink, topic, first='value = value.removeprefix(b"x")')
    assert project.run().code == 0
    assert len(ids_of(project, sink, topic)) == 999, "13 is null"


def test_an_exception_of_a_parser_is_no_refusal(
    project: Project, topics: Topics, topic: str
) -> None:
    declare(project, "parquet", topic, first="1 / 0")
    topics.append(topic, 0, [line(0, b"1")])
    ending = project.run()
    assert ending.code == 1
    assert ending.text.startswith("rows: number (lines")
    assert f"ZeroDivisionError: division by zero, record {topic}-0@0, batch 0" in ending.text
    assert ending.text.endswith("raise hp.Unreadable in the parser")
    assert committed_rows(project.bootstrap, f"{topic}.quarantine") == []


def test_a_replay_of_days_leaves_out_what_the_parser_refuses(
    project: Project, topics: Topics, topic: str
) -> None:
    declare(project, "delta", topic)
    topics.append(topic, 0, [line(0, b"1"), line(1, b"x")])
    assert project.run().code == 0
    request = ReplayRequest(
        load_project(project.directory), project.bootstrap, {}, "rows", None, None
    )
    replayed = build_replay(request, spark=project.spark)
    assert replayed.diff is not None
    assert (replayed.diff.added, replayed.diff.gone) == (0, 0)
