"""What all queues in memory hold together: the mark, the bound, and how much goes at a time."""

import pytest

from headrace.queue_stores.memory.memory_messages import MemoryFull, MemoryMessages
from headrace.queue_stores.memory.memory_use import CLEAR_SHARE, SWEEP_MESSAGES, MemoryUse
from headrace.queue_stores.memory.message_run import MESSAGE_BYTES
from headrace.queue_stores.queue_settings import Published
from tests.support.queues.queues import QueueKit, message_of

ONE = MESSAGE_BYTES + 1
MANY = 3 * SWEEP_MESSAGES


def filled(use: MemoryUse, count: int) -> MemoryMessages:
    """A store with `count` messages of one byte."""
    store = MemoryMessages(use)
    published = Published(message_of("m"))
    for _ in range(count):
        store.append(published, None)
    return store


class Told:
    """Notes what a `MemoryUse` says."""

    def __init__(self, use: MemoryUse) -> None:
        self.use = use
        self.short: list[bool] = []
        self.sweeps = 0
        use.on_short = lambda: self.short.append(use.is_short)
        use.on_sweep = self._sweep

    def _sweep(self) -> None:
        self.sweeps += 1


def test_publishers_are_stopped_at_the_mark_and_go_on_a_tenth_below() -> None:
    use = MemoryUse(10 * ONE)
    told = Told(use)
    first, second = filled(use, 5), filled(use, 4)
    use.look()
    assert told.short == []
    second.append(Published(message_of("m")), None)
    use.look()
    use.look()
    assert told.short == [True]
    first.settle([0])
    use.look()
    assert use.bytes == 10 * ONE * CLEAR_SHARE
    assert told.short == [True]
    second.settle([0])
    use.look()
    assert told.short == [True, False]


def test_at_twice_the_mark_nothing_is_taken_by_any_queue() -> None:
    use = MemoryUse(2 * ONE)
    filled(use, 2)
    other = filled(use, 2)
    with pytest.raises(MemoryFull):
        other.append(Published(message_of("m")), None)
    assert other.end == 2


def test_many_purged_messages_go_from_memory_a_few_at_a_time() -> None:
    use = MemoryUse()
    told = Told(use)
    kit = QueueKit(kept={0: filled(use, 0)})
    kit.publish(*["m"] * MANY)
    assert kit.queue.purge() == MANY
    assert (kit.queue.ready, told.sweeps) == (0, 1)
    assert use.bytes == MANY * ONE
    kit.publish("n")
    assert kit.get() == ":n"
    assert use.sweep()
    assert use.bytes == (MANY - SWEEP_MESSAGES + 1) * ONE
    assert use.sweep()
    assert not use.sweep()
    assert use.bytes == ONE
    kit.channel.ack(1)
    assert use.bytes == 0
    assert not use.sweep()


def test_few_purged_messages_go_at_once() -> None:
    use = MemoryUse()
    told = Told(use)
    store = filled(use, SWEEP_MESSAGES)
    store.settle(range(SWEEP_MESSAGES))
    assert (use.bytes, told.sweeps) == (0, 0)


def test_the_messages_of_a_deleted_queue_go_also_those_that_channels_hold() -> None:
    use = MemoryUse()
    kit = QueueKit(kept={0: filled(use, 0)})
    kit.publish("a", "b", "c")
    kit.consume(prefetch=2)
    kit.deliver()
    assert kit.queue.delete() == 1
    assert use.bytes == 0
    kit.channel.ack(1)
    kit.channel.nack(2)
    assert use.bytes == 0


def test_a_large_queue_that_is_deleted_is_swept_whoever_still_holds_of_it() -> None:
    use = MemoryUse()
    told = Told(use)
    kit = QueueKit(kept={0: filled(use, 0)})
    kit.publish(*["m"] * MANY)
    kit.get()
    kit.queue.delete()
    while use.sweep():
        pass
    assert use.bytes == 0
    assert told.sweeps == 1


def test_two_queues_are_swept_one_after_the_other() -> None:
    use = MemoryUse()
    stores = [filled(use, MANY), filled(use, MANY)]
    for store in stores:
        store.settle(range(MANY))
    turns = 1
    while use.sweep():
        turns += 1
    assert (use.bytes, turns) == (0, 6)
    assert [store.bytes for store in stores] == [0, 0]


def test_messages_settled_behind_many_empty_places_are_found_all_the_same() -> None:
    use = MemoryUse()
    store = filled(use, MANY)
    store.settle(range(1, MANY))
    while use.sweep():
        pass
    store.settle([0])
    assert store.read(0, 1) == (range(MANY, MANY), [])
    assert store.append(Published(message_of("n")), None) == MANY
    positions, _ = store.read(0, 2)
    assert list(positions) == [MANY]
