"""A replay's work is that of the state, in steps between which the loop has its turn."""

from collections.abc import Callable
from typing import Any

import pytest

from headrace.log.segment.batch_reader import NeedsDisk, ReadResult
from headrace.model.errors import CorruptLogError, StorageError
from headrace.model.nouns import Offset
from headrace.record.batch import build, new_record
from headrace.shards.loader import SLICE_RECORDS, Loader
from headrace.shards.replay_turns import ReplayTurns
from tests.support.coordination.groups_kit import HandClock, HandTimer, InlineDisk, MemoryLog

KEYS = 2 * SLICE_RECORDS + 1


class Replay(HandClock):
    """A target, and the clock that tells how much it is told in one turn of the loop."""

    def __init__(self, *, keyed: bool, rounds: int = 3) -> None:
        super().__init__()
        self.told: list[tuple[bytes | None, bytes | None]] = []
        self.by_turn = [0]
        self.done: list[Exception | None] = []
        log = MemoryLog()
        for number in range(rounds):
            log.append(build([new_record(b"%d" % number, b"%d" % key) for key in range(KEYS)]))
        disk: Any = InlineDisk()
        Loader(
            log, self, turns=ReplayTurns(self), disk=disk, keyed=keyed, done=self.done.append
        ).start()
        self.advance()

    def call_later(self, seconds: float, callback: Callable[[], None]) -> HandTimer:
        self.by_turn.append(0)
        return super().call_later(seconds, callback)

    def replay(
        self, log_offset: int, producer_id: int | None, key: bytes | None, value: bytes | None
    ) -> None:
        self.told.append((key, value))
        self.by_turn[-1] += 1

    def replay_end(self, producer_id: int, *, committed: bool) -> None:
        raise AssertionError("there is no transaction")


def test_of_each_key_the_last_record_is_applied_a_slice_at_a_time() -> None:
    replay = Replay(keyed=True)
    assert replay.done == [None]
    assert replay.told == [(b"%d" % key, b"2") for key in range(KEYS)]
    assert max(replay.by_turn) == SLICE_RECORDS


def test_where_records_of_a_key_add_up_all_are_applied() -> None:
    replay = Replay(keyed=False)
    assert replay.done == [None]
    assert len(replay.told) == 3 * KEYS


class Owner:
    """A target that notes who was told, among several."""

    def __init__(self, name: str, told: list[str]) -> None:
        self._name = name
        self._told = told

    def replay(
        self, log_offset: int, producer_id: int | None, key: bytes | None, value: bytes | None
    ) -> None:
        self._told.append(self._name)

    def replay_end(self, producer_id: int, *, committed: bool) -> None:
        raise AssertionError("there is no transaction")


def test_of_several_replays_one_after_the_other_hands_over_what_it_kept() -> None:
    clock = HandClock()
    turns = ReplayTurns(clock)
    disk: Any = InlineDisk()
    told: list[str] = []
    for name in "abc":
        log = MemoryLog()
        log.append(build([new_record(b"", b"%d" % key) for key in range(KEYS)]))
        Loader(
            log, Owner(name, told), turns=turns, disk=disk, keyed=True, done=lambda _: None
        ).start()
    clock.advance()
    assert told == ["a"] * KEYS + ["b"] * KEYS + ["c"] * KEYS


class Unreadable(MemoryLog):
    """A log whose reads fail: from memory, or from the disk only."""

    def __init__(self, failure: Exception, *, cold: bool) -> None:
        super().__init__()
        self.append(build([new_record(b"v", b"k")]))
        self.cold = cold
        self.failure = failure

    def read(self, offset: Offset, max_bytes: int, *, below: Offset) -> ReadResult | NeedsDisk:
        if self.cold:
            return NeedsDisk(offset)
        raise self.failure

    def read_from_disk(self, offset: Offset, max_bytes: int, *, below: Offset) -> ReadResult:
        raise self.failure


@pytest.mark.parametrize(
    ("failure", "cold", "told"),
    [
        (CorruptLogError("a bit has turned"), False, CorruptLogError),
        (CorruptLogError("a bit has turned"), True, CorruptLogError),
        (OSError(5, "the disk is gone"), True, StorageError),
    ],
)
def test_a_log_that_cannot_be_read_ends_the_replay_with_the_reason(
    failure: Exception, cold: bool, told: type[Exception]
) -> None:
    clock = HandClock()
    done: list[Exception | None] = []
    disk: Any = InlineDisk()
    Loader(
        Unreadable(failure, cold=cold),
        Owner("nobody", []),
        turns=ReplayTurns(clock),
        disk=disk,
        keyed=True,
        done=done.append,
    ).start()
    clock.advance()
    (reason,) = done
    assert type(reason) is told
    assert str(failure) in str(reason)
