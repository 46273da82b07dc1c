"""Reading a queue's messages back: when it is told, where to read on, and why something is not."""

from collections.abc import Callable

import pytest

from headrace.config.log_config import LogConfig
from headrace.log.log import Log
from headrace.model.errors import ApiError, ErrorCode, HeadraceError
from headrace.queue_stores.log.message_reader import MessageReader, Read, as_error
from headrace.queue_stores.record_messages import Found
from tests.support.log.log import batch_of
from tests.support.queues.log import LogQueue

NOTHING = Found([], [], [], [])


class Told:
    """What a reader of one log told, and whether that was later than the question."""

    def __init__(self, here: LogQueue, settled_to: int = 0) -> None:
        self.settled_to = settled_to
        self.all: list[tuple[Read | HeadraceError, bool]] = []
        world = here.world
        self.reader = MessageReader(here.partition, world.disk, world.clock, None, self)

    @property
    def was_settled(self) -> Callable[[int], bool] | None:
        return self.settled_to.__gt__ if self.settled_to else None

    def unsettled_from(self, position: int) -> int:
        return max(position, self.settled_to)

    def read(self, at: int, below: int) -> None:
        self.reader.read(at, below, lambda read, later: self.all.append((read, later)))


def two_batches() -> LogQueue:
    here = LogQueue(load=False)
    here.produce(batch_of(b"a", b"b", b"c"))
    here.produce(batch_of(b"d"))
    here.settle()
    return here


def test_what_is_at_hand_is_told_at_once_and_said_to_be() -> None:
    told = Told(two_batches())
    told.read(0, 4)
    ((read, later),) = told.all
    assert isinstance(read, Read)
    assert (read.found.positions, read.following, later) == ([0, 1, 2, 3], 4, False)


def test_what_the_disk_is_asked_for_is_said_to_be_later() -> None:
    here = two_batches()
    here.world.disk.cold = True
    told = Told(here)
    told.read(0, 4)
    assert told.all == []
    here.settle()
    ((read, later),) = told.all
    assert isinstance(read, Read)
    assert (read.following, later) == (4, True)


def test_an_offset_that_the_log_does_not_have_is_told_at_once_and_said_to_be() -> None:
    told = Told(two_batches())
    told.read(9, 12)
    ((error, later),) = told.all
    assert isinstance(error, ApiError)
    assert (error.code, later) == (ErrorCode.OFFSET_OUT_OF_RANGE, False)


def test_where_all_is_settled_the_log_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Log, "read", None)
    for settled_to in (4, 9):
        told = Told(two_batches(), settled_to)
        told.read(1, 4)
        assert told.all == [(Read(NOTHING, 4), False)]


def test_who_reads_always_comes_on_though_there_is_no_whole_batch() -> None:
    told = Told(two_batches())
    told.read(0, 2)
    assert told.all == [(Read(NOTHING, 2), False)]


def test_no_more_than_a_mebibyte_of_a_long_log_is_in_memory_at_once() -> None:
    here = LogQueue(load=False, config=LogConfig(segment_bytes=1 << 23))
    for _ in range(40):
        here.produce(batch_of(bytes(50_000)))
    here.settle()
    told = Told(here)
    told.read(0, 40)
    ((read, _),) = told.all
    assert isinstance(read, Read)
    assert 0 < sum(len(message.body) for message in read.found.messages) <= 1 << 20
    assert read.following == len(read.found.messages)


def test_what_the_disk_could_not_do_is_an_error_of_storage_with_its_words() -> None:
    error = as_error(OSError(5, "broken"))
    assert isinstance(error, ApiError)
    assert error.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert "broken" in str(error)
    ours = HeadraceError("ours")
    assert as_error(ours) is ours
    with pytest.raises(ZeroDivisionError):
        as_error(ZeroDivisionError())
