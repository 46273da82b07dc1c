"""Messages of queues in memory go to disk while memory is short, and come back in order."""

import pytest

from headrace.queue_stores.memory.spill import LOW_SHARE, RETRY_SECONDS
from headrace.queue_stores.memory.spill_order import LOOK_QUEUES
from headrace.queue_stores.queue_settings import Overflow, Published
from tests.support.amqp.deliveries import getter
from tests.support.queues.queues import settings
from tests.support.queues.spill import (
    AT,
    EXTENT,
    LOW,
    MARK,
    ONE,
    SpillRoom,
    message_of,
    number_of,
)


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
        queue.get(getter(queue, room.channel, room.got.append, room.now, no_ack=True), room.now)
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
    queue.get(getter(queue, room.channel, room.got.append, room.now, no_ack=False), room.now)
    queue.delete()
    room.settle()
    assert (room.use.bytes, room.names) == (0, [])
