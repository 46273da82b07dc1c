"""Waits between requests of ISR changes: longer after failures, afresh after an answer."""

import logging
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from headrace.broker.partition import Partition
from headrace.broker.replica.in_sync_replicas import ReplicaFetch, Replicas
from headrace.broker.replica.leader_term import LeaderTerm
from headrace.client.transport.port import ConnectionLost
from headrace.model.errors import ErrorCode
from headrace.model.nouns import BrokerId, LeaderEpoch, Offset, TopicPartition
from headrace.record.batch import Record, build, parse_header
from headrace.replication.controller_calls import AskedIsr, IsrAnswer
from headrace.replication.isr_keeper import REFUSED_SECONDS, RETRY_SECONDS, IsrKeeper
from tests.support.log.log import CONFIG, NOW_MS, World

L, A, B = (BrokerId(number) for number in (0, 21, 22))
EPOCH = LeaderEpoch(5)
LAG_SECONDS = 10.0
Answers = Mapping[TopicPartition, IsrAnswer | ErrorCode]


class Here:
    """A keeper of some partitions that lead for A and B, and a controller in the test's hand."""

    def __init__(
        self, count: int = 1, *, in_sync: tuple[BrokerId, ...] = (L,), least: int = 1
    ) -> None:
        self.world = World(config=replace(CONFIG, min_insync_replicas=least))
        self.clock = self.world.clock
        self.partitions = [self.partition(index) for index in range(count)]
        for partition in self.partitions:
            partition.role.lead(EPOCH, Replicas(L, (L, A, B), in_sync, 3), now=self.now)
        self.asked: list[Sequence[AskedIsr]] = []
        self.answers: list[Answers | Exception] = []
        """What the controller says to the next calls; it waits where there is none."""
        self.under_way: list[Coroutine[Any, Any, None]] = []
        self.keeper = IsrKeeper(
            lambda: self.partitions, self, self.clock, self.spawn, lambda: LAG_SECONDS
        )

    def partition(self, index: int) -> Partition:
        log = self.world.log(TopicPartition("t", index))
        return Partition(log, flusher=self.world.directory.flusher)

    @property
    def now(self) -> float:
        return self.clock.monotonic()

    @property
    def term(self) -> LeaderTerm:
        term = self.partitions[0].role.term
        assert term is not None
        return term

    async def alter_partitions(self, asked: Sequence[AskedIsr]) -> Answers:
        self.asked.append(asked)
        await _Later()
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def spawn(self, call: Coroutine[Any, Any, None]) -> None:
        call.send(None)
        self.under_way.append(call)

    def answer(self, answer: Answers | Exception) -> None:
        """The call under way is answered."""
        self.answers.append(answer)
        (call,) = self.under_way
        self.under_way.clear()
        with pytest.raises(StopIteration):
            call.send(None)

    def answer_all(self, answer: IsrAnswer | ErrorCode) -> None:
        self.answer({asked.topic_partition: answer for asked in self.asked[-1]})

    def fetch(self, replica: BrokerId, end: int = 0, *, index: int = 0, epoch: int = 70) -> None:
        """A follower fetches, which may ask for it to join."""
        partition = self.partitions[index]
        term = partition.role.term
        assert term is not None
        fetch = ReplicaFetch(replica, Offset(end), Offset(end), epoch)
        if term.note_fetch(fetch, self.now) is not None:
            self.keeper.ask(partition)

    def append(self, index: int = 0) -> int:
        view = memoryview(bytearray(build([Record(0, NOW_MS, None, b"v", ())])))
        partition = self.partitions[index]
        return partition.append(view, parse_header(view), now_ms=NOW_MS).commit_offset

    def wait(self, seconds: float) -> int:
        """Let time pass; how often the controller was asked by then."""
        self.clock.advance(seconds)
        return len(self.asked)


class _Later:
    def __await__(self) -> Any:
        yield


def written(*in_sync: BrokerId, epoch: int = 4, leader_epoch: int = EPOCH) -> IsrAnswer:
    return IsrAnswer(L, LeaderEpoch(leader_epoch), in_sync, epoch)


def test_the_wait_starts_afresh_once_the_controller_has_answered() -> None:
    here = Here()
    here.fetch(A)
    here.clock.turn()
    for _ in range(4):
        here.answer(ConnectionLost("gone"))
        here.wait(5.0)
    here.answer_all(written(L, A))
    calls = len(here.asked)
    here.fetch(B)
    here.clock.turn()
    assert len(here.asked) == calls + 1
    here.answer(ConnectionLost("gone"))
    assert here.wait(RETRY_SECONDS) == calls + 2


def test_a_refusal_after_the_isr_changed_is_logged_again(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    here = Here()
    here.fetch(A)
    here.clock.turn()
    here.answer_all(ErrorCode.INELIGIBLE_REPLICA)
    here.fetch(A)
    here.wait(REFUSED_SECONDS * 1.1)
    here.answer_all(written(L, A))
    here.fetch(B)
    here.clock.turn()
    here.answer_all(ErrorCode.INELIGIBLE_REPLICA)
    said = [record.levelno for record in caplog.records if "is refused" in record.getMessage()]
    assert said == [logging.INFO, logging.INFO]
