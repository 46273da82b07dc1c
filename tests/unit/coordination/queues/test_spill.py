"""Messages of queues in memory go to disk while memory is short, and come back in order."""

import errno
import logging
import tracemalloc
from itertools import pairwise

import pytest

from headrace.coordination.queues.engine.hosted_queue import Getter, HostedQueue
from headrace.coordination.queues.messages.extent import EXTENT_BYTES, OBJECT_BYTES, Extent
from headrace.coordination.queues.messages.memory_messages import MemoryFull
from headrace.coordination.queues.messages.spill import (
    KEPT_SHARE,
    LOW_SHARE,
    RETRY_SECONDS,
    SPILL_SHARE,
)
from headrace.coordination.queues.messages.spill_files import HaveContent
from headrace.coordination.queues.messages.spill_order import LOOK_QUEUES
from headrace.coordination.queues.queue_settings import Overflow, Published
from headrace.model.errors import HeadraceError
from headrace.testing.disk import SimDisk
from tests.support.amqp_queues import settings
from tests.support.amqp_spill import DATA, EXTENT, ONE, SpillRoom, message_of, number_of

MARK = 100 * ONE
AT = int(SPILL_SHARE * MARK)
LOW = int(LOW_SHARE * MARK)


def logged(caplog: pytest.LogCaptureFixture, level: int = logging.WARNING) -> list[str]:
    """The lines of at least a level."""
    return [record.getMessage() for record in caplog.records if record.levelno >= level]


# When, and what


def test_from_three_quarters_of_the_mark_on_messages_are_written_down_to_the_low_one() -> None:
    room = SpillRoom(MARK)
    queue = room.queue()
    room.publish(queue, 75)
    room.settle()
    assert room.use.bytes == AT
    assert (room.names, len(room.files)) == ([], 0)
    room.publish(queue)
    room.settle()
    assert len(room.names) == 1
    assert LOW - EXTENT - ONE < room.use.bytes <= LOW


def test_publishers_are_not_stopped_while_the_disk_keeps_up_and_all_comes_back_in_order() -> None:
    room = SpillRoom(MARK)
    short: list[bool] = []
    room.use.on_short = lambda: short.append(room.use.is_short)
    queue = room.queue()
    for _ in range(100):
        room.publish(queue, 10)
        room.settle()
        room.use.look()
        assert room.use.bytes <= AT + 10 * ONE
    assert short == []
    assert queue.ready == 1000
    assert room.all_of(queue) == list(range(1000))
    assert (room.use.bytes, room.names, room.disk.open_files) == (0, [], 0)


def test_publishers_are_stopped_where_the_disk_does_not_keep_up_and_go_on_with_the_write() -> None:
    room = SpillRoom(MARK)
    short: list[bool] = []
    room.use.on_short = lambda: short.append(room.use.is_short)
    queue = room.queue()
    room.publish(queue, 100)
    room.clock.turn()  # what is to be written is chosen; the disk is still at it
    room.use.look()
    assert short == [True]
    room.settle()
    assert short == [True, False]


def test_the_largest_queue_gives_way_and_keeps_its_oldest_in_memory() -> None:
    room = SpillRoom(MARK)
    small, large = room.queue(name="small"), room.queue(name="large")
    room.publish(small, 20)
    numbers = room.publish(large, 60)
    room.settle()
    assert room.store(small).bytes == 20 * ONE
    assert room.store(large)._older is not None
    room.disk.fail_writes()
    reads = room.disk.counts["write"]
    taken = [room.get(large, no_ack=True) for _ in range(30)]
    assert [number_of(each[2]) for each in taken if each is not None] == list(numbers[:30])
    assert reads == room.disk.counts["write"]


def test_the_queue_that_grows_goes_to_disk_though_another_is_small_and_older() -> None:
    room = SpillRoom(MARK)
    idle, busy = room.queue(name="idle"), room.queue(name="busy")
    room.publish(idle, 70)
    room.settle()
    for _ in range(20):
        room.publish(busy, 10)
        room.settle()
    assert room.use.bytes <= AT
    assert room.store(idle).bytes < 70 * ONE
    assert room.all_of(busy) == list(range(70, 270))
    assert room.all_of(idle) == list(range(70))


def test_what_is_handed_out_in_the_turn_of_its_publish_is_not_written() -> None:
    room = SpillRoom(MARK)
    queue = room.queue()
    room.publish(queue, 80)
    room.consume(queue, no_ack=True)
    assert room.taken() == list(range(80))
    assert (room.use.bytes, room.disk.counts["write"]) == (0, 0)


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


def test_queues_with_less_than_an_extent_is_worth_stay_in_memory_and_publishers_are_stopped() -> (
    None
):
    room = SpillRoom(MARK, extent_bytes=64 * (ONE + 1))
    for _ in range(100):
        room.publish(room.queue())
    room.settle()
    room.use.look()
    assert room.use.is_short
    assert room.names == []
    assert all(room.store(queue)._older is None for queue in room.all)


def test_queues_with_less_than_an_extent_each_go_to_disk_again_and_again() -> None:
    room = SpillRoom(MARK, extent_bytes=40 * ONE)
    queues = [room.queue() for _ in range(10)]
    for _ in range(6):
        for queue in queues:
            room.publish(queue, 8)
        room.settle()
        assert room.use.bytes <= AT
    assert all(len(room.all_of(queue)) == 48 for queue in queues)


def test_very_many_queues_are_looked_at_in_several_turns() -> None:
    room = SpillRoom(MARK)
    large = room.queue(name="large")
    for _ in range(2 * LOOK_QUEUES):
        room.queue()
    room.publish(large, 75)
    last = room.all[-1]
    room.publish(last)
    turns = 0
    while not room.disk.busy:
        room.clock.turn()
        turns += 1
    assert turns == 3
    room.settle()
    assert (room.use.bytes <= LOW, room.store(last).bytes) == (True, ONE)


def test_memory_that_is_short_again_is_looked_for_again() -> None:
    room = SpillRoom(MARK)
    first, second = room.queue(), room.queue()
    room.publish(first, 76)
    room.settle()
    assert len(room.all_of(first)) == 76
    room.publish(first, 70)
    room.publish(second, 6)
    room.settle()
    assert room.use.bytes <= LOW
    assert room.store(second).bytes == 6 * ONE


def test_a_queue_that_was_being_purged_is_looked_at_again_though_nobody_can_publish() -> None:
    room = SpillRoom(40_000 * 210, extent_bytes=64_000)
    queue = room.queue()
    room.disk.fail_writes()
    room.publish(queue, 30_000, size=8)
    room.disk.heal()
    store = room.store(queue)
    store.settle(range(11_000))
    room.publish(queue, 10_000, size=8)
    room.clock.turn()  # it is chosen, and being swept
    room.settle()
    assert store._older is None
    room.clock.advance(RETRY_SECONDS)
    room.settle()
    assert room.use.bytes <= LOW_SHARE * room.use.bytes_max


# Order, redelivery, places


def test_who_asks_for_a_message_that_is_on_disk_waits_for_it_and_others_behind_him() -> None:
    room = SpillRoom(MARK)
    queue = room.queue()
    room.fill(queue, 300)
    front = room.store(queue)._older.front  # type: ignore[union-attr]
    while not front.is_empty:
        room.get(queue, no_ack=True)
    room.got.clear()
    first = 300 - queue.ready
    for _ in range(3):
        queue.get_at_hand(Getter(room.channel, True, room.got.append), room.now)
    assert room.got == []
    room.settle()
    assert [number_of(each[2]) for each in room.got] == [first, first + 1, first + 2]  # type: ignore[index]


def test_consumers_are_given_what_is_on_disk_in_order_and_by_their_credit() -> None:
    room = SpillRoom(MARK)
    queue = room.queue()
    room.fill(queue, 500)
    room.consume(queue, prefetch=7)
    numbers = room.taken()
    while numbers[-1] < 499:
        room.channel.ack(0, multiple=True)
        room.wake()
        numbers += room.taken()
    assert numbers == list(range(500))
    room.channel.ack(0, multiple=True)
    room.settle()
    assert (room.use.bytes, room.names) == (0, [])


def test_what_is_given_back_is_read_again_and_goes_to_its_place_redelivered() -> None:
    room = SpillRoom(MARK)
    queue = room.queue()
    room.fill(queue, 400)
    held = [room.get(queue) for _ in range(300)]
    assert room.use.bytes < AT
    for at in (250, 3, 120, 249):
        delivery = held[at]
        assert delivery is not None
        room.channel.nack(delivery[1])
    again = [room.get(queue) for _ in range(5)]
    found = [(number_of(each[2]), each[3]) for each in again if each is not None]
    assert found == [(3, True), (120, True), (249, True), (250, True), (300, False)]


def test_what_a_channel_holds_takes_no_memory_once_it_was_on_disk() -> None:
    room = SpillRoom(MARK)
    queue = room.queue()
    room.fill(queue, 1000)
    room.consume(queue)
    assert len(room.taken()) == 1000
    assert room.use.bytes <= AT
    before = room.use.bytes
    queue.cancel(next(iter(queue.consumers)), room.now)
    room.channel.recover()
    room.settle()
    assert room.use.bytes == before
    room.consume(queue, no_ack=True)
    room.settle()
    assert [(number_of(each[2]), each[3]) for each in room.given] == [
        (number, True) for number in range(1000)
    ]
    assert (room.use.bytes, room.names) == (0, [])


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


def at_hand(room: SpillRoom, queue: HostedQueue) -> list[Extent]:
    """The extents on disk that are in memory as well."""
    older = room.store(queue)._older
    extents = [] if older is None else older._extents
    return [extent for extent in extents if extent.file is not None and extent.is_at_hand]


def on_disk_with_room() -> tuple[SpillRoom, HostedQueue]:
    """A queue of 300 messages, most of them on disk, and memory that is not short."""
    room = SpillRoom(MARK)
    queue, other = room.queue(), room.queue(name="other")
    room.fill(queue, 300)
    room.fill(other, 60)
    other.purge()
    room.published = 300
    return room, queue


def test_of_what_is_handed_out_two_extents_are_at_hand_and_none_that_is_passed() -> None:
    room, queue = on_disk_with_room()
    most = 0
    for below in range(1, 301):
        room.get(queue)
        found = at_hand(room, queue)
        assert all(extent.end > below for extent in found)
        most = max(most, len(found))
    assert most == 2
    room.channel.recover()
    while (delivery := room.get(queue)) is not None:
        found = at_hand(room, queue)
        assert len(found) <= 1 or number_of(delivery[2]) > 290
    assert room.store(queue)._older is not None
    room.channel.ack(0, multiple=True)
    assert room.store(queue)._older is None


def test_after_the_first_the_next_extent_is_read_before_it_is_needed() -> None:
    room, queue = on_disk_with_room()
    while not (found := at_hand(room, queue)):
        room.get(queue)
    first = found[0]
    room.get(queue)
    assert [extent.base for extent in at_hand(room, queue)] == [first.base, first.end]


def test_acknowledgements_in_any_order_settle_each_once() -> None:
    room = SpillRoom(MARK)
    queue = room.queue()
    room.fill(queue, 300)
    room.consume(queue)
    tags = list(range(1, 301))
    for tag in (*tags[1::2], *reversed(tags[::2])):
        room.channel.ack(tag)
    room.settle()
    assert (room.use.bytes, queue.unacked, room.names) == (0, 0, [])


def test_positions_that_are_settled_together_may_come_in_any_order() -> None:
    room = SpillRoom(MARK)
    queue = room.queue()
    room.fill(queue, 300)
    store = room.store(queue)
    before = room.use.bytes
    store.settle([250, 20, 251, 2, 252])
    assert room.use.bytes < before
    left = [number for number in range(300) if number not in {250, 20, 251, 2, 252}]
    store.settle([*left[::-1]])
    assert room.use.bytes == 0


def test_priorities_go_before_each_other_on_disk_too() -> None:
    room = SpillRoom(MARK)
    queue = room.queue(settings(priority_max=5))
    low, high = room.fill(queue, 100, priority=1), room.fill(queue, 100, priority=4)
    assert room.all_of(queue) == [*high, *low]


def test_messages_of_age_die_at_the_head_though_they_are_on_disk() -> None:
    room = SpillRoom(MARK)
    queue = room.queue(settings(dead_letters=True))
    room.fill(queue, 200, expiration_ms=1000)
    rest = room.fill(queue, 100)
    queue.arm()
    room.clock.advance(0.999)
    room.settle()
    assert queue.ready == 300
    for _ in range(20):
        room.clock.advance(0.01)
        room.settle()
    assert room.died == list(range(200))
    assert room.all_of(queue) == list(rest)
    assert room.use.bytes == 0


def test_each_message_keeps_its_own_time_through_the_disk() -> None:
    room = SpillRoom(MARK)
    queue = room.queue()
    lives = [(number * 37 % 50 + 1) * 1000 if number % 3 else None for number in range(200)]
    for life in lives:
        room.publish(queue, expiration_ms=life)
    room.settle()
    store = room.store(queue)
    for number, life in enumerate(lives):
        while not store.read(number, 1)[1]:
            room.settle()
        assert store.expires_at(number) == (None if life is None else life / 1000)
    assert len(store._expiries) * ONE < store.bytes


def test_a_length_limit_drops_the_head_from_disk() -> None:
    room = SpillRoom(MARK)
    queue = room.queue(settings(length_max=200))
    for _ in range(30):
        room.publish(queue, 20)
        room.settle()
    assert queue.ready == 200
    assert room.all_of(queue) == list(range(400, 600))


def test_a_full_queue_refuses_as_if_all_were_in_memory() -> None:
    room = SpillRoom(MARK)
    queue = room.queue(settings(length_max=200, overflow=Overflow.REJECT_PUBLISH))
    room.fill(queue, 200)
    assert not queue.publish(Published(message_of(0)), room.now)
    assert room.all_of(queue) == list(range(200))


def test_rejected_messages_die_with_their_bodies_though_these_are_on_disk() -> None:
    room = SpillRoom(MARK)
    queue = room.queue(settings(dead_letters=True))
    room.fill(queue, 300)
    room.consume(queue)
    room.channel.nack(0, multiple=True, requeue=False)
    room.deliver(queue)
    room.settle()
    assert sorted(room.died) == list(range(300))
    assert (room.use.bytes, room.names) == (0, [])


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


def test_a_purge_empties_memory_and_disk_and_leaves_what_is_held() -> None:
    room = SpillRoom(MARK)
    queue = room.queue()
    room.fill(queue, 300)
    held = [room.get(queue) for _ in range(150)]
    assert queue.purge() == 150
    room.settle()
    room.channel.recover()
    assert room.all_of(queue) == list(range(len(held)))
    assert (room.use.bytes, room.names) == (0, [])


def test_a_large_purge_goes_a_few_thousand_at_a_time_from_disk_too() -> None:
    room = SpillRoom(4000 * 210, extent_bytes=21_000)
    queue = room.queue()
    for _ in range(250):
        room.publish(queue, 100, size=8)
        room.settle()
    assert queue.purge() == 25_000
    assert room.use.bytes > 0
    room.settle()
    assert (room.use.bytes, room.names) == (0, [])
    assert room.all_of(queue) == []


@pytest.mark.parametrize("steps", [0, 1, 2, 3])
def test_a_queue_that_is_deleted_in_any_moment_leaves_nothing(steps: int) -> None:
    room = SpillRoom(MARK)
    queue = room.queue()
    room.fill(queue, 200)
    room.publish(queue, 100)
    for _ in range(steps):
        room.clock.turn()
        room.disk.settle(1)
    assert queue.delete() == 300
    room.all.clear()
    room.settle()
    assert (room.use.bytes, room.names, room.disk.open_files) == (0, [], 0)


def test_a_queue_that_is_deleted_while_a_message_of_it_is_read_is_not_told() -> None:
    room = SpillRoom(MARK)
    queue = room.queue()
    room.fill(queue, 300)
    while room.get(queue, no_ack=True) is not None and queue.ready > 200:
        pass
    room.disk.settle()
    room.got.clear()
    queue.get_at_hand(Getter(room.channel, False, room.got.append), room.now)
    queue.delete()
    room.settle()
    assert (room.use.bytes, room.names) == (0, [])


# Faults


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
    assert f"cannot be written to {DATA} ([Errno 28]" in told
    assert "Make room on the disk" in told
    with pytest.raises(MemoryFull):
        room.publish(queue, 100)
    taken = queue.ready
    room.disk.heal()
    room.clock.advance(RETRY_SECONDS)
    room.settle()
    assert [*short, room.use.is_short] == [True, False]
    assert logged(caplog) == [told]
    again = "messages of AMQP are written to /data again"
    assert logged(caplog, logging.INFO).count(again) == 1
    room.disk.fail_writes()
    more = room.fill(queue, 20)
    assert len(logged(caplog)) == 2
    room.disk.heal()
    room.clock.advance(RETRY_SECONDS)
    room.settle()
    assert logged(caplog, logging.INFO).count(again) == 2
    begun = [line for line in logged(caplog, logging.INFO) if "beyond" in line]
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


def test_what_could_not_be_written_and_is_held_comes_back() -> None:
    room = SpillRoom(MARK)
    queue = room.queue()
    room.disk.fail_writes()
    room.publish(queue, 150)
    room.settle()
    for _ in range(150):
        room.get(queue)
    room.channel.recover()
    assert room.all_of(queue) == list(range(150))


def flipped(room: SpillRoom) -> None:
    """Damage each file."""
    for name in room.names:
        size = room.disk.stat(f"{DATA}/{name}").size  # type: ignore[union-attr]
        for position in range(200, size, 500):
            room.disk.flip(f"{DATA}/{name}", position)


def test_a_queue_whose_messages_cannot_be_read_back_says_so_and_others_go_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    room = SpillRoom(MARK)
    queue, other = room.queue(), room.queue(name="other")
    room.fill(queue, 300)
    flipped(room)
    got = 0
    while not isinstance(room.got[-1] if room.got else None, HeadraceError):
        queue.get_at_hand(Getter(room.channel, True, room.got.append), room.now)
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
        queue.get_at_hand(Getter(room.channel, True, room.got.append), room.now)
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


def test_a_queue_that_cannot_be_read_gives_nothing_though_some_is_at_hand_and_says_it_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    room = SpillRoom(MARK)
    queue = room.queue()
    room.fill(queue, 300)
    flipped(room)
    store = room.store(queue)
    assert store.read(0, 1)[1]
    for position in (200, 250):
        assert store.read(position, 1) == ((), ())
    room.settle()
    assert store.read(0, 1) == ((), ())
    assert len(logged(caplog)) == 1


def test_a_large_queue_that_is_deleted_while_it_is_read_is_not_said_to_be_damaged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    room = SpillRoom(4000 * 210, extent_bytes=21_000)
    queue = room.queue()
    while queue.ready < 25_000:
        room.publish(queue, 500, size=8)
        room.settle()
    flipped(room)
    room.store(queue).read(20_000, 1)
    queue.delete()
    room.disk.settle()  # it is swept in the turns after that
    room.settle()
    assert logged(caplog) == []
    assert (room.use.bytes, room.names) == (0, [])


def test_what_is_settled_while_it_is_read_takes_no_memory() -> None:
    room = SpillRoom(MARK)
    queue = room.queue()
    room.fill(queue, 300)
    store = room.store(queue)
    store.read(200, 1)
    store.settle(range(300))
    room.settle()
    assert (room.use.bytes, room.spill._kept, room.names) == (0, {}, [])


def test_files_that_are_mostly_of_no_use_are_emptied_though_nothing_is_written() -> None:
    room = SpillRoom(MARK, file_bytes=3000)
    queue = room.queue()
    room.fill(queue, 300)
    room.consume(queue)
    for tag in range(1, 301):
        if tag % 60:
            room.channel.ack(tag)
    wasteful = [room.files.is_wasteful]
    room.settle()
    assert [*wasteful, room.files.is_wasteful] == [True, False]
    room.channel.recover()
    room.wake()
    assert (room.taken()[-5:], queue.unacked) == ([59, 119, 179, 239, 299], 5)


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
            queue.get_at_hand(Getter(room.channel, True, room.got.append), room.now)
            getters += 1
            assert room.spill._loading_bytes <= most or len(room.spill._loading) == 1
            if room.store(queue)._older is None or len(room.got) < getters:
                break
    assert room.spill._waiting
    room.settle()
    assert len(room.got) == getters
    assert room.spill._loading_bytes == 0


def short_of_memory(room: SpillRoom) -> None:
    """Have memory short, and keep it so."""
    room.disk.fail_writes()
    hog = room.queue(name="hog")
    while room.use.bytes <= room.use.spill_at + 10 * ONE:
        room.publish(hog)
    room.settle()


def test_what_is_needed_next_stays_however_short_memory_is_and_nothing_is_read_ahead(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    room = SpillRoom(MARK)
    queue = room.queue()
    room.fill(queue, 300)
    short_of_memory(room)
    reads = []
    read = room.files.read

    def counted(extent: Extent, done: HaveContent) -> None:
        reads.append(extent)
        assert room.use.bytes > room.use.spill_at
        read(extent, done)

    monkeypatch.setattr(room.files, "read", counted)
    hog = room.queue(name="another")
    for number in range(300):
        delivery = room.get(queue, no_ack=True)
        assert delivery is not None
        assert number_of(delivery[2]) == number
        while room.use.bytes <= room.use.spill_at + 10 * ONE:
            room.publish(hog)
            room.published -= 1
        room.settle()
    assert len(reads) == len(set(reads)) > 20


def test_what_was_used_longest_ago_goes_first_and_nothing_while_memory_is_not_short() -> None:
    room = SpillRoom(400 * ONE)
    queues = [room.queue(name=name) for name in "abcdefgh"]
    other = room.queue(name="other")
    for queue in queues:
        room.fill(queue, 100)
    room.fill(other, 200)
    other.purge()
    olders = [older for queue in queues if (older := room.store(queue)._older) is not None]
    firsts = [older._extents[0] for older in olders[:4]]
    for extent in (*firsts, firsts[0]):
        for _ in range(2):
            extent.owner.read(extent.base, 1)  # type: ignore[attr-defined]
            room.settle()
    kept = [extent for extent in room.spill._kept if extent in firsts]
    assert kept == [*firsts[1:], firsts[0]]
    assert room.spill._kept_bytes > KEPT_SHARE * room.use.bytes_max
    room.spill._run()
    assert [extent for extent in room.spill._kept if extent in firsts] == kept
    short_of_memory(room)
    left = [extent for extent in room.spill._kept if extent in firsts]
    assert 0 < len(left) < len(kept)
    assert left == kept[-len(left) :]


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
