"""`expect_or_quarantine` in runs: each record is in the sink or in the quarantine, once."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from headrace.cli.main import run as command
from headrace.pipeline.project import load_project
from headrace.pipeline.replays.build import ReplayRequest, build_replay
from headrace.pipeline.run.run_status import state_of
from headrace.pipeline.run.storage import Storage
from headrace.record.batch import Record
from tests.spark.kit import TIME_MS, Topics
from tests.spark.pipeline.run_projects import Project, json_records
from tests.spark.pipeline.sinks import declare, ids_of
from tests.spark.sink_kit import committed_rows

EVEN = '@hp.expect_or_quarantine("id is even", "id % 2 = 0")\n'
HEADERS = [("trace", b"\x00\xff"), ("trace", None)]


def records(*numbers: int) -> list[Record]:
    """Records whose values are no JSON that a writer would make again."""
    return [
        Record(0, TIME_MS + number, b"k%d" % number, b'{ "id":%d  }' % number, HEADERS)
        for number in numbers
    ]


def quarantined(project: Project, topic: str) -> list[dict[str, Any]]:
    return committed_rows(project.bootstrap, f"{topic}.quarantine")


def added(row: dict[str, Any]) -> dict[str, str]:
    """The headers that the quarantine has added to a record."""
    return {
        header["key"].removeprefix("headrace."): header["value"].decode()
        for header in row["headers"]
        if header["key"].startswith("headrace.")
    }


def refused(project: Project, topic: str) -> list[tuple[int, str, str]]:
    """Offset, stage and attempt of the records in the quarantine, sorted."""
    found = map(added, quarantined(project, topic))
    return sorted((int(each["offset"]), each["stage"], each["attempt"]) for each in found)


def repeat(project: Project, sink: str, batch: int) -> None:
    """Let the next run repeat a batch, as after a kill between the sink's commit and Spark's."""
    target = "copies" if sink == "topic" else "rows"
    commits = project.storage / "_checkpoints" / target / "rows" / "0" / "commits"
    for name in (str(batch), f".{batch}.crc"):
        (commits / name).unlink(missing_ok=True)


def replay(project: Project, topic: str) -> None:
    assert command(["pipeline", "quarantine", "replay", topic, "-b", project.bootstrap]) == 0


def test_records_of_rows_that_fail_are_quarantined_byte_for_byte(
    project: Project, sink: str, topics: Topics, topic: str
) -> None:
    declare(project, sink, topic, EVEN)
    topics.append(topic, 0, [*records(0, 1, 2, 3), Record(0, TIME_MS, b"bad", b"{}")])
    assert project.run() == (0, "all records are processed")
    assert ids_of(project, sink, topic) == [0, 2]
    assert refused(project, topic) == [(1, "check", "1"), (3, "check", "1"), (4, "decode", "1")]
    rows = sorted(quarantined(project, topic), key=lambda row: added(row)["offset"])
    for row, number in zip(rows[:2], (1, 3), strict=True):
        assert (row["key"], row["value"]) == (b"k%d" % number, b'{ "id":%d  }' % number)
        assert int(row["timestamp"].timestamp() * 1000) == TIME_MS + number
        own = [(header["key"], header["value"]) for header in row["headers"][:2]]
        assert own == HEADERS
        found = added(row)
        assert (found["reason"], found["field"]) == ("check: id is even", "")
        assert (found["topic"], found["partition"], found["flow"]) == (topic, "0", "rows")
    assert added(rows[0])["schema"] == added(rows[2])["schema"], "of the same columns"
    (batch,) = project.of("batch")
    assert (batch["records"], batch["refused"]) == (4, {topic: 3})
    counts = batch["checks"]
    assert (counts["rows"], counts["quarantined"], counts["dropped"]) == (4, 2, 0)
    assert counts["failed"] == {"id is even": 2}
    state = state_of("shop", None, Storage.of(load_project(project.directory))).flows["rows"]
    assert (state.refused, state.failed_checks) == (3, {"id is even": 2})
    assert list((project.storage / "_pipeline" / "spool").rglob("*.checked")) == []
    topics.append(topic, 0, records(5))
    assert project.run().code == 0, "a batch of which nothing is written"
    assert ids_of(project, sink, topic) == [0, 2]
    assert len(refused(project, topic)) == 4


def test_a_condition_changed_after_a_kill_leaves_each_record_in_one_place(
    project: Project, sink: str, topics: Topics, topic: str
) -> None:
    """Rule 2: the manifest that the sink's commit names decides, not the repeated batch's rows."""
    declare(project, sink, topic, EVEN)
    topics.append(topic, 0, records(0, 1, 2))
    assert project.run().code == 0
    repeat(project, sink, 0)
    declare(project, sink, topic, EVEN.replace("= 0", "= 1"))
    topics.append(topic, 0, records(3, 4))
    assert project.run().code == 0
    assert ids_of(project, sink, topic) == [0, 2, 3]
    assert refused(project, topic) == [(1, "check", "1"), (4, "check", "1")]


def test_a_replayed_record_is_written_once_or_is_the_next_attempt(
    project: Project, sink: str, topics: Topics, topic: str
) -> None:
    declare(project, sink, topic, EVEN)
    topics.append(topic, 0, records(0, 1, 2, 3))
    assert project.run().code == 0
    replay(project, topic)
    declare(project, sink, topic, EVEN.replace("id % 2 = 0", "id <> 1"))
    assert project.run().code == 0
    assert ids_of(project, sink, topic) == [0, 2, 3]
    assert refused(project, topic) == [(1, "check", "1"), (1, "check", "2"), (3, "check", "1")]
    again = [row for row in quarantined(project, topic) if added(row)["attempt"] == "2"]
    assert [(row["key"], row["value"]) for row in again] == [(b"k1", b'{ "id":1  }')]
    assert [header["key"] for header in again[0]["headers"][:3]] == [
        "trace", "trace", "headrace.topic",
    ]  # fmt: skip
    if sink == "parquet":
        rows = {row["id"]: row for row in project.parquet("rows")}
        assert (rows[3]["_partition"], rows[3]["_offset"]) == (0, 3)
    replay(project, topic)
    declare(project, sink, topic, "")
    for _ in range(2):
        assert project.run().code == 0
        assert ids_of(project, sink, topic) == [0, 1, 2, 3]


def test_quarantine_is_stronger_than_drop_and_weaker_than_fail(
    project: Project, sink: str, topics: Topics, topic: str
) -> None:
    """Rule 6: a failed run leaves no record of the batch in the quarantine."""
    drop = '@hp.expect_or_drop("id is small", "id < 3")\n'
    fail = '@hp.expect_or_fail("id is no 1", "id <> 1")\n'
    declare(project, sink, topic, drop + EVEN + fail)
    topics.append(topic, 0, records(0, 1, 2, 3, 4))
    ending = project.run()
    assert ending.code == 11
    assert ending.text.startswith("rows: check 'id is no 1' failed: 1 of 5 rows of batch 0")
    assert quarantined(project, topic) == []
    declare(project, sink, topic, drop + EVEN)
    assert project.run().code == 0
    assert ids_of(project, sink, topic) == [0, 2]
    assert refused(project, topic) == [(1, "check", "1"), (3, "check", "1")]
    (batch,) = project.of("batch")
    assert (batch["checks"]["dropped"], batch["checks"]["quarantined"]) == (1, 2)


@pytest.mark.parametrize("sink", ["delta"])
def test_too_many_failed_rows_end_the_run(
    project: Project, sink: str, topics: Topics, topic: str
) -> None:
    """Rule 8 with checks and malformed records together."""
    declare(project, sink, topic, '@hp.expect_or_quarantine("id is small", "id < 450")\n')
    malformed = [Record(0, TIME_MS, b"bad", b'{"id": "x"}')] * 100
    topics.append(topic, 0, [*json_records(0, 1000), *malformed])
    ending = project.run()
    assert ending.code == 11
    assert "650 of the last 1,100 records of topic" in ending.text
    assert ids_of(project, sink, topic) == []
    assert quarantined(project, topic) == []


def test_a_replay_of_days_counts_failed_rows_and_quarantines_nothing(
    project: Project, topics: Topics, topic: str
) -> None:
    day = datetime.fromtimestamp(TIME_MS / 1000, UTC).date()
    text = """
@dp.table(format="delta", partition_cols=["day(at)"])
@hp.expect_or_quarantine("id is even", "id % 2 = 0")
def rows():
    return hp.topic("{topic}", "id BIGINT NOT NULL, at TIMESTAMP")
"""
    project.write(text.format(topic=topic))
    values = [json.dumps({"id": number, "at": f"{day}T10:00:00Z"}) for number in range(4)]
    # Brokers take no record of a later hour of the day.
    midnight = int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp() * 1000)
    topics.append(topic, 0, [Record(0, midnight, None, value.encode()) for value in values])
    assert project.run().code == 0
    before = refused(project, topic)
    lines: list[str] = []
    request = ReplayRequest(
        load_project(project.directory), project.bootstrap, {}, "rows", None, None
    )
    replayed = build_replay(request, lines.append, project.spark)
    assert lines[-1] == "check 'id is even': 2 of 4 rows failed and are left out"
    assert replayed.diff is not None
    assert not replayed.diff.differs
    assert refused(project, topic) == before == [(1, "check", "1"), (3, "check", "1")]


def test_check_stage_records_are_listed_shown_and_dropped(
    project: Project, topics: Topics, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    declare(project, "parquet", topic, EVEN)
    topics.append(topic, 0, records(0, 1))
    assert project.run().code == 0

    def said(*words: str) -> str:
        capsys.readouterr()
        assert command(["pipeline", "quarantine", *words, "-b", project.bootstrap]) == 0
        return capsys.readouterr().out

    (group,) = json.loads(said("list", topic, "--json"))
    assert (group["reason"], group["records"]) == ("check: id is even", 1)
    shown = said("show", f"{topic}-0@1")
    assert shown.startswith(f"{topic}-0@1: check: id is even\n")
    assert "stage: check" in shown
    assert 'value: { "id":1  }' in shown
    assert said("drop", topic, "--reason", "id is even", "--yes") == "1 dropped of flow rows\n"
    assert json.loads(said("list", topic, "--json")) == []
