"""`hp.unique` and `hp.fresh` in runs, in tests of a project, and in `validate`."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headrace.pipeline.given.given_run import GivenRun
from headrace.pipeline.load import loaded
from headrace.pipeline.project import load_project
from headrace.pipeline.run.run_status import state_of
from headrace.pipeline.run.storage import Storage
from headrace.pipeline.validate import findings_of
from headrace.record.batch import Record
from headrace.spark.errors import CheckFailedError
from tests.spark.kit import TIME_MS, Topics
from tests.spark.pipeline.run_projects import Project, json_records
from tests.spark.pipeline.sinks import declare, ids_of

TIMED = """
@dp.table(format="delta")
@hp.unique("id")
@hp.fresh("at", "15 minutes")
def rows():
    return hp.topic("{topic}", "id BIGINT NOT NULL, at TIMESTAMP, tags ARRAY<STRING>")
"""


def test_a_repeated_key_leaves_nothing_of_the_batch(
    project: Project, sink: str, topics: Topics, topic: str
) -> None:
    """Exit 11 names check, count and places; without the check the batch is written once."""
    declare(project, sink, topic, '@hp.unique("id")\n')
    topics.append(topic, 0, json_records(0, 3))
    assert project.run().code == 0
    (batch,) = project.of("batch")
    assert batch["checks"]["failed"] == {"unique id": 0}
    topics.append(topic, 0, json_records(0, 4))
    assert project.run().code == 0, "keys of an earlier batch are not compared"
    topics.append(topic, 0, [*json_records(7, 2), *json_records(7, 1)])
    for _ in range(2):
        ending = project.run()
        assert ending.code == 11
        assert "check 'unique id' failed: 1 row of batch 2 (3 in all)" in ending.text
    assert sorted(ids_of(project, sink, topic)) == [0, 0, 1, 1, 2, 2, 3]
    declare(project, sink, topic, "")
    for _ in range(2):
        assert project.run().code == 0
    assert sorted(ids_of(project, sink, topic)) == [0, 0, 1, 1, 2, 2, 3, 7, 7, 8]


def timed(number: int, at: datetime) -> Record:
    return Record(0, TIME_MS, b"k", f'{{"id": {number}, "at": "{at.isoformat()}"}}'.encode())


def test_a_stale_table_is_a_warning_in_events_and_status(
    project: Project, topics: Topics, topic: str
) -> None:
    """It ends no batch; the next run knows the newest time; a newer row ends it."""
    project.write(TIMED.format(topic=topic))
    old = datetime.now(UTC) - timedelta(hours=2)
    topics.append(topic, 0, [timed(1, old - timedelta(days=1)), timed(2, old)])
    for _ in range(2):
        assert project.run().code == 0
        (stale,) = project.of("stale")
        assert (stale["flow"], stale["check"]) == ("rows", "fresh at")
        assert datetime.fromisoformat(stale["newest"]) == old
        since = old + timedelta(minutes=15)
        assert datetime.fromisoformat(stale["since"]) == since
        state = state_of(f"shop-{topic}", None, Storage(project.storage))
        assert state.flows["rows"].stale == {"fresh at": stale["since"]}
    topics.append(topic, 0, [timed(3, datetime.now(UTC))])
    assert project.run().code == 0
    kinds = [event["event"] for event in project.events if event["event"] in ("stale", "fresh")]
    assert kinds in (["stale", "fresh"], [])
    assert state_of(f"shop-{topic}", None, Storage(project.storage)).flows["rows"].stale == {}


def test_tests_of_a_project_check_keys_and_times(
    project: Project, spark: SparkSession, topic: str
) -> None:
    project.write(TIMED.format(topic=topic))
    now = datetime(2026, 11, 28, 12, tzinfo=UTC)

    def given(*batches: list[Any]) -> GivenRun:
        return GivenRun(spark, found).given(topic, *batches)

    def row(number: int, hour: int) -> dict[str, Any]:
        return {"id": number, "at": f"2026-11-28T{hour:02}:50:00Z"}

    with loaded(load_project(project.directory)) as found:
        run = given([row(1, 9), row(2, 11)], [row(1, 10)])
        assert run.rows("rows", "id") == [(1,), (2,), (1,)]
        assert run.stale("rows", now) == []
        assert run.stale("rows", now + timedelta(minutes=6)) == ["at"]
        with pytest.raises(CheckFailedError, match=r"'unique id' failed: 1 row of batch 1"):
            given([row(1, 9)], [row(2, 10), row(2, 11)]).rows("rows")


@pytest.mark.parametrize(
    ("check", "text"),
    [
        ('unique("idd")', "check 'unique idd': there is no column idd; the rows have id, at, tags"),
        ('unique("id", "tags")', "check 'unique id, tags': tags is array<string>, whose values"),
        ('fresh("id", "1 minute")', "check 'fresh id': id is bigint, and must be a timestamp"),
        ('fresh("aat", "1 minute")', "check 'fresh aat': there is no column aat"),
        ('fresh("at", "soon")', "fresh: 'at', 'soon': give a column and a time"),
        ("unique()", "unique: give the names of columns"),
        ('unique("id", "id")', "unique: a column is named twice"),
    ],
)
def test_validate_checks_columns_and_types(
    project: Project, spark: SparkSession, topic: str, check: str, text: str
) -> None:
    project.write(TIMED.format(topic=topic).replace('unique("id")', check))
    with loaded(load_project(project.directory)) as found:
        findings, _ = findings_of(spark, found)
    assert [text in finding.text for finding in findings] == [True], findings
    assert re.search(r"all\.py:\d+", str(findings[0]))


def test_views_have_no_checks_of_keys(project: Project, spark: SparkSession, topic: str) -> None:
    text = TIMED.format(topic=topic).replace('@dp.table(format="delta")', "@dp.temporary_view")
    project.write(text)
    with loaded(load_project(Path(project.directory))) as found:
        findings, _ = findings_of(spark, found)
    assert "checks belong to tables and sinks, not to views" in findings[0].text
