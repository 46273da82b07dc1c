"""What of queues in memory is written to disk, when, and what is not."""

from headrace.queue_stores.memory.spill import LOW_SHARE, RETRY_SECONDS
from headrace.queue_stores.memory.spill_extent import EXTENT_BYTES
from tests.support.queues.spill import AT, MARK, ONE, SpillRoom


def test_it_is_written_until_the_low_mark_however_many_writes_that_takes() -> None:
    room = SpillRoom(10 << 20, extent_bytes=EXTENT_BYTES)
    queue = room.queue()
    room.publish(queue, 180, size=100_000)
    room.settle()
    assert room.use.bytes <= LOW_SHARE * room.use.bytes_max
    assert room.disk.counts["write"] > 3


def test_one_write_is_under_way_at_a_time() -> None:
    room = SpillRoom(MARK)
    queue = room.queue()
    for _ in range(5):
        room.publish(queue, 30)
        room.clock.turn()
        assert len(room.disk._queue) <= 1
    room.settle()
    assert room.all_of(queue) == list(range(150))


def test_at_rest_no_timer_runs() -> None:
    room = SpillRoom(MARK)
    room.fill(room.queue(), 300)
    room.clock.advance(2 * RETRY_SECONDS)
    room.settle()
    assert len(room.deadlines) == 0


def test_queues_with_less_than_an_extent_each_go_to_disk_again_and_again() -> None:
    room = SpillRoom(MARK, extent_bytes=40 * ONE)
    queues = [room.queue() for _ in range(10)]
    for _ in range(6):
        for queue in queues:
            room.publish(queue, 8)
        room.settle()
        assert room.use.bytes <= AT
    assert all(len(room.all_of(queue)) == 48 for queue in queues)


def test_what_was_settled_before_it_is_written_is_not_there_afterwards() -> None:
    room = SpillRoom(MARK)
    room.spill._low = 0  # so that all of it is written
    queue = room.queue()
    room.publish(queue, 70)
    room.consume(queue, prefetch=70)
    for tag in range(2, 71, 2):
        room.channel.ack(tag)
    queue.cancel(next(iter(queue.consumers)), room.now)
    more = room.publish(queue, 50)
    room.settle()
    assert room.use.bytes < 10 * ONE
    room.channel.recover()
    assert room.all_of(queue) == [*range(0, 70, 2), *more]
    room.settle()
    assert (room.use.bytes, room.names) == (0, [])


def test_what_is_left_of_a_queue_goes_though_there_are_gaps_in_it() -> None:
    room = SpillRoom(MARK)
    queue = room.queue()
    room.fill(queue, 300)
    room.consume(queue)
    for tag in range(61, 251):
        room.channel.ack(tag)
    queue.delete()
    room.all.clear()
    room.settle()
    assert (room.use.bytes, room.names) == (0, [])


def test_after_a_close_nothing_is_written_and_queues_may_still_be_deleted() -> None:
    room = SpillRoom(MARK)
    queue = room.queue()
    room.fill(queue, 300)
    writes = room.disk.counts["write"]
    room.publish(queue, 100)
    room.spill.close(lambda: None)
    room.settle()
    assert (room.disk.counts["write"], room.names) == (writes, [])
    queue.delete()
    room.settle()
    assert room.use.bytes == 0
