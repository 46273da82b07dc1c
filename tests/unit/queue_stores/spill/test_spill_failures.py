"""Messages of queues in memory on disk: what fails, what bounds hold, and how it ends."""

import errno
import logging
import tracemalloc
from itertools import pairwise

import pytest

from headrace.model.errors import HeadraceError
from headrace.queue_stores.memory.memory_messages import MemoryFull
from headrace.queue_stores.memory.spill import KEPT_SHARE, RETRY_SECONDS, SPILL_SHARE
from headrace.queue_stores.memory.spill_extent import EXTENT_BYTES, OBJECT_BYTES
from headrace.queue_stores.queue_settings import Published
from headrace.testing.disk import SimDisk
from tests.support.amqp.deliveries import getter
from tests.support.queues.queues import settings
from tests.support.queues.spill import (
    DATA,
    EXTENT,
    MARK,
    ONE,
    SpillRoom,
    flipped,
    logged,
    message_of,
)

# When, and what


def test_a_full_disk_is_told_once_and_what_was_taken_stays_until_there_is_room(
    caplog: pytest.LogCaptureFixture,
) -> None:
    room = SpillRoom(MARK)
    queue = room.queue()
    caplog.set_level(logging.INFO)
    room.disk.fail_writes(code=errno.ENOSPC, partial=1000)
    room.publish(queue, 150)
    room.settle()
    for _ in range(5):
        room.clock.advance(RETRY_SECONDS)
        room.settle()
    room.use.look()
    short = [room.use.is_short]
    (told,) = logged(caplog)
    assert f"cannot be written to {DATA}: [Errno 28]" in told
    assert "Free space on the disk" in told
    with pytest.raises(MemoryFull):
        room.publish(queue, 100)
    taken = queue.ready
    room.disk.heal()
    room.clock.advance(RETRY_SECONDS)
    room.settle()
    assert [*short, room.use.is_short] == [True, False]
    assert logged(caplog) == [told]
    again = "AMQP messages are written to /data again"
    assert logged(caplog, logging.INFO).count(again) == 1
    room.disk.fail_writes()
    more = room.fill(queue, 20)
    assert len(logged(caplog)) == 2
    room.disk.heal()
    room.clock.advance(RETRY_SECONDS)
    room.settle()
    assert logged(caplog, logging.INFO).count(again) == 2
    begun = [line for line in logged(caplog, logging.INFO) if "messages above" in line]
    assert len(begun) == 1
    assert room.all_of(queue) == [*range(taken), *more]
    assert (room.use.bytes, room.names) == (0, [])


def test_after_a_failed_write_the_next_is_tried_a_second_later_and_no_sooner() -> None:
    room = SpillRoom(MARK)
    queue = room.queue()
    room.disk.fail_writes()
    room.publish(queue, 80)
    room.settle()
    tried = room.disk.counts["write"]
    room.publish(queue, 5)
    room.clock.advance(RETRY_SECONDS - 0.001)
    room.settle()
    assert room.disk.counts["write"] == tried
    room.clock.advance(0.001)
    room.settle()
    assert room.disk.counts["write"] > tried


def test_what_could_not_be_written_is_handed_out_all_the_same() -> None:
    room = SpillRoom(MARK)
    queue = room.queue()
    room.disk.fail_writes()
    room.publish(queue, 150)
    room.settle()
    assert room.all_of(queue) == list(range(150))
    assert room.use.bytes == 0
    room.disk.heal()
    room.clock.advance(RETRY_SECONDS)
    room.settle()
    assert room.names == []


def test_a_queue_whose_messages_cannot_be_read_back_says_so_and_others_go_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    room = SpillRoom(MARK)
    queue, other = room.queue(), room.queue(name="other")
    room.fill(queue, 300)
    flipped(room)
    got = 0
    while not isinstance(room.got[-1] if room.got else None, HeadraceError):
        queue.get(getter(queue, room.channel, room.got.append, room.now, no_ack=True), room.now)
        room.settle()
        got += 1
    assert 40 < got < 80
    (told,) = logged(caplog)
    assert told.startswith("queue 'q' in vhost '/': messages that were on disk cannot be read back")
    with pytest.raises(HeadraceError, match="cannot be read back"):
        queue.publish(Published(message_of(0)), room.now)
    numbers = room.publish(other, 10)
    assert room.all_of(other) == list(numbers)
    queue.delete()
    room.settle()
    assert (room.use.bytes, room.names) == (0, [])


def test_getters_who_wait_for_what_cannot_be_read_are_told() -> None:
    room = SpillRoom(MARK)
    queue = room.queue()
    room.fill(queue, 300)
    flipped(room)
    for _ in range(100):
        queue.get(getter(queue, room.channel, room.got.append, room.now, no_ack=True), room.now)
    room.settle()
    assert len(room.got) == 100
    assert isinstance(room.got[-1], HeadraceError)


def test_a_move_that_fails_is_not_tried_before_a_write_has_succeeded_and_holds_up_none() -> None:
    room = SpillRoom(MARK, file_bytes=3000)
    queue = room.queue()
    room.fill(queue, 300)
    room.consume(queue)
    room.disk.fail_writes()
    for tag in range(1, 301):
        if tag % 60:
            room.channel.ack(tag)
    room.settle()
    wasteful = [room.files.is_wasteful]
    tried = room.disk.counts["write"]
    room.clock.advance(10 * RETRY_SECONDS)
    room.settle()
    assert room.disk.counts["write"] == tried
    room.disk.heal()
    queue.cancel(next(iter(queue.consumers)), room.now)
    more = room.publish(queue, 80)
    room.settle()
    assert [*wasteful, room.files.is_wasteful] == [True, False]
    room.channel.recover()
    assert room.all_of(queue) == [*range(59, 300, 60), *more]


# Bounds


def test_what_is_read_back_stays_within_bounds_while_memory_is_short() -> None:
    room = SpillRoom(1000 * ONE)
    queues = [room.queue() for _ in range(50)]
    for queue in queues:
        room.fill(queue, 100)
    hog = room.queue(name="hog")
    room.disk.fail_writes()
    while room.use.bytes < 0.8 * room.use.bytes_max:
        room.publish(hog)
    room.settle()
    for queue in queues:
        for _ in range(40):
            room.get(queue, no_ack=True)
            most = KEPT_SHARE * room.use.bytes_max
            assert room.use.bytes <= room.use.spill_at or room.spill._kept_bytes <= most


def test_no_more_is_read_back_at_once_than_the_bound() -> None:
    room = SpillRoom(20 * EXTENT)
    most = KEPT_SHARE * room.use.bytes_max
    queues = [room.queue() for _ in range(8)]
    for queue in queues:
        room.fill(queue, 40)
    getters = 0
    for queue in queues:
        while queue.ready and getters < 300:
            queue.get(getter(queue, room.channel, room.got.append, room.now, no_ack=True), room.now)
            getters += 1
            assert room.spill._loading_bytes <= most or len(room.spill._loading) == 1
            if room.store(queue)._older is None or len(room.got) < getters:
                break
    assert room.spill._waiting
    room.settle()
    assert len(room.got) == getters
    assert room.spill._loading_bytes == 0


def test_messages_larger_than_an_extent_are_extents_of_their_own() -> None:
    room = SpillRoom(10 << 20)
    queue = room.queue()
    for _ in range(20):
        room.publish(queue, size=1 << 20)
        room.settle()
        assert room.use.bytes <= SPILL_SHARE * (10 << 20) + (2 << 20)
    assert room.all_of(queue) == list(range(20))
    assert (room.use.bytes, room.names) == (0, [])


def test_the_next_extent_is_read_before_it_is_needed_where_memory_has_room() -> None:
    room = SpillRoom(MARK)
    queue = room.queue()
    room.fill(queue, 300)
    room.store(queue).settle(range(200))
    room.settle()
    extents = room.store(queue)._older._extents  # type: ignore[union-attr]
    first = next(extent for extent in extents if not extent.is_at_hand)
    for _ in range(2):
        room.store(queue).read(first.base, 1)
        room.settle()
    at = extents.index(first)
    assert [extent.is_at_hand for extent in extents[at : at + 3]] == [True, True, False]


def test_a_spilled_message_takes_less_than_four_bytes_of_memory() -> None:
    count = 20_000
    room = SpillRoom(1 << 20, extent_bytes=EXTENT_BYTES)
    queue = room.queue()
    room.disk.record = lambda operation: None  # type: ignore[method-assign]  # the disk's own memory
    tracemalloc.start()
    try:
        room.publish(queue, 5000, size=10)
        room.settle()
        before, _ = tracemalloc.get_traced_memory()
        content = sum(len(node.content) for node in room.disk.nodes.values())
        while queue.ready < count + 5000:
            room.publish(queue, 1000, size=10)
            room.settle()
        after, _ = tracemalloc.get_traced_memory()
        written = sum(len(node.content) for node in room.disk.nodes.values()) - content
    finally:
        tracemalloc.stop()
    # A file grows in memory by an eighth more than it holds.
    assert (after - before - written * 9 / 8) / count < 4
    older = room.store(queue)._older
    assert older is not None
    assert len(older._extents) * OBJECT_BYTES / queue.ready < 4
    assert all(a.end == b.base for a, b in pairwise(older._extents))


# Ends


def test_a_close_in_the_middle_of_a_write_removes_the_files_after_it() -> None:
    room = SpillRoom(MARK)
    queue = room.queue()
    room.publish(queue, 100)
    room.clock.turn()
    closed: list[bool] = []
    room.spill.close(lambda: closed.append(True))
    room.publish(queue, 10)
    assert len(room.disk._queue) == 1  # the files go when they are not written to any more
    room.settle()
    assert (closed, room.names, room.disk.open_files) == ([True], [], 0)


def test_a_close_in_the_middle_of_a_read_tells_nobody(caplog: pytest.LogCaptureFixture) -> None:
    room = SpillRoom(MARK)
    queue = room.queue()
    room.fill(queue, 300)
    room.store(queue).read(200, 1)
    reads = room.disk._queue
    waiting, reads[:] = list(reads), []
    assert waiting
    room.spill.close(lambda: None)
    reads += waiting
    room.settle()
    assert logged(caplog) == []
    assert room.store(queue)._error is None


def test_a_close_removes_what_is_there() -> None:
    room = SpillRoom(MARK)
    room.fill(room.queue(), 300)
    assert room.names != []
    closed: list[bool] = []
    room.spill.close(lambda: closed.append(True))
    room.settle()
    assert (closed, room.names) == ([True], [])


def test_without_a_spill_memory_refuses_at_its_bound_as_before() -> None:
    room = SpillRoom(MARK, disk=SimDisk())
    room.use.spill, room.use.spill_at = None, room.use.bytes_hard_max
    queue = room.queue()
    room.publish(queue, 200)
    with pytest.raises(MemoryFull, match=r"set amqp\.memory\.bytes\.max higher"):
        room.publish(queue)


def test_who_waits_for_what_died_gets_it_though_another_looks_at_the_head_each_time() -> None:
    room = SpillRoom(MARK)
    queue = room.queue(settings(dead_letters=True))
    room.fill(queue, 300, expiration_ms=60_000)
    room.consume(queue)
    queue.cancel(next(iter(queue.consumers)), room.now)
    room.channel.nack(150)  # it is the head again, on disk
    room.channel.nack(290, requeue=False)  # so is what died, elsewhere
    for _ in range(10):
        room.deliver(queue)
        room.disk.settle()
    assert room.died == [289]
