"""Produce requests that wait together: one answer, one latency, one deadline; who is told what."""

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from headrace.frontends.kafka.produce.commit_group import REQUESTS_MAX, CommitGroup
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import Offset, TopicPartition
from headrace.net.pending import Body
from headrace.observe.metrics import ApiStats
from headrace.ports.deadlines import Deadlines
from headrace.testing.clock import SimClock
from headrace.wire.kafka.hot.produce import decode_response

VERSION = 9


@dataclass
class Route:
    """A route that puts the length and the correlation id before a body."""

    version: int = VERSION
    stats: ApiStats = field(default_factory=ApiStats)

    def framed(self, correlation_id: int, body: Body) -> Body:
        assert isinstance(body, bytes)
        return struct.pack(">ii", len(body) + 4, correlation_id) + body


@dataclass(eq=False)
class Partition:
    """A partition that commits when the test says so."""

    index: int
    waiting: list[tuple[int, Callable[[ApiError | None], None]]] = field(default_factory=list)
    high_watermark: int = 0
    topic_id: bytes = bytes(16)

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition("t", self.index)

    @property
    def log(self) -> "Partition":
        return self

    def when_committed(
        self, offset: Offset, told: Callable[[ApiError | None], None], while_enough: bool = False
    ) -> None:
        self.waiting.append((int(offset), told))

    def commit(self, error: ApiError | None = None) -> None:
        for offset, told in self.waiting:
            self.high_watermark = self.high_watermark if error else offset
            told(error)


class Pass:
    """One group with two partitions: the first has two requests, the second one."""

    def __init__(self, timeout_ms: int = 5000) -> None:
        self.clock = SimClock()
        self.deadlines = Deadlines(self.clock)
        self.clock.advance(7)
        self.group = CommitGroup(self.clock.monotonic)
        self.route = Route()
        self.first, self.second = Partition(0), Partition(1)
        assert self.group.fits(self.route)
        for number, (partition, offset) in enumerate(
            [(self.first, 5), (self.second, 3), (self.first, 4)]
        ):
            anyone: Any = partition
            wait = timeout_ms if number == 1 else timeout_ms + 1000
            self.group.take(anyone, Offset(offset), wait, b"body")
            self.group.answers.append(struct.pack(">ii", 4, 70 + number))
        self.group.watch(self.deadlines)

    def codes(self) -> list[tuple[int, int, int]]:
        """Of each answer its correlation id, partition and error; 0: it is what was prepared."""
        body, found = self.group.body, []
        assert isinstance(body, bytes)
        while body:
            length, correlation_id = struct.unpack_from(">ii", body)
            payload, body = body[8 : 4 + length], body[4 + length :]
            if not payload:
                found.append((correlation_id, -1, 0))
                continue
            (topic,) = decode_response(VERSION, memoryview(payload)).topics
            (result,) = topic.partitions
            found.append((correlation_id, result[0], int(result.error_code)))
        return found


def answered(made: Pass) -> bool:
    """Whether the answer is there."""
    return made.group.done


def test_the_answer_comes_once_all_hold_and_took_as_long_as_it_did() -> None:
    made = Pass()
    assert [offset for offset, _ in made.first.waiting] == [5], "the greatest of its requests"
    made.clock.advance(2)
    made.first.commit()
    assert not answered(made)
    made.clock.advance(1)
    made.second.commit()
    assert answered(made)
    assert made.codes() == [(70, -1, 0), (71, -1, 0), (72, -1, 0)]
    latency = made.route.stats.latency
    assert latency.count == 1
    assert latency.seconds == pytest.approx(3.0)
    made.clock.advance(10)
    assert latency.count == 1


@pytest.mark.parametrize("run", [False, True], ids=["one by one", "as a run"])
def test_later_request_of_a_partition_is_awaited_too(run: bool) -> None:
    clock = SimClock()
    group, partition = CommitGroup(clock.monotonic), Partition(0)
    anyone: Any = partition
    for offset in (3, 5):
        if run:
            group.take_run([anyone], {anyone: Offset(offset)}, 1000, [b""])
        else:
            group.take(anyone, Offset(offset), 1000, b"body")
            group.answers.append(b"")
    group.watch(Deadlines(clock))
    assert [offset for offset, _ in partition.waiting] == [5]


def test_only_requests_of_the_partition_that_failed_are_told_so() -> None:
    made = Pass()
    made.first.commit(ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER))
    assert not answered(made)
    made.second.commit()
    failed = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert made.codes() == [(70, 0, failed), (71, -1, 0), (72, 0, failed)]


def test_at_the_shortest_timeout_what_does_not_hold_yet_is_told_and_the_rest_as_it_is() -> None:
    made = Pass(timeout_ms=2000)
    made.second.commit()
    made.clock.advance(1.9)
    assert not answered(made)
    made.clock.advance(0.2)
    assert answered(made)
    late = int(ErrorCode.REQUEST_TIMED_OUT)
    assert made.codes() == [(70, 0, late), (71, -1, 0), (72, 0, late)]
    assert made.route.stats.latency.count == 1
    made.first.commit()
    assert made.route.stats.latency.count == 1, "it was answered before"


def test_partition_that_failed_keeps_its_error_at_the_timeout_of_others() -> None:
    made = Pass(timeout_ms=2000)
    made.first.commit(ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER))
    made.clock.advance(2.1)
    assert answered(made)
    failed, late = int(ErrorCode.NOT_LEADER_OR_FOLLOWER), int(ErrorCode.REQUEST_TIMED_OUT)
    assert made.codes() == [(70, 0, failed), (71, 1, late), (72, 0, failed)]


def test_what_reached_its_offset_by_the_timeout_is_not_late() -> None:
    made = Pass(timeout_ms=2000)
    made.first.high_watermark = 5
    made.second.high_watermark = 2
    made.clock.advance(2.2)
    late = int(ErrorCode.REQUEST_TIMED_OUT)
    assert made.codes() == [(70, -1, 0), (71, 1, late), (72, -1, 0)]


def test_a_group_takes_a_thousand_requests_of_one_version() -> None:
    group = CommitGroup(lambda: 0.0)
    route = Route()
    assert group.fits(route)
    assert not group.fits(Route())
    partition: Any = Partition(0)
    assert group.room == REQUESTS_MAX == 1000
    group.take_run([partition] * 999, {partition: Offset(4)}, 100, [bytes(8)] * 999)
    assert (group.room, group.fits(route)) == (1, True)
    group.take_run([partition], {partition: Offset(3)}, 200, [bytes(8)])
    assert (group.room, group.fits(route)) == (0, False)
    clock = SimClock()
    group.watch(Deadlines(clock))
    assert [offset for offset, _ in partition.waiting] == [4]
    clock.advance(0.2)
    assert group.done, "the shorter of the two"
