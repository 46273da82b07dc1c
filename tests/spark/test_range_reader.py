"""One task's reading, without Spark: connections kept, what is loss and what only looks like it."""

import logging
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from headrace.client.calls.offsets import EARLIEST
from headrace.client.sync import FetchConnection, Fetched, Wanted, connect, run
from headrace.client.transport.port import Address
from headrace.model.errors import ErrorCode
from headrace.record.batch import Record
from headrace.spark.errors import DataLossError, SourceError
from headrace.spark.security import Security
from headrace.spark.source.cluster import Cluster
from headrace.spark.source.connections import FetchConnections, kept_connections
from headrace.spark.source.options import Fetching, Options, parse_options
from headrace.spark.source.read import RangePartition, RangeReader
from tests.spark.kit import TIME_MS, Topics

COLUMNS = ("offset", "value")


@pytest.fixture(autouse=True)
def no_connections_are_left() -> Iterator[None]:
    kept_connections.close()
    yield
    kept_connections.close()


def task(topics: Topics, topic: str, begin: int, end: int, **more: Any) -> RangePartition:
    known = run(topics.client.leaders([topic]))
    usual = RangePartition(
        topics.bootstrap, topic, 0, begin, end, COLUMNS, fail_on_data_loss=True,
        fetching=Fetching(poll_timeout_ms=20_000, max_wait_ms=50),
        leader=known.brokers[known.leader(topic, 0)], topic_id=known.topics[topic].topic_id,
    )  # fmt: skip
    return replace(usual, **more)


def offsets(range_: RangePartition) -> list[int]:
    return [
        offset
        for batch in RangeReader(range_).batches()
        for offset in batch.column("offset").to_pylist()
    ]


def test_a_worker_connects_once_for_many_tasks(
    topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = topics.create()
    topics.number(topic, 0, 0, 300)
    tasks = [task(topics, topic, begin, begin + 100) for begin in (0, 100, 200)]
    opened: list[Address] = []

    def count(address: Address, **more: Any) -> FetchConnection:
        opened.append(address)
        return FetchConnection(address, **more)

    monkeypatch.setattr("headrace.spark.security.FetchConnection", count)
    nowhere = connect("127.0.0.1:1")  # no metadata
    monkeypatch.setattr(Security, "client", lambda *_, **__: nowhere)
    assert [offset for one in tasks for offset in offsets(one)] == list(range(300))
    assert len(opened) == 1


def test_a_connection_that_the_broker_closed_is_not_used_again(topics: Topics) -> None:
    topic = topics.create()
    topics.number(topic, 0, 0, 10)
    connections = FetchConnections()
    place = task(topics, topic, 0, 10).leader
    assert place is not None
    first = connections.take(place, "c", 5.0)
    connections.give_back(first)
    assert connections.take(place, "c", 7.0) is first
    assert first.timeout_seconds == 7.0
    connections.give_back(first)
    first._socket.shutdown(2)
    second = connections.take(place, "c", 5.0)
    assert second is not first
    assert first.closed
    connections.give_back(second)
    other = connections.take(place, "other", 5.0)
    assert other is not second
    other.close()
    connections.close()
    assert second.closed


def test_no_more_connections_are_kept_than_allowed_nor_for_longer(topics: Topics) -> None:
    topic = topics.create()
    place = task(topics, topic, 0, 1).leader
    assert place is not None
    connections = FetchConnections(kept_max=1)
    one, two = connections.take(place, "c", 5.0), connections.take(place, "c", 5.0)
    connections.give_back(one)
    connections.give_back(two)
    assert (one.closed, two.closed) == (True, False)
    connections.close()
    idle = FetchConnections(idle_seconds_max=0.0)
    three = idle.take(place, "c", 5.0)
    idle.give_back(three)
    again = idle.take(place, "c", 5.0)
    assert again is not three
    assert three.closed
    again.close()


def test_a_connection_with_an_answer_on_its_way_is_closed(topics: Topics) -> None:
    topic = topics.create()
    topics.number(topic, 0, 0, 30_000)
    small = replace(
        task(topics, topic, 0, 30_000), fetching=Fetching(partition_bytes=1000, max_bytes=1000)
    )
    batches = RangeReader(small).batches()
    next(batches)
    batches.close()  # type: ignore[attr-defined] # as Spark does for a limit
    assert offsets(task(topics, topic, 0, 10)) == list(range(10))


def test_a_planned_leader_that_is_gone_is_asked_for_anew(topics: Topics) -> None:
    topic = topics.create()
    topics.number(topic, 0, 0, 10)
    assert offsets(task(topics, topic, 0, 10, leader=Address("127.0.0.1", 1))) == list(range(10))
    assert offsets(task(topics, topic, 0, 10, leader=None)) == list(range(10))


def test_a_topic_made_again_after_planning_is_loss_not_other_records(topics: Topics) -> None:
    topic = topics.create()
    topics.number(topic, 0, 0, 10)
    planned = task(topics, topic, 0, 10, topic_id=bytes(15) + b"\7")
    with pytest.raises(DataLossError, match="deleted and made again"):
        offsets(planned)
    assert offsets(replace(planned, fail_on_data_loss=False)) == []


class Answers:
    """A connection that gives what it was told to, whatever is asked."""

    def __init__(self, answers: Sequence[Fetched]) -> None:
        self.answers = list(answers)
        self.asked = 0
        self.address, self.client_id, self.timeout_seconds = Address("h", 1), "c", 1.0
        self.at_rest = False

    def send(self, *_: object, **__: object) -> None:
        self.asked += 1

    def receive(self) -> list[Fetched]:
        return [self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]]

    def close(self) -> None:
        """Nothing is open."""


def nothing(high_watermark: int, stable: int | None = None, code: int = 0) -> Fetched:
    stable = high_watermark if stable is None else stable
    return Fetched("t", 0, code, high_watermark, stable, 0, (), memoryview(b""))


def told(
    monkeypatch: pytest.MonkeyPatch, answers: Sequence[Fetched], **more: Any
) -> tuple[Answers, RangePartition]:
    connection = Answers(answers)
    monkeypatch.setattr(kept_connections, "take", lambda *_: connection)
    fetching = Fetching(poll_timeout_ms=300)
    usual = RangePartition(
        "127.0.0.1:1", "t", 0, 5, 10, COLUMNS, fail_on_data_loss=True, fetching=fetching,
        leader=Address("h", 1),
    )  # fmt: skip
    return connection, replace(usual, **more)


def test_a_range_whose_records_compaction_took_ends_without_a_complaint(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    connection, range_ = told(monkeypatch, [nothing(10)])
    assert offsets(range_) == []
    assert connection.asked == 3  # twice to believe it, and once ahead


@pytest.mark.parametrize("committed", [False, True])
def test_an_empty_answer_below_the_ranges_end_is_waited_out(
    monkeypatch: pytest.MonkeyPatch, committed: bool
) -> None:
    fetching = Fetching(poll_timeout_ms=300, read_committed=committed)
    answer = nothing(20, stable=9) if committed else nothing(9)
    _, range_ = told(monkeypatch, [answer], fetching=fetching)
    with pytest.raises(SourceError, match="nothing of offsets 5 to 9 came"):
        offsets(range_)


def test_one_empty_answer_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    _, range_ = told(monkeypatch, [nothing(10), nothing(9)])
    with pytest.raises(SourceError, match="nothing of offsets 5 to 9 came"):
        offsets(range_)


OUT_OF_RANGE = nothing(10, code=ErrorCode.OFFSET_OUT_OF_RANGE)


def out_of_range(
    monkeypatch: pytest.MonkeyPatch, earliest: int, latest: int, **more: Any
) -> RangePartition:
    _, range_ = told(monkeypatch, [OUT_OF_RANGE], **more)

    def end_of_log(_: RangeReader, which: int) -> int:
        return earliest if which == EARLIEST else latest

    monkeypatch.setattr(RangeReader, "_end_of_log", end_of_log)
    return range_


def test_what_retention_took_is_loss_but_not_before_an_earliest_start(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    range_ = out_of_range(monkeypatch, earliest=20, latest=20)
    with pytest.raises(DataLossError, match="offsets 5 to 9 of t-0 are gone; set failOnDataLoss"):
        offsets(range_)
    with caplog.at_level(logging.WARNING):
        assert offsets(replace(range_, from_earliest=True)) == []
    assert not caplog.records
    assert offsets(replace(range_, fail_on_data_loss=False)) == []
    assert "continuing without" in caplog.text


def test_an_offset_refused_although_it_is_there_is_given_up_in_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    range_ = out_of_range(monkeypatch, earliest=0, latest=20)
    with pytest.raises(SourceError, match="is in the log and refused as outside of it"):
        offsets(range_)


def streaming(topics: Topics, topic: str, **more: str) -> Options:
    named = {"kafka.bootstrap.servers": topics.bootstrap, "subscribe": topic} | more
    return parse_options(named, streaming=True)


def test_a_look_at_records_tells_what_they_weigh(topics: Topics) -> None:
    topic = topics.create(partitions=2)
    topics.number(topic, 0, 0, 500)
    options = streaming(topics, topic)
    with Cluster(topics.bootstrap, options.fetching) as cluster:
        view = cluster.look(options.subscription)
        begin = dict.fromkeys(view.partitions(), 0)
        weights = cluster.record_bytes(begin, view)
    assert 2 < weights[view.partitions()[0]] < 200
    assert weights[view.partitions()[1]] == 1.0


def test_a_small_range_is_not_fetched_with_all_that_lies_behind_it(
    topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = topics.create()
    values = [
        Record(0, TIME_MS, None, random.Random(number).randbytes(900)) for number in range(50)
    ]
    for _ in range(20):
        topics.append(topic, 0, values)
    asked: list[int] = []
    send = FetchConnection.send

    def noted(connection: FetchConnection, wanted: Sequence[Wanted], **more: Any) -> None:
        asked.append(wanted[0].max_bytes)
        send(connection, wanted, **more)

    monkeypatch.setattr(FetchConnection, "send", noted)
    assert offsets(task(topics, topic, 0, 100)) == list(range(100))
    assert sum(asked) < 300_000
    del asked[:]
    assert offsets(task(topics, topic, 0, 1000)) == list(range(1000))
    assert len(asked) <= 4  # the first shows what an offset weighs
    small = Fetching(partition_bytes=100_000)
    del asked[:]
    assert offsets(task(topics, topic, 0, 1000, fetching=small)) == list(range(1000))
    assert max(asked) == 100_000
