"""A stream's turns and ends: who is called again, what is read for whom, and what is let go."""

from typing import Any

import pytest

from headrace.queue_stores.queue_settings import StreamOffset, StreamStart
from headrace.queue_stores.stream import stream_reading
from headrace.queue_stores.stream.stream_chunk import Chunk
from headrace.queue_stores.stream.stream_reader import StreamReader
from headrace.queues.engine import stream_readers
from tests.support.log.log import NOW_MS
from tests.support.queues.log import message
from tests.support.queues.streams import FIRST, LAST, NEXT, Stream, cold, filled, offset


def reads(here: Stream, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Where the log is read from now on."""
    asked: list[int] = []
    read = here.log._reader.read

    def noted(at: int, *rest: Any) -> None:
        asked.append(at)
        read(at, *rest)

    monkeypatch.setattr(here.log._reader, "read", noted)
    return asked


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
    for at in range(stream_reading.READS_AT_ONCE + 2):
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
    monkeypatch.setattr(stream_readers, "BATCH_MESSAGES_MAX", 1)
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


def test_next_reader_goes_on_elsewhere_at_the_committed_end() -> None:
    here = Stream()
    here.published("a")
    here.publish("unflushed")
    reader = here.consume(NEXT)
    begun: list[int] = []
    here.queue.readers.when_begun(reader.consumer, begun.append)
    (consumer,) = here.queue.readers.resign()
    assert begun == [1]
    assert consumer.wishes.stream_offset == offset(1)


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
