"""Streams whose partition or disk fails, and how streams end."""

from typing import Any

import pytest

from headrace.model.errors import ApiError, ErrorCode
from headrace.queue_stores.queue_settings import Published, StreamOffset, StreamStart
from tests.support.log.log import NOW_MS, batch_of
from tests.support.queues.log import PLACE, message
from tests.support.queues.streams import FIRST, LAST, Stream, cold, filled, offset


def broken(here: Stream) -> list[bool]:
    """Have the partition's disk fail; tells what is heard of what was published."""
    told: list[bool] = []
    here.partition.close(ErrorCode.KAFKA_STORAGE_ERROR)
    here.world.settle()
    here.store.when_stored(told.append)
    return told


def test_a_partition_that_fails_is_noticed_before_anything_is_published() -> None:
    here = filled(2)
    here.read(FIRST)
    assert broken(here) == [False]


def test_a_stream_that_failed_gives_nothing_of_what_is_in_memory() -> None:
    here = Stream()
    reader = here.read(FIRST, prefetch=1)
    here.published("a", "b", "c")
    assert reader.bodies == ["a"]
    broken(here)
    reader.acknowledge()
    assert reader.bodies == ["a"]


def test_a_stretch_that_comes_after_the_stream_failed_is_not_kept() -> None:
    here = filled()
    here.world.disk.cold = True
    here.consume(FIRST)
    here.deliver()
    here.partition.close(ErrorCode.KAFKA_STORAGE_ERROR)
    here.world.settle()
    assert here.logs.windows.bytes == 0


@pytest.mark.parametrize("later", [True, False])
def test_a_disk_that_cannot_be_read_fails_the_stream(
    monkeypatch: pytest.MonkeyPatch, later: bool
) -> None:
    here = cold()
    reader = here.consume(FIRST)
    told: list[bool] = []

    def fails(*_: Any, **__: Any) -> None:
        if later:
            raise OSError("gone")
        raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR)

    log = here.partition.log
    monkeypatch.setattr(log, "read_from_disk" if later else "read", fails)
    here.deliver()
    here.world.settle()
    here.store.when_stored(told.append)
    assert told == [False]
    assert reader.given == []


@pytest.mark.parametrize("start", [LAST, StreamOffset(StreamStart.TIMESTAMP, 0)])
def test_a_place_that_cannot_be_looked_up_fails_the_stream(
    monkeypatch: pytest.MonkeyPatch, start: StreamOffset
) -> None:
    here = filled(3)
    told: list[bool] = []

    def fails(*_: Any, **__: Any) -> None:
        raise OSError("gone")

    monkeypatch.setattr(here.partition.log, "read_from_disk", fails)
    monkeypatch.setattr(here.partition.log, "offset_for_time", fails)
    here.consume(start)
    here.world.settle()
    here.store.when_stored(told.append)
    assert told == [False]


def test_a_place_that_retention_took_while_it_was_looked_up_is_looked_up_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = filled(3)
    look = here.partition.log.read_from_disk
    failures = [ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)]

    def read(*arguments: Any, **named: Any) -> Any:
        if failures:
            raise failures.pop()
        return look(*arguments, **named)

    monkeypatch.setattr(here.partition.log, "read_from_disk", read)
    assert here.read(LAST).offsets == [2]


def test_a_place_that_is_found_after_the_stream_failed_begins_no_reading() -> None:
    here = filled(3)
    found: list[int] = []
    here.log.find(LAST, found.append)
    here.partition.close(ErrorCode.KAFKA_STORAGE_ERROR)
    asked = here.asked_to_deliver
    here.world.settle()
    assert found == []
    assert here.asked_to_deliver <= asked + 1, "of the failure alone"


def test_nobody_is_called_again_for_a_stream_that_failed_since() -> None:
    here = filled(3)
    here.log.look_again()
    here.log.end_turn(complete=True)
    here.partition.close(ErrorCode.KAFKA_STORAGE_ERROR)
    asked = here.asked_to_deliver
    here.world.settle()
    assert here.asked_to_deliver == asked


# Ends


def test_what_was_published_last_is_written_before_a_stream_is_closed() -> None:
    here = Stream()
    here.queue.publish(Published(message("a"), 0, None, True), here.now)
    done: list[bool] = []
    here.store.close(lambda: done.append(True))
    assert (done, here.partition.log.end_offset) == ([True], 1)


def test_a_stream_that_was_closed_tells_nobody_of_what_others_write() -> None:
    here = Stream()
    here.published("a")
    here.store.close(lambda: None)
    here.world.settle()
    asked = here.asked_to_deliver
    here.partition.append_internal(batch_of(b"b"), now_ms=NOW_MS)
    here.world.settle()
    assert here.asked_to_deliver == asked


def test_retention_is_held_up_again_once_a_stream_is_deleted() -> None:
    here = Stream()
    here.published("a")
    holds = here.partition.log.context.holds
    assert holds.first(PLACE) is None
    here.queue.delete()
    assert holds.first(PLACE) == 0, "whoever has its name next says what of it is to be kept"


def test_a_reader_of_a_stream_without_a_log_that_begins_far_on_gets_nothing_before_that() -> None:
    here = Stream(make_log=False)
    reader = here.read(offset(2))
    here.publish("0", "1", "2")
    assert here.store.ready == 3
    here.store.have_log(here.make_partition())
    here.run()
    assert reader.bodies == ["2"]
