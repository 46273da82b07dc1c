"""Settlements of a home's channels until all replicas of the queue have them."""

from typing import TYPE_CHECKING

from headrace.queues.model.declarations import QueueFlags
from tests.support.queues.moving_place import MovingPlace

if TYPE_CHECKING:
    from headrace.remote_queues.home.remote_settlements import RemoteSettlements


def uncopied(here: MovingPlace) -> list[list[int]]:
    """The positions of settlements that the home would repeat."""
    settlements: RemoteSettlements = here.remote._settlements
    return [call.positions for call in settlements._uncopied.values()]


def test_settlement_is_repeated_until_the_leader_reports_it_as_copied() -> None:
    here = MovingPlace()
    here.consume(prefetch=2)
    here.publish("a", "b")
    assert len(here.sent()) == 2
    here.channel.ack(1)
    here.channel.nack(2, requeue=False)
    here.run()  # taken, and not written yet
    assert uncopied(here) == [[0], [1]]
    here.moved(settled=False)
    assert here.sent() == []
    assert here.led == (0, 0)
    here.settle()
    assert uncopied(here) == []


def test_settlements_of_one_frame_are_reported_by_one_event() -> None:
    here = MovingPlace()
    here.consume(prefetch=3)
    here.publish("a", "b", "c")
    assert len(here.sent()) == 3
    for tag in (1, 2, 3):
        here.channel.ack(tag)
        here.network.send()  # a call of its own
    here.settle()
    assert uncopied(here) == []
    assert here.network.counts["Settle"] == 3
    assert here.network.counts["Copied"] == 1


def test_requeue_is_not_repeated() -> None:
    here = MovingPlace()
    here.consume(prefetch=1)
    here.publish("a")
    assert len(here.sent()) == 1
    here.channel.nack(1)
    assert uncopied(here) == []


def test_settlement_without_a_leader_waits_for_the_next() -> None:
    here = MovingPlace()
    here.consume(prefetch=1)
    here.publish("a")
    assert len(here.sent()) == 1
    here.move()
    here.channel.ack(1)
    assert uncopied(here) == [[0]]
    here.begin()
    here.settle()
    assert uncopied(here) == []
    assert here.led == (0, 0)


def test_rejection_is_repeated_until_the_dead_letter_is_stored() -> None:
    here = MovingPlace({"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
    letters = here.life.host.declare_queue("dead", QueueFlags(durable=False), {}, None)
    here.consume(prefetch=1)
    here.publish("a")
    assert len(here.sent()) == 1
    here.channel.nack(1, requeue=False)
    here.network.send()
    here.network.deliver("calls")
    assert uncopied(here) == [[0]]
    here.settle()
    assert uncopied(here) == []
    assert letters.ready == 1
    assert here.led == (0, 0)
