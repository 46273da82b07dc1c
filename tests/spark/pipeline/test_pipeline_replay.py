"""Replays of declared flows on Spark: days computed again beside their table (rules 17, 19, 20)."""

import dataclasses
import json
import time
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from headrace.model.nouns import TopicPartition
from headrace.pipeline.declarations import DeclarationError
from headrace.pipeline.project import load_project
from headrace.pipeline.replays.build import ReplayRequest, build_replay
from headrace.pipeline.replays.replay import (
    Replay,
    ReplayError,
    ReplayFailedError,
    ReplayRangeError,
    ReplayState,
    UnknownTableFlowError,
)
from headrace.pipeline.replays.replay_store import ReplayStore
from headrace.pipeline.replays.steps import apply_replay, undo_replay
from headrace.pipeline.replays.topic_ranges import RecordsLostError
from headrace.record.batch import Record
from tests.spark.kit import TIME_MS, Topics
from tests.spark.pipeline.run_projects import Project, make_project
from tests.spark.sink_kit import committed_rows

TODAY = datetime.fromtimestamp(TIME_MS / 1000, UTC).date()
DAYS = [TODAY - timedelta(days=back) for back in (3, 2, 1)]
ORDERS = """
@dp.table(format="delta", partition_cols=["day(at)"])
def orders():
    rows = hp.topic("{topic}", "id BIGINT NOT NULL, amount DOUBLE, at TIMESTAMP")
    return rows.withColumn("amount", F.col("amount") * {factor})
"""
WINDOWS = """
@dp.table(format="delta", partition_cols=["day(start)"])
def counts():
    rows = hp.topic("{topic}", "id BIGINT NOT NULL, at TIMESTAMP", event_time="at",
                    watermark="1 hour")
    return rows.groupBy(F.window("at", "30 minutes")).agg(F.count("*").alias("n")).select(
        F.col("window.start").alias("start"), "n")
"""


def order(number: int, day: date, hour: float = 12, **more: object) -> Record:
    """An order of this day and hour, whose record was written then."""
    at = datetime(day.year, day.month, day.day, tzinfo=UTC) + timedelta(hours=hour)
    value = {"id": number, "amount": float(number), "at": at.isoformat(), **more}
    return Record(0, int(at.timestamp() * 1000), b"k", json.dumps(value).encode())


class Replays:
    """Replays of one project."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.store = ReplayStore(project.storage)
        self.lines: list[str] = []

    def build(self, flow: str, first: date | None, end: date | None, **more: Any) -> Replay:
        project = load_project(self.project.directory)
        request = ReplayRequest(project, self.project.bootstrap, {}, flow, first, end, **more)
        return build_replay(request, self.show, self.project.spark)

    def show(self, line: str) -> None:
        self.lines.append(line)

    def apply(self, replay: Replay) -> Replay:
        return apply_replay(self.store, replay.id, int(time.time() * 1000))

    def rows(self, table: str, *columns: str) -> list[tuple[Any, ...]]:
        found = DeltaTable(str(self.project.storage / table)).to_pyarrow_table().to_pylist()
        return sorted(tuple(row[name] for name in columns) for row in found)


Make = Callable[[str], Replays]


@pytest.fixture
def make(tmp_path: Path, bootstrap: str, spark: SparkSession) -> Make:
    """Write a project with one file of declarations."""
    return lambda text: Replays(make_project(tmp_path / "shop", bootstrap, spark, text))


def test_a_corrected_day_is_compared_applied_and_undone(make: Make, topics: Topics) -> None:
    topic = topics.create(2)
    replays = make(ORDERS.format(topic=topic, factor=1))
    for partition in (0, 1):
        numbers = range(partition * 10, partition * 10 + 6)
        days = [DAYS[number % 3] for number in numbers]
        records = [order(number, day) for number, day in zip(numbers, days, strict=True)]
        topics.append(topic, partition, records)
    assert replays.project.run().code == 0
    before = replays.rows("orders", "id", "amount")
    replays.project.write(ORDERS.format(topic=topic, factor=10))
    replay = replays.build("orders", DAYS[1], DAYS[2])
    assert replays.rows("orders", "id", "amount") == before, "nothing is visible yet"
    assert replay.state is ReplayState.DIFFED
    assert replay.diff is not None
    changed = {column.name: column.changed for column in replay.diff.columns if column.changed}
    assert (replay.diff.key, changed) == (("_partition", "_offset"), {"amount": 4})
    assert (replay.diff.added, replay.diff.gone) == (0, 0)
    assert replays.lines == [
        f"reads up to 11 records of {topic}, writes day {DAYS[1]} beside the table as orders@r1"
    ]
    topics.append(topic, 0, [order(30, DAYS[1])])
    assert replays.project.run().code == 0, "a live batch between comparison and apply"
    replays.apply(replay)
    day = {number for number, _ in before if DAYS[number % 3] == DAYS[1]}
    expected = [(n, amount * 10 if n in day else amount) for n, amount in before]
    assert replays.rows("orders", "id", "amount") == [*expected, (30, 300.0)]
    topics.append(topic, 1, [order(31, DAYS[1])])
    assert replays.project.run().code == 0
    assert replays.rows("orders", "id", "amount") == [*expected, (30, 300.0), (31, 310.0)]
    undo_replay(replays.store, replay.id)
    assert replays.rows("orders", "id", "amount") == [*before, (30, 300.0), (31, 310.0)]


def test_rows_of_records_since_the_last_batch_are_left_to_the_live_flow(
    make: Make, topics: Topics
) -> None:
    topic = topics.create(1)
    replays = make(ORDERS.format(topic=topic, factor=1))
    topics.append(topic, 0, [order(1, DAYS[1]), order(2, DAYS[1])])
    replays.project.run()
    topics.append(topic, 0, [order(3, DAYS[1])])
    replay = replays.build("orders", DAYS[1], DAYS[2])
    assert replay.offsets == {topic: {"0": (0, 2)}}
    assert replay.diff is not None
    assert not replay.diff.differs
    replays.apply(replay)
    replays.project.run()
    assert replays.rows("orders", "id") == [(1,), (2,), (3,)]


def test_batches_without_rows_count_as_read(make: Make, topics: Topics) -> None:
    topic = topics.create(1)
    text = ORDERS.format(topic=topic, factor=1)
    replays = make(text)
    replays.project.write(text.replace('"amount") * 1)', '"amount") * 1).where("id < 10")'))
    topics.append(topic, 0, [order(1, DAYS[1])])
    replays.project.run()
    topics.append(topic, 0, [order(20, DAYS[1])])
    replays.project.run()  # its batch writes nothing, so the table has no marker of it
    replays.project.write(text)
    replay = replays.build("orders", DAYS[1], DAYS[2])
    assert replay.offsets == {topic: {"0": (0, 2)}}
    replays.apply(replay)
    replays.project.run()
    assert replays.rows("orders", "id") == [(1,), (20,)]


def test_windows_of_late_records_equal_a_batch_group_by(make: Make, topics: Topics) -> None:
    topic = topics.create(1)
    replays = make(WINDOWS.format(topic=topic))
    first = [order(number, DAYS[1], hour=10 + number / 4) for number in range(8)]
    closing = order(90, DAYS[2], hour=6)
    late = [order(50, DAYS[1], hour=10), order(51, DAYS[1], hour=23)]
    for records in (first, [closing], late, [order(91, DAYS[2], hour=7)]):
        topics.append(topic, 0, records)
        assert replays.project.run().code == 0
    live = replays.rows("counts", "start", "n")
    assert sum(n for _, n in live) == 8
    replay = replays.build("counts", DAYS[1], DAYS[2])
    assert replay.diff is not None
    assert (replay.diff.key, replay.diff.added, replay.diff.gone) == ((), 2, 1)
    replays.apply(replay)
    rows = replays.rows("counts", "start", "n")
    assert [n for _, n in rows] == [3, 2, 2, 2, 1]
    assert [start.hour for start, _ in rows] == [10, 10, 11, 11, 23]
    topics.append(topic, 0, [order(92, DAYS[2], hour=10)])
    replays.project.run()
    later = replays.rows("counts", "start", "n")
    assert later[:5] == rows, "the live flow does not write these windows once more"
    assert [start.hour for start, _ in later[5:]] == [6, 7]


def test_days_with_open_windows_are_refused(make: Make, topics: Topics) -> None:
    topic = topics.create(1)
    replays = make(WINDOWS.format(topic=topic))
    topics.append(topic, 0, [order(1, DAYS[1], hour=22), order(2, DAYS[2], hour=1.25)])
    replays.project.run()
    replays.project.run()  # the watermark, 00:15, is past the day, not past its longest window
    with pytest.raises(ReplayRangeError, match=r"windows before .* may be open"):
        replays.build("counts", DAYS[1], DAYS[2])
    with pytest.raises(ReplayRangeError, match="give --from and --to"):
        replays.build("counts", None, None)
    assert not list(replays.project.storage.glob("*@*"))
    topics.append(topic, 0, [order(3, DAYS[2], hour=1.75)])
    replays.project.run()
    topics.append(topic, 0, [order(4, DAYS[2], hour=1.75)])
    replays.project.run()
    assert replays.build("counts", DAYS[1], DAYS[2]).state is ReplayState.DIFFED


def test_records_that_retention_deleted_are_data_loss_before_anything_is_written(
    make: Make, topics: Topics
) -> None:
    topic = topics.create(1, configs={"segment.bytes": "1048576"})
    replays = make(ORDERS.format(topic=topic, factor=1))
    topics.append(topic, 0, [order(1, DAYS[1]), order(2, DAYS[1])])
    replays.project.run()
    version = DeltaTable(str(replays.project.storage / "orders")).version()
    topics.expire(topic)
    while not topics.earliest(TopicPartition(topic, 0)):
        time.sleep(0.05)
    with pytest.raises(RecordsLostError, match=f"were deleted: {topic}-0 begins at 2"):
        replays.build("orders", DAYS[1], DAYS[2])
    assert not list(replays.project.storage.glob("*@*"))
    assert DeltaTable(str(replays.project.storage / "orders")).version() == version
    assert replays.store.load("r1").state is ReplayState.DISCARDED


def test_records_that_retention_deletes_during_a_replay_discard_it(
    make: Make, topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = topics.create(1)
    replays = make(ORDERS.format(topic=topic, factor=1))
    topics.append(topic, 0, [order(1, DAYS[1]), order(2, DAYS[1])])
    replays.project.run()

    def expire(line: str) -> None:
        topics.expire(topic)
        while not topics.earliest(TopicPartition(topic, 0)):
            time.sleep(0.05)

    monkeypatch.setattr(replays, "show", expire)
    with pytest.raises(ReplayFailedError) as failed:
        replays.build("orders", DAYS[1], DAYS[2])
    assert failed.value.code == 12
    assert not list(replays.project.storage.glob("*@*"))
    assert replays.rows("orders", "id") == [(1,), (2,)]


def test_a_start_of_the_pipeline_completes_an_interrupted_apply(make: Make, topics: Topics) -> None:
    topic = topics.create(1)
    replays = make(ORDERS.format(topic=topic, factor=1))
    topics.append(topic, 0, [order(1, DAYS[1])])
    replays.project.run()
    replays.project.write(ORDERS.format(topic=topic, factor=2))
    replay = replays.build("orders", DAYS[1], DAYS[2])
    replays.store.save(dataclasses.replace(replay, state=ReplayState.APPLYING))
    topics.append(topic, 0, [order(2, DAYS[1])])
    assert replays.project.run().code == 0
    assert replays.rows("orders", "id", "amount") == [(1, 2.0), (2, 4.0)]
    (event,) = replays.project.of("replay")
    assert (event["replay"], event["flow"], event["state"]) == ("r1", "orders", "applied")


def test_a_recreated_topic_is_data_loss(make: Make, topics: Topics) -> None:
    topic = topics.create(1)
    replays = make(ORDERS.format(topic=topic, factor=1))
    topics.append(topic, 0, [order(1, DAYS[1])])
    replays.project.run()
    topics.delete(topic)
    while not topics.created(topic):
        time.sleep(0.05)
    topics.append(topic, 0, [order(1, DAYS[1])])
    with pytest.raises(RecordsLostError, match="was deleted and created again"):
        replays.build("orders", DAYS[1], DAYS[2])


def test_checks_of_the_flow_apply_to_a_replay(make: Make, topics: Topics) -> None:
    topic = topics.create(1)
    text = ORDERS.format(topic=topic, factor=1)
    replays = make(text)
    topics.append(topic, 0, [order(number, DAYS[1]) for number in range(4)])
    replays.project.run()
    head = '@dp.table(format="delta", partition_cols=["day(at)"])\n'
    replays.project.write(text.replace(head, head + '@hp.expect_or_drop("early", "id < 2")\n'))
    replay = replays.build("orders", DAYS[1], DAYS[2])
    assert replay.diff is not None
    assert (replay.diff.gone, replay.diff.same) == (2, 2)
    replays.project.write(text.replace(head, head + '@hp.expect_or_fail("early", "id < 2")\n'))
    with pytest.raises(ReplayFailedError, match="early") as failed:
        replays.build("orders", DAYS[1], DAYS[2])
    assert failed.value.code == 11
    assert [path.name for path in replays.project.storage.glob("*@*")] == ["orders@r1"]
    assert len(replays.rows("orders", "id")) == 4


def test_an_exception_of_the_flow_discards_the_replay(make: Make, topics: Topics) -> None:
    topic = topics.create(1)
    text = ORDERS.format(topic=topic, factor=1)
    replays = make(text)
    topics.append(topic, 0, [order(1, DAYS[1])])
    replays.project.run()
    replays.project.write(text.replace('F.col("amount") * 1', 'F.expr("amount / 0")'))
    with pytest.raises(ReplayFailedError, match="DIVIDE_BY_ZERO"):
        replays.build("orders", DAYS[1], DAYS[2])
    assert replays.store.load("r1").state is ReplayState.DISCARDED
    assert not list((replays.project.storage / "orders" / "_headrace" / "leases").glob("*.json"))


def test_flows_that_cannot_be_replayed_are_refused(make: Make, topics: Topics) -> None:
    topic = topics.create(1)
    other = ORDERS.format(topic=topic, factor=1).replace("orders()", "plain()")
    shared = ORDERS.format(topic=topic, factor=1).replace("orders()", "shared()")
    replays = make(
        other.replace('format="delta", ', 'format="parquet", ')
        + ORDERS.format(topic=topic, factor=1)
        + shared
        + '\n@dp.append_flow(target="shared")\ndef more():\n'
        + f'    return hp.topic("{topic}", "id BIGINT, amount DOUBLE, at TIMESTAMP")\n'
    )
    with pytest.raises(UnknownTableFlowError, match="there is no flow order to a table"):
        replays.build("order", DAYS[1], DAYS[2])
    with pytest.raises(DeclarationError, match="only Delta tables are replayed"):
        replays.build("plain", DAYS[1], DAYS[2])
    with pytest.raises(DeclarationError, match="written by shared, more"):
        replays.build("shared", DAYS[1], DAYS[2])
    with pytest.raises(ReplayRangeError, match="so at least 2"):
        replays.build("orders", DAYS[2], DAYS[2])
    with pytest.raises(ReplayRangeError, match="give both, or neither"):
        replays.build("orders", DAYS[1], None)
    with pytest.raises((ReplayError, Exception), match="there is no Delta table"):
        replays.build("orders", DAYS[1], DAYS[2])


def test_whole_table_is_replayed_without_days(make: Make, topics: Topics) -> None:
    topic = topics.create(1)
    text = ORDERS.replace(', partition_cols=["day(at)"]', "")
    replays = make(text.format(topic=topic, factor=1))
    topics.append(topic, 0, [order(1, DAYS[0]), order(2, DAYS[1])])
    replays.project.run()
    replays.project.write(text.format(topic=topic, factor=3))
    with pytest.raises(ReplayRangeError, match="leave --from and --to out"):
        replays.build("orders", DAYS[1], DAYS[2])
    replays.apply(replays.build("orders", None, None))
    topics.append(topic, 0, [order(3, DAYS[1])])
    replays.project.run()
    assert replays.rows("orders", "id", "amount") == [(1, 3.0), (2, 6.0), (3, 9.0)]


def test_a_replay_leaves_malformed_records_in_the_quarantine(make: Make, topics: Topics) -> None:
    topic = topics.create(1)
    replays = make(ORDERS.format(topic=topic, factor=1))
    malformed = order(0, DAYS[1])._replace(value=b'{"id": "x"}')
    topics.append(topic, 0, [order(1, DAYS[1]), malformed, order(2, DAYS[1])])
    assert replays.project.run().code == 0
    replays.project.write(ORDERS.format(topic=topic, factor=10))
    replays.apply(replays.build("orders", DAYS[1], DAYS[2]))
    assert replays.rows("orders", "id", "amount") == [(1, 10.0), (2, 20.0)]
    assert len(committed_rows(replays.project.bootstrap, f"{topic}.quarantine")) == 1


STATE = """
@dp.table(format="delta", partition_cols=["day(at)"])
def orders():
    rows = hp.topic("{topic}", "id BIGINT NOT NULL, at TIMESTAMP", event_time="at",
                    watermark="1 hour")
    return rows{step}
"""


SESSIONS = (
    '.groupBy("id", F.session_window("at", "5 minutes").alias("s")).count()'
    '.select(F.col("s.start").alias("at"), "count")'
)


@pytest.mark.parametrize(
    ("step", "text"),
    [('.dropDuplicates(["id"])', "keeps state of all days"), (SESSIONS, "session windows")],
)
def test_days_of_flows_with_state_of_all_days_are_refused(
    make: Make, topics: Topics, step: str, text: str
) -> None:
    """Ids that were seen on other days, and sessions that are open, are not known to a day."""
    topic = topics.create(1)
    replays = make(STATE.format(topic=topic, step=step))
    for records in ([order(1, DAYS[1]), order(2, DAYS[2])], [order(3, DAYS[2], hour=13)]):
        topics.append(topic, 0, records)
        assert replays.project.run().code == 0
    with pytest.raises(ReplayRangeError, match=text):
        replays.build("orders", DAYS[1], DAYS[2])
    assert not list(replays.project.storage.glob("*@*"))
