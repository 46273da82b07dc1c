"""A stream's turns and ends: who is called again, what is read for whom, and what is let go."""

from typing import Any

import pytest

from headrace.coordination.queues.engine import stream_queue
from headrace.coordination.queues.messages import stream_log
from headrace.coordination.queues.messages.stream_chunk import Chunk
from headrace.coordination.queues.messages.stream_reader import StreamReader
from headrace.coordination.queues.queue_settings import Published, StreamOffset, StreamStart
from headrace.model.errors import ApiError, ErrorCode
from tests.support.amqp_log import PLACE, message
from tests.support.amqp_streams import FIRST, LAST, Stream, offset
from tests.support.log import NOW_MS, batch_of


def reads(here: Stream, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Where the log is read from now on."""
    asked: list[int] = []
    read = here.log._reader.read

    def noted(at: int, *rest: Any) -> None:
        asked.append(at)
        read(at, *rest)

    monkeypatch.setattr(here.log._reader, "read", noted)
    return asked


def filled(count: int = 20) -> Stream:
    """A stream of that many batches of a message, none of which is in memory."""
    here = Stream()
    for number in range(count):
        here.published(f"{number:0400}")
    return here


def cold(count: int = 20) -> Stream:
    """The same on a disk that answers later, without room to keep what was read."""
    here = filled(count)
    here.logs.windows.bytes_max = 0
    here.world.disk.cold = True
    return here


# Turns


def test_a_slow_reader_keeps_in_memory_what_it_has_still_to_get(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = Stream()
    here.published("before")
    slow = here.read(FIRST, prefetch=1)
    quick = here.read(FIRST)
    asked = reads(here, monkeypatch)
    for number in range(5):
        here.published(str(number))
    slow.acknowledge()
    assert (len(quick.given), slow.bodies) == (6, ["before", "0"])
    assert asked == []


def test_what_two_readers_want_is_read_once_and_handed_to_both(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = cold()
    asked = reads(here, monkeypatch)
    readers = [here.consume(offset(at), prefetch=1) for at in (5, 5, 9, 9)]
    assert here.deliver() == 0
    here.world.settle()
    assert here.deliver() == 4
    assert [reader.offsets for reader in readers] == [[5], [5], [9], [9]]
    assert asked == [5, 9]


def test_who_is_left_to_the_next_turn_is_called_again_though_nothing_happens() -> None:
    here = filled(40)
    for at in reversed(range(0, 40, 2)):
        here.consume(offset(at), prefetch=1)
    here.log._cache.clear()
    given = 0
    for _ in range(20):
        asked = here.asked_to_deliver
        given += here.deliver()
        here.world.settle()
        if asked == here.asked_to_deliver:
            break
    assert given == 20


def test_nobody_is_called_again_before_the_disk_has_answered() -> None:
    here = cold()
    for at in range(stream_log.READS_AT_ONCE + 2):
        here.consume(offset(at), prefetch=1)
    here.deliver()
    asked = here.asked_to_deliver
    for _ in range(5):
        here.world.clock.turn()
        here.deliver()
    assert here.asked_to_deliver == asked
    here.world.settle()
    assert here.asked_to_deliver > asked


def test_a_stream_that_nobody_waits_for_calls_nobody() -> None:
    here = cold()
    readers = [here.consume(offset(at), prefetch=1) for at in range(12)]
    here.run()
    assert [reader.offsets for reader in readers] == [[at] for at in range(12)]
    here.deliver()
    here.world.settle()
    asked = here.asked_to_deliver
    here.deliver()
    here.world.settle()
    assert here.asked_to_deliver == asked


def test_what_was_read_for_a_reader_outlives_turns_that_did_not_reach_him(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stream_queue, "BATCH_MESSAGES_MAX", 1)
    here = cold()
    asked = reads(here, monkeypatch)
    readers = [here.consume(offset(at), prefetch=1) for at in (0, 5, 10)]
    here.deliver()
    here.world.settle()
    assert [here.deliver() for _ in range(3)] == [1, 1, 1]
    assert [reader.offsets for reader in readers] == [[0], [5], [10]]
    assert asked == [0, 5, 10]


def test_what_was_read_for_a_reader_who_takes_nothing_any_more_is_let_go_with_the_turn() -> None:
    here = cold()
    reader = here.consume(offset(5), prefetch=1)
    here.deliver()
    here.world.settle()
    assert len(here.log._handed) == 1
    reader.channel.paused = True
    here.deliver()
    assert here.log._handed == {}


def test_what_was_read_before_retention_passed_its_reader_is_not_what_he_gets() -> None:
    here = cold()
    reader = here.consume(FIRST, prefetch=1)
    here.deliver()
    here.world.settle()
    here.world.disk.cold = False
    here.retain(10)
    assert here.deliver() == 1
    assert reader.offsets == [10]


def test_a_filter_that_finds_nothing_to_the_end_calls_nobody_again() -> None:
    here = filled(3)
    here.consume(FIRST, wanted=frozenset({"none"}))
    here.run()
    here.publish("behind")
    here.world.settle()
    asked = here.asked_to_deliver
    assert here.deliver() == 0
    here.world.settle()
    assert here.asked_to_deliver == asked


class BeyondReadable:
    """A log whose stretch in memory goes beyond what may be read. `ReadableLog`"""

    start, readable_end, end = 0, 2, 4

    def __init__(self) -> None:
        self.log = self

    def chunk(self, at: int, reader: StreamReader) -> Chunk:
        return Chunk(0, 4, range(4), [message("m")] * 4)

    def look_again(self) -> None:
        """Nobody has to be called."""


def test_what_a_filter_passes_ends_where_reading_does() -> None:
    reader = StreamReader(BeyondReadable(), {"none"})
    reader.begin(0)
    assert reader.read(0, 10) == ([], [])
    assert reader.at == 2


def test_who_reads_by_a_time_is_called_once_that_is_found() -> None:
    here = filled(3)
    for start in (LAST, StreamOffset(StreamStart.TIMESTAMP, NOW_MS)):
        here.consume(start)
        assert here.deliver() == 0
        asked = here.asked_to_deliver
        here.world.settle()
        assert here.asked_to_deliver > asked
        assert here.deliver() > 0


def test_the_last_batch_may_be_the_first_and_of_one_message() -> None:
    here = Stream()
    here.published("a")
    assert here.read(LAST).bodies == ["a"]
    here.published("b")
    here.retain(1)
    assert here.read(LAST).bodies == ["b"]


# What is kept


def test_what_was_read_for_a_reader_who_left_meanwhile_is_not_kept() -> None:
    here = filled()
    here.world.disk.cold = True
    reader = here.consume(FIRST)
    here.deliver()
    reader.leave()
    here.world.settle()
    assert here.logs.windows.bytes == 0


def test_a_reader_who_leaves_before_his_turn_leaves_nothing_behind() -> None:
    here = cold()
    stays, leaves = here.consume(offset(5), prefetch=1), here.consume(offset(9), prefetch=1)
    here.deliver()
    here.world.settle()
    leaves.leave()
    assert len(here.log._handed) == 1
    here.deliver()
    assert stays.offsets == [5]


def test_a_stream_whose_start_lies_behind_what_may_be_read_has_no_messages() -> None:
    here = Stream()
    here.published("a")
    here.produce("open", "open", producer=(7, 0, 0))
    here.published("behind")
    here.queue.touch(here.now)
    assert here.queue.ready == 1
    assert here.retain(3) == 3
    here.queue.touch(here.now)
    assert here.queue.ready == 0
    here.abort(7)
    here.queue.touch(here.now)
    assert here.queue.ready == 2, "the message behind, and the marker"


# Failures


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
