"""Purges below a position (DeleteRecords of Kafka's clients), and turns of queues left alone."""

import pytest

from headrace.model.errors import HeadraceError
from headrace.ports.callbacks import ignore_result
from headrace.queues.engine.parts.purging_queue import Purged
from headrace.queues.port import Consumer
from tests.support.queues.durable import DurableQueue
from tests.support.queues.queues import settings


def test_a_purge_below_a_position_leaves_later_messages_and_their_bytes() -> None:
    here = DurableQueue()
    here.publish("a", "bb", "ccc")
    here.make_log()
    assert here.queue.purge_below(0, 2) is Purged.SOME
    assert (here.queue.ready, here.queue.ready_bytes) == (1, 3)
    assert here.queue.purge_below(0, 2) is Purged.ALL
    here.ask()
    here.world.settle()
    assert here.bodies() == ["ccc"]
    assert (here.queue.ready, here.queue.ready_bytes) == (0, 0)


def test_a_purge_waits_for_messages_that_are_read_and_ends_with_the_store() -> None:
    here = DurableQueue()
    here.publish("a")
    assert here.queue.purge_below(0, 1) is Purged.BEING_READ
    here.store.have_log(HeadraceError("no room"))
    assert here.queue.purge_below(0, 1) is Purged.ALL


def test_a_purge_of_an_unknown_priority_or_of_a_deleted_queue_is_over() -> None:
    here = DurableQueue(settings(priority_max=2))
    here.publish("a")
    assert here.queue.purge_below(2, 10) is Purged.ALL
    here.queue.delete()
    assert here.queue.purge_below(0, 10) is Purged.ALL


@pytest.mark.parametrize("dead_letters", [False, True])
def test_a_queue_without_consumers_takes_turns_only_for_dead_letters(dead_letters: bool) -> None:
    here = DurableQueue(settings(dead_letters=dead_letters))
    consumers = [Consumer(here.queue, here.channel, name) for name in "ab"]
    for consumer in consumers:
        here.queue.consume(consumer, here.now, ignore_result)
        assert here.queue.takes_turns
    here.queue.cancel(consumers[0], here.now)
    assert here.queue.takes_turns
    here.queue.cancel(consumers[1], here.now)
    assert here.queue.takes_turns is dead_letters
