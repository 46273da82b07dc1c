"""Messages in memory, and a queue that begins with what a store has kept."""

from collections.abc import Sequence

import pytest

from headrace.queue_stores.memory.memory_messages import MemoryFull, MemoryMessages
from headrace.queue_stores.memory.memory_use import MemoryUse
from headrace.queue_stores.memory.message_run import MESSAGE_BYTES, MessageRun
from headrace.queue_stores.memory.spill import Spill
from headrace.queue_stores.memory.spilled_messages import SpilledMessages
from headrace.queue_stores.message_store import Kept
from headrace.queue_stores.queue_settings import Published
from tests.support.amqp.deliveries import got
from tests.support.queues.queues import QueueKit, memory_of, message_of, settings


def filled(count: int, bytes_max: int = 1 << 30, spill_at: int = 1 << 30) -> MemoryMessages:
    """A store with `count` messages whose bodies are their positions."""
    memory = memory_of(bytes_max)
    memory.spill_at = spill_at
    store = MemoryMessages(memory)
    for position in range(count):
        assert store.append(Published(message_of(str(position))), None) == position
    return store


def read(store: MemoryMessages, position: int, count: int) -> list[int]:
    """The positions read, each held to its message."""
    positions, messages = store.read(position, count)
    assert [message.body.decode() for message in messages] == [str(each) for each in positions]
    return list(positions)


def test_messages_are_read_in_order_around_what_is_settled() -> None:
    store = filled(6)
    assert read(store, 1, 3) == [1, 2, 3]
    store.settle([2])
    assert read(store, 1, 3) == [1, 3, 4]
    store.settle([0, 1])
    assert read(store, 0, 9) == [3, 4, 5]
    store.settle(range(9)[:6])
    assert (read(store, 0, 9), store.bytes, store.end) == ([], 0, 6)


def test_positions_stay_when_the_places_of_settled_messages_are_given_back() -> None:
    store = filled(5000)
    store.settle(range(4000))
    assert len(store._slots) == 1000
    assert read(store, 0, 2) == [4000, 4001]
    store.settle([1, 4001])
    assert read(store, 4000, 2) == [4000, 4002]
    assert store.append(Published(message_of("5000")), None) == 5000
    assert store.end == 5001


def test_one_that_is_settled_twice_counts_once() -> None:
    store = filled(2)
    store.settle([0])
    store.settle([0])
    assert store.bytes == MESSAGE_BYTES + 1


def test_a_store_at_its_bound_takes_what_fits_to_the_byte_and_refuses_the_next() -> None:
    store = filled(2, bytes_max=2 * (MESSAGE_BYTES + 1), spill_at=0)
    with pytest.raises(MemoryFull, match="set amqp"):
        store.append(Published(message_of("2")), None)
    store.settle([0])
    assert store.append(Published(message_of("2")), None) == 2


def test_a_refused_message_is_nowhere_in_the_queue() -> None:
    store = MemoryMessages(memory_of(MESSAGE_BYTES))
    kit = QueueKit(kept={0: store})
    with pytest.raises(MemoryFull):
        kit.publish("a")
    assert (kit.queue.ready, kit.queue.ready_bytes) == (0, 0)
    kit.consume()
    assert kit.deliver() == []


class KeptMessages(MemoryMessages):
    """A store that was there before its queue, and notes what it is told."""

    __slots__ = ("kept_before", "told")

    def __init__(self, kept: Kept, count: int, settled: Sequence[int] = ()) -> None:
        super().__init__(MemoryUse())
        for position in range(count):
            self.append(Published(message_of(str(position))), None)
        self.settle(settled)
        self.kept_before = kept
        self.told: list[tuple[str, int, int]] = []

    def kept(self) -> Kept:
        return self.kept_before

    def note_handed_out(self, below: int) -> None:
        self.told.append(("out", below, 0))

    def note_returned(self, position: int, count: int) -> None:
        self.told.append(("returned", position, count))


def test_after_a_restart_all_that_was_perhaps_handed_out_is_redelivered_and_no_more() -> None:
    store = KeptMessages(Kept(start=1, ready=3, ready_bytes=3, handed_out=4), 5, settled=[0, 2])
    kit = QueueKit(kept={0: store})
    assert (kit.queue.ready, kit.queue.ready_bytes) == (3, 3)
    kit.publish("5")
    kit.consume()
    assert kit.deliver() == ["c:1 again", "c:3 again", "c:4", "c:5"]
    assert store.told[-1] == ("out", 6, 0)


def test_a_store_is_told_how_far_was_handed_out_with_each_batch() -> None:
    store = KeptMessages(Kept(ready=3, ready_bytes=3), 3)
    kit = QueueKit(kept={0: store})
    kit.consume(prefetch=2)
    assert kit.deliver() == ["c:0", "c:1"]
    assert store.told == [("out", 2, 0)]


def test_how_often_a_message_came_back_is_told_and_goes_on_counting_after_a_restart() -> None:
    store = KeptMessages(Kept(ready=1, ready_bytes=1, handed_out=1, returns={0: 2}), 1)
    kit = QueueKit(settings(delivery_limit=3, dead_letters=True), kept={0: store})
    for count in (2, 3):
        delivery = got(kit.queue, kit.channel, kit.now)
        assert delivery is not None
        assert delivery[3:] == (True, count)
        kit.channel.nack(delivery[1])
    assert [each for each in store.told if each[0] == "returned"] == [
        ("returned", 0, 3),
        ("returned", 0, 4),
    ]
    assert kit.died() == ["0 delivery_limit"]


def test_a_purge_takes_what_came_back_from_memory_too() -> None:
    store = KeptMessages(Kept(ready=3, ready_bytes=3), 3)
    kit = QueueKit(kept={0: store})
    delivery = got(kit.queue, kit.channel, kit.now)
    assert delivery is not None
    kit.channel.nack(delivery[1])
    assert store.bytes > 0
    assert kit.queue.purge() == 3
    assert store.bytes == 0


def test_levels_that_were_kept_are_served_by_priority() -> None:
    high = KeptMessages(Kept(ready=1, ready_bytes=1), 1)
    low = KeptMessages(Kept(ready=2, ready_bytes=2, expiring=True), 2)
    low._expiries[0] = 150.0
    kit = QueueKit(settings(priority_max=9), kept={1: low, 7: high})
    assert kit.get() == ":0"
    assert kit.queue.next_deadline() == 150
    kit.now = 150.0
    assert kit.get() == ":1"
    assert kit.queue.ready == 0


def test_the_places_of_very_many_settled_messages_are_given_back_by_the_next_look() -> None:
    run = MessageRun(0, [message_of("m")] * 250_000)
    older = SpilledMessages(MemoryMessages(MemoryUse()), Spill.__new__(Spill), run)
    older.forget(range(1, 250_000))
    older.forget([0])
    assert len(run._slots) > 0
    assert older.read(0, 1) is None
    assert run._slots == []
    assert older.is_empty
