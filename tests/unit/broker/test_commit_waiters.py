"""Who waits for a high watermark: who is told, when, in which order, and of what."""

from typing import Any

import pytest

from headrace.broker.producer_ids import ProducerIds
from headrace.broker.waiters import CommitWaiters
from headrace.broker.watchable import Watched
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.invariant import InvariantError
from headrace.model.nouns import Offset


class LogAt:
    """As much of a log as is asked here."""

    def __init__(self) -> None:
        self.high_watermark = Offset(0)


def log_at_0() -> Any:
    return LogAt()


class Room:
    def __init__(self) -> None:
        self.log = log_at_0()
        self.waiters = CommitWaiters(self.log, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self.told: list[tuple[str, ErrorCode | None]] = []

    def wait(self, name: str, offset: int) -> None:
        def told(error: ApiError | None) -> None:
            self.told.append((name, None if error is None else error.code))

        self.waiters.when_committed(Offset(offset), told)


def test_nothing_is_waited_for_where_nothing_is_served() -> None:
    room = Room()
    room.wait("a", 0)
    assert room.told == [("a", ErrorCode.NOT_LEADER_OR_FOLLOWER)]
    assert not room.waiters.waiting


def test_each_is_told_when_the_high_watermark_reaches_its_offset() -> None:
    room = Room()
    room.waiters.refusal = None
    room.wait("now", 0)
    room.wait("a", 3)
    room.wait("b", 4)
    assert room.told == [("now", None)]
    room.log.high_watermark = Offset(2)
    room.waiters.release()
    assert len(room.told) == 1
    room.log.high_watermark = Offset(3)
    room.waiters.release()
    assert room.told[1:] == [("a", None)]
    room.log.high_watermark = Offset(9)
    room.waiters.release()
    assert room.told[2:] == [("b", None)]


def test_who_asks_late_is_told_behind_those_who_wait_for_less() -> None:
    room = Room()
    room.waiters.refusal = None
    room.wait("first", 5)
    room.log.high_watermark = Offset(5)
    room.wait("second", 5)
    assert room.told == [("first", None), ("second", None)]
    room.wait("third", 8)
    room.wait("behind it", 2)
    assert len(room.told) == 2
    room.waiters.refuse(ErrorCode.KAFKA_STORAGE_ERROR)
    assert room.told[2:] == [
        ("third", ErrorCode.KAFKA_STORAGE_ERROR),
        ("behind it", ErrorCode.KAFKA_STORAGE_ERROR),
    ]
    room.wait("after it", 0)
    assert room.told[4:] == [("after it", ErrorCode.KAFKA_STORAGE_ERROR)]


def test_who_watches_is_woken_in_the_order_of_coming_until_it_watches_no_more() -> None:
    class Watchable(Watched):
        def wake(self) -> None:
            self._wake()

    watched, told = Watchable(), list[str]()

    def one() -> None:
        told.append("one")
        watched.unwatch(one)

    def two() -> None:
        told.append("two")

    watched.watch(one)
    watched.watch(two)
    watched.wake()
    watched.wake()
    watched.unwatch(one)
    assert told == ["one", "two", "two"]


def test_producer_ids_go_on_with_a_later_block_only_once_the_one_before_is_used_up() -> None:
    ids = ProducerIds()
    ids.refill(0, 0)
    assert not ids.empty
    with pytest.raises(InvariantError):
        ids.refill(5, 9)
    assert (ids.take(), ids.empty) == (0, True)
    with pytest.raises(InvariantError):
        ids.refill(0, 9)
    ids.refill(1, 2)
    assert [ids.take() for _ in range(3)] == [1, 2, None]
