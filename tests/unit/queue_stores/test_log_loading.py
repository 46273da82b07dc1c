"""What is read of a queue's log when it is begun with, what is counted, and what is told of it."""

import pytest

from headrace.log.log import Log
from headrace.model.errors import ApiError, ErrorCode, HeadraceError
from headrace.queue_stores.log import message_reader, settled_files
from headrace.queue_stores.log.settled_files import settled_path
from tests.support.log.log import NOW_MS, batch_of
from tests.support.queues.log import LogQueue


def unloaded(before: LogQueue) -> LogQueue:
    """The next life after a kill, with nothing read yet."""
    world = before.world.after_power_cut(before.world.disk.left_by_a_kill())
    return LogQueue(world, epoch=2, load=False)


def loaded(here: LogQueue, settled: bytes | None = None) -> list[HeadraceError | None]:
    """What is told when all is read."""
    told: list[HeadraceError | None] = []
    here.store.load(told.append, settled)
    here.settle()
    return told


def test_what_keeps_the_file_of_what_is_settled_from_being_read_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = LogQueue()
    here.published("a")
    here.wait()

    def broken(*_: object) -> bytes:
        raise OSError(5, "broken")

    monkeypatch.setattr(settled_files, "read_file", broken)
    (error,) = loaded(unloaded(here))
    assert isinstance(error, ApiError)
    assert error.code is ErrorCode.KAFKA_STORAGE_ERROR


def test_what_keeps_the_messages_from_being_counted_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = LogQueue(load=False)
    here.produce(batch_of(b"a"))
    here.settle()

    def refuse(*_: object, **__: object) -> object:
        raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)

    monkeypatch.setattr(Log, "read", refuse)
    (error,) = loaded(here)
    assert isinstance(error, ApiError)
    assert error.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_what_was_read_of_it_before_is_not_read_again_though_it_is_empty() -> None:
    here = LogQueue(load=False)
    here.world.disk.open(settled_path(here.partition.log.directory), create=True).close()
    told: list[HeadraceError | None] = []
    here.store.load(told.append, b"")
    assert told == [None]


def test_what_is_undecided_at_a_start_is_no_message_before_it_is_committed() -> None:
    here = LogQueue(load=False)
    here.produce(batch_of(b"a"))
    here.partition.append_internal(
        batch_of(b"b", producer=(7, 0, 0), transactional=True), now_ms=NOW_MS
    )
    here.settle()
    here.load()
    assert here.q.ready == 1
    here.partition.append_marker(7, 0, commit=True, coordinator_epoch=1, now_ms=NOW_MS)
    here.settle()
    assert here.q.ready == 2
    assert here.gets() == ["a", "b"]


def test_messages_that_are_kept_though_not_persistent_are_not_counted_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = LogQueue()
    here.publish("a", persistent=False)
    here.wait()
    assert here.store._settlement.transient
    stopped = here.stopped()
    monkeypatch.delattr(message_reader, "messages_in")
    assert stopped.stopped().q.ready == 1


def test_once_nothing_is_left_that_is_not_persistent_no_start_counts_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = LogQueue(drops_transient=True)
    here.published("a")
    here.publish("b", persistent=False)
    here.wait()
    assert here.gets() == ["a", "b"]
    here.acknowledge(2)
    here.wait()
    again = here.stopped()
    again.wait()
    monkeypatch.delattr(message_reader, "messages_in")
    assert again.stopped().q.ready == 1


def test_messages_that_were_there_before_a_start_expire_after_it() -> None:
    here = LogQueue()
    here.published("a", expiration_ms=1000)
    here.published("b")
    here.wait()
    again = here.stopped()
    again.world.clock.advance(2.0)
    assert again.gets() == ["b"]
