"""How changes of ISRs get to the controller, and what comes of each kind of answer."""

import logging
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from headrace.broker.partition import Partition
from headrace.broker.replica.in_sync_replicas import ReplicaFetch, Replicas
from headrace.broker.replica.leader_term import LeaderTerm
from headrace.client.transport.port import ConnectionLost
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import BrokerId, LeaderEpoch, Offset, TopicPartition
from headrace.record.batch import Record, build, parse_header
from headrace.replication.controller_calls import AskedIsr, IsrAnswer
from headrace.replication.isr_keeper import (
    FAILURES_EXPECTED,
    REFUSED_SECONDS,
    RETRY_SECONDS,
    IsrKeeper,
)
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


def test_what_is_asked_for_in_one_turn_goes_in_one_call_and_the_next_one_waits_for_it() -> None:
    here = Here(3)
    here.fetch(A)
    here.fetch(A, index=1)
    assert here.asked == []
    here.clock.turn()
    (asked,) = here.asked
    assert [each.topic_partition.partition for each in asked] == [0, 1]
    assert asked[0][1:] == (EPOCH, 3, (L, A), (-1, 70))
    here.fetch(A, index=2)
    here.clock.turn()
    assert len(here.asked) == 1
    here.answer_all(written(L, A))
    assert here.term.in_sync == {L, A}
    here.clock.turn()
    assert [each.topic_partition.partition for each in here.asked[1]] == [2]
    assert (here.keeper.expands, here.keeper.shrinks) == (2, 0)


def test_laggards_are_looked_for_and_leave_once_that_is_written() -> None:
    here = Here(in_sync=(L, A, B))
    here.keeper.start()
    commit_offset = here.append()
    here.world.settle()
    here.fetch(A, 1)
    assert here.wait(9) == 0
    here.fetch(A, 1)
    assert here.wait(7) == 1
    assert here.asked[0][0].isr == (L, A)
    heard: list[Any] = []
    here.partitions[0].when_committed(Offset(commit_offset), heard.append)
    here.fetch(A, 1)
    assert heard == []
    here.answer_all(written(L, A))
    assert heard == [None]
    assert here.term.in_sync == {L, A}
    assert (here.keeper.expands, here.keeper.shrinks) == (0, 1)


@pytest.mark.parametrize(
    "lost", [ApiError(ErrorCode.NOT_CONTROLLER), ConnectionLost("gone"), {}]
)  # fmt: skip
def test_what_was_not_answered_is_asked_again_and_the_union_stays(lost: Any) -> None:
    here = Here()
    here.fetch(A)
    here.clock.turn()
    here.answer(lost)
    assert here.term.maximal == {L, A}
    assert here.wait(0) == 1
    assert here.wait(RETRY_SECONDS) == 2
    assert here.asked[1] == here.asked[0]
    here.answer(lost)
    assert here.wait(RETRY_SECONDS) == 2
    assert here.wait(RETRY_SECONDS) == 3
    here.answer_all(written(L, A))
    assert here.term.in_sync == {L, A}


def test_a_controller_that_does_not_answer_is_asked_every_few_seconds_at_most() -> None:
    here = Here()
    here.fetch(A)
    here.clock.turn()
    for _ in range(30):
        here.answer(ConnectionLost("gone"))
        before = len(here.asked)
        assert here.wait(5.0) == before + 1
    assert RETRY_SECONDS * 2**29 > 5.0


def test_a_controller_that_restarts_is_no_warning_and_one_that_stays_away_is(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    here = Here()
    here.fetch(A)
    here.clock.turn()
    for _ in range(FAILURES_EXPECTED + 1):
        here.answer(ConnectionLost("gone"))
        here.wait(5.0)
    told = "the controller has not answered AlterPartition for 1 partition: gone; retrying"
    said = [record for record in caplog.records if record.getMessage() == told]
    assert [record.levelno for record in said] == [logging.INFO] * FAILURES_EXPECTED + [
        logging.WARNING
    ]


def test_codes_that_say_nothing_about_the_change_are_as_no_answer() -> None:
    here = Here()
    here.fetch(A)
    here.clock.turn()
    for code in (ErrorCode.NOT_CONTROLLER, ErrorCode.STALE_BROKER_EPOCH):
        here.answer_all(code)
        assert here.term.pending is not None
        here.wait(1)
    assert here.asked[2] == here.asked[0]


def test_a_refusal_ends_the_union_and_the_follower_is_not_asked_for_at_once() -> None:
    here = Here()
    here.fetch(A)
    here.clock.turn()
    here.answer_all(ErrorCode.INELIGIBLE_REPLICA)
    assert here.term.maximal == {L}
    assert here.term.pending is None
    here.fetch(A)
    assert here.wait(REFUSED_SECONDS * 0.9) == 1
    here.fetch(A)
    assert here.wait(REFUSED_SECONDS * 0.2) == 2


def test_why_an_isr_is_refused_is_said_once_until_it_changes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    here = Here()
    here.fetch(A)
    here.clock.turn()
    here.answer_all(ErrorCode.INELIGIBLE_REPLICA)
    here.fetch(A)
    here.wait(REFUSED_SECONDS * 1.1)
    here.answer_all(ErrorCode.INELIGIBLE_REPLICA)
    said = [record for record in caplog.records if "is refused" in record.message]
    assert [record.levelno for record in said] == [logging.INFO, logging.DEBUG]
    assert "INELIGIBLE_REPLICA" in said[0].message
    assert "may join" in said[0].message


def test_a_refused_partition_does_not_hold_up_others() -> None:
    here = Here(2)
    here.fetch(A)
    here.clock.turn()
    here.answer_all(ErrorCode.INELIGIBLE_REPLICA)
    here.fetch(A)
    here.fetch(A, index=1)
    here.clock.turn()
    assert [each.topic_partition.partition for each in here.asked[1]] == [1]


def test_a_refused_partition_is_asked_for_in_its_time_though_another_is_led_no_more() -> None:
    here = Here(2)
    here.fetch(A)
    here.clock.turn()
    here.answer_all(ErrorCode.INELIGIBLE_REPLICA)
    here.fetch(A)
    here.fetch(A, index=1)
    here.partitions[1].role.resign()
    assert here.wait(REFUSED_SECONDS * 0.9) == 1
    assert here.wait(REFUSED_SECONDS * 0.2) == 2
    assert [each.topic_partition.partition for each in here.asked[1]] == [0]


def test_a_refusal_after_a_lost_answer_has_the_isr_that_holds_written_anew() -> None:
    here = Here()
    here.fetch(A)
    here.clock.turn()
    here.answer(ConnectionLost("gone"))
    here.wait(RETRY_SECONDS)
    here.answer_all(ErrorCode.INELIGIBLE_REPLICA)
    assert here.term.maximal == {L, A}
    here.wait(REFUSED_SECONDS)
    assert here.asked[2][0].isr == (L,)
    here.answer_all(written(L))
    assert here.term.maximal == {L}
    assert (here.keeper.expands, here.keeper.shrinks) == (0, 0)


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ],
    ids=lambda code: code.name,
)
def test_what_is_not_ours_to_ask_for_waits_for_orders_and_for_the_next_look(
    code: ErrorCode,
) -> None:
    here = Here()
    here.keeper.start()
    here.fetch(A)
    here.clock.turn()
    here.answer_all(code)
    assert here.term.maximal == {L, A}
    assert here.wait(LAG_SECONDS / 2 - 0.5) == 1
    assert here.wait(1) == 2


def test_a_refusal_after_what_was_not_ours_to_ask_for_has_the_isr_that_holds_written_anew() -> None:
    """What was asked for first may have been written: the version is another one."""
    here = Here()
    here.keeper.start()
    here.fetch(A)
    here.clock.turn()
    here.answer_all(ErrorCode.INVALID_UPDATE_VERSION)
    assert here.wait(LAG_SECONDS / 2 + 0.5) == 2
    here.answer_all(ErrorCode.INELIGIBLE_REPLICA)
    assert here.term.maximal == {L, A}
    here.wait(REFUSED_SECONDS)
    assert here.asked[2][0].isr == (L,)


def test_an_answer_for_another_leader_changes_nothing() -> None:
    here = Here()
    here.fetch(A)
    here.clock.turn()
    here.answer_all(written(A, leader_epoch=EPOCH + 1))
    assert here.term.in_sync == {L}
    assert here.term.maximal == {L, A}
    assert here.wait(1) == 1


def test_an_answer_older_than_what_is_known_is_none() -> None:
    here = Here()
    here.fetch(A)
    here.clock.turn()
    here.answer_all(written(L, epoch=3))
    assert here.term.maximal == {L, A}
    assert here.wait(1) == 2


def test_orders_that_come_before_the_answer_count() -> None:
    here = Here()
    here.fetch(A)
    here.clock.turn()
    here.partitions[0].role.lead(EPOCH, Replicas(L, (L, A, B), (L, B), 6), now=here.now)
    here.answer_all(ErrorCode.INELIGIBLE_REPLICA)
    assert here.term.maximal == {L, B}
    here.fetch(A)
    here.clock.turn()
    assert here.asked[1][0][2:4] == (6, (L, B, A))


def test_a_partition_that_is_led_no_more_is_not_asked_for() -> None:
    here = Here(2)
    here.fetch(A)
    here.fetch(A, index=1)
    here.partitions[0].role.resign()
    here.clock.turn()
    assert [each.topic_partition.partition for each in here.asked[0]] == [1]
    here.partitions[1].role.resign()
    here.answer_all(written(L, A))
    assert here.partitions[1].role.term is None


def test_nothing_is_asked_after_the_end() -> None:
    here = Here()
    here.keeper.start()
    here.fetch(A)
    here.keeper.close()
    assert here.wait(100) == 0
    here.fetch(B)
    assert here.wait(100) == 0


def test_who_waits_for_all_replicas_is_told_when_too_few_are_left() -> None:
    here = Here(in_sync=(L, A), least=2)
    here.keeper.start()
    heard: list[ApiError | None] = []
    inside: list[ApiError | None] = []
    partition = here.partitions[0]
    commit_offset = Offset(here.append())
    partition.when_committed(commit_offset, heard.append, True)
    partition.when_committed(commit_offset, inside.append)
    here.world.settle()
    here.wait(LAG_SECONDS + 5.5)
    assert heard == []
    here.answer_all(written(L))
    assert [error and error.code for error in heard] == [ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND]
    assert inside == []
    with pytest.raises(ApiError) as refused:
        here.append()
    assert refused.value.code is ErrorCode.NOT_ENOUGH_REPLICAS
    here.fetch(A, 1)
    here.wait(0)
    here.answer_all(written(L, A, epoch=5))
    assert inside == [None]
