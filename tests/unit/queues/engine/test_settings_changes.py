"""Changes of a queue's settings while it runs, as its policies make them."""

from itertools import pairwise
from typing import Any

import pytest

from headrace.queue_stores.queue_settings import Overflow, QueueSettings
from headrace.queues.engine.closed_queue import ClosedQueue
from headrace.queues.engine.hosted_queue import HostedQueue
from headrace.queues.engine.ready_messages import DEAD_LETTER_COST, TRIMMED_AT_ONCE
from headrace.queues.model.declarations import ExchangeFlags
from headrace.queues.model.exchanges import Binding, Destination
from headrace.queues.port import Disposition
from headrace.queues.refusals import RefusalKind, Refused
from tests.support.queues.moving_place import MovingPlace
from tests.support.queues.policies import change_queue
from tests.support.queues.queues import settings
from tests.support.queues.streams import Stream
from tests.unit.queues.engine.test_pauses import Place

LETTERS_AT_ONCE = TRIMMED_AT_ONCE // DEAD_LETTER_COST


class ChangingPlace(Place):
    """A queue `q` with a backlog, and the queue `dead` for its dead letters."""

    def __init__(self, backlog: int = 0, **arguments: Any) -> None:
        super().__init__()
        self.host.model.declare_exchange("dlx", "fanout", ExchangeFlags(), {})
        self.dead = self.queue("dead")
        self.host.model.bind(Binding("dlx", Destination("queue", "dead"), "", {}), None)
        self.q = self.queue("q", **arguments)
        self.publish(self.q, *map(str, range(backlog)))

    def change(self, **changed: object) -> None:
        """Change settings of the queue, as a policy does."""
        change_queue(self.host, "q", self.clock.wall_ms(), **changed)

    def slices(self) -> list[int]:
        """Let all be done; return how much shorter the queue is after each turn of the loop."""
        lengths = [self.q.ready]
        while self.clock.turn():
            lengths.append(self.q.ready)
        return [before - after for before, after in pairwise(lengths) if before != after]


def bodies(queue: HostedQueue) -> list[str]:
    """Take the ready messages of a queue; return their bodies."""
    taken = iter(lambda: queue.take_below(0, 1 << 62), None)
    return [message.body.decode() for each in taken if each for message in each.messages]


def test_lowered_length_drops_the_oldest_without_a_publish() -> None:
    here = ChangingPlace(12)
    here.change(length_max=3)
    assert here.slices() == [9]
    assert bodies(here.q) == ["9", "10", "11"]


def test_very_many_messages_are_dropped_in_slices() -> None:
    here = ChangingPlace(2500)
    here.change(length_max=10)
    assert here.slices() == [1000, 1000, 490]
    here.publish(here.q, *map(str, range(2000)))
    here.change(length_max=5)
    assert here.slices() == [5], "a trim that has ended leaves no state behind"


@pytest.mark.parametrize(("count", "letters"), [(1500, None), (150, "dlx")])
def test_turn_drops_slices_of_few_queues(count: int, letters: str | None) -> None:
    here = ChangingPlace()
    queues = [here.queue(f"q{number}") for number in range(5)]
    for queue in queues:
        here.publish(queue, *map(str, range(count)))
        change_queue(here.host, queue.name, length_max=0, dead_letter_exchange=letters)
    here.clock.turn()
    here.clock.turn()
    assert [queue.ready for queue in queues] == [count // 3] * 2 + [count] * 3
    while here.clock.turn():
        pass
    assert not any(queue.ready for queue in queues)


def test_publishes_between_slices_drop_more_than_they_add() -> None:
    here = ChangingPlace(2500)
    here.change(length_max=10)
    here.clock.turn()
    here.clock.turn()
    before = here.q.ready
    here.publish(here.q, "a")
    assert 0 < before - here.q.ready < LETTERS_AT_ONCE
    here.slices()
    here.publish(here.q, "b")
    assert here.q.ready == 10
    assert bodies(here.q)[-2:] == ["a", "b"]


def test_bytes_over_the_limit_are_dropped_in_slices() -> None:
    here = ChangingPlace()
    here.publish(here.q, *["x" * 10] * 1500, "x" * 100)
    here.change(length_bytes_max=105)
    assert here.slices() == [1000, 500]
    assert (here.q.ready, here.q.ready_bytes) == (1, 100)


def test_dropped_messages_are_dead_lettered_in_slices_and_in_their_order() -> None:
    here = ChangingPlace(250)
    here.change(length_max=0, dead_letter_exchange="dlx")
    assert here.slices() == [LETTERS_AT_ONCE, LETTERS_AT_ONCE, 250 - 2 * LETTERS_AT_ONCE]
    assert bodies(here.dead) == list(map(str, range(250)))
    here.publish(here.q, "later")
    here.heard()
    assert bodies(here.dead) == ["later"]


@pytest.mark.parametrize("strategy", ["at-most-once", "at-least-once"])
def test_dead_letter_exchange_deleted_in_a_trim(strategy: str) -> None:
    here = ChangingPlace(250, queue_type="quorum")
    late = strategy == "at-least-once"
    here.change(length_max=0, dead_letter_exchange="dlx", dead_letter_at_least_once=late)
    here.clock.turn()
    here.clock.turn()
    here.host.model.delete_exchange("dlx")
    here.slices()
    assert here.dead.ready == LETTERS_AT_ONCE
    here.host.model.declare_exchange("dlx", "fanout", ExchangeFlags(), {})
    here.host.model.bind(Binding("dlx", Destination("queue", "dead"), "", {}), None)
    here.clock.advance(30)
    assert here.dead.ready == (250 if late else LETTERS_AT_ONCE)


@pytest.mark.parametrize("strategy", ["at-most-once", "at-least-once"])
def test_dead_lettering_that_ends_in_a_trim_drops_what_is_left(strategy: str) -> None:
    here = ChangingPlace(250, queue_type="quorum")
    late = strategy == "at-least-once"
    here.host.model.delete_exchange("dlx")
    here.change(length_max=200, dead_letter_exchange="dlx", dead_letter_at_least_once=late)
    here.slices()
    here.change(length_max=10, dead_letter_exchange=None)
    here.slices()
    here.clock.advance(5)
    assert here.q.ready == 10
    assert here.q.stores[0].kept().ready == 0
    assert not here.host._dead_letters._waiting
    here.q.settle(Disposition.REJECTED, ())
    assert here.q.take_dead_letters() == []


def test_letters_that_were_not_published_are_settled_when_dead_lettering_ends() -> None:
    here = ChangingPlace(5)
    here.change(dead_letter_exchange="dlx")
    here.consume(here.q, "c")
    here.slices()
    here.q.settle(Disposition.REJECTED, (0, 1))
    here.change(dead_letter_exchange=None)
    here.q.settle(Disposition.REJECTED, (2,))
    here.slices()
    assert (here.dead.ready, here.q.is_settled) == (0, False)
    here.q.settle(Disposition.ACKNOWLEDGED, (3, 4))
    assert here.q.is_settled


def test_messages_that_are_unacknowledged_are_dropped_once_they_are_requeued() -> None:
    here = ChangingPlace(20)
    consumer = here.consume(here.q, "c")
    here.heard()
    here.host.cancel(consumer)
    here.publish(here.q, *"abcd")
    here.change(length_max=2)
    here.slices()
    assert (here.q.ready, here.q.unacked) == (2, 20)
    here.q.settle(Disposition.ACKNOWLEDGED, range(10))
    here.q.settle(Disposition.REQUEUED, range(10, 20), [1] * 10)
    here.slices()
    assert (here.q.ready, here.q.unacked) == (2, 0)
    assert bodies(here.q) == ["c", "d"]


def test_publishers_go_on_once_a_limit_is_raised_or_overflow_drops_the_head() -> None:
    here = ChangingPlace(2, max_length=2, overflow="reject-publish")
    publish = here.publish
    publish(here.q, "refused")
    assert here.q.ready == 2
    here.change(length_max=3)
    publish(here.q, "a", "refused")
    here.change(overflow=Overflow.DROP_HEAD)
    publish(here.q, "b")
    here.slices()
    assert here.q.ready == 3
    here.change(length_max=None)
    publish(here.q, "c", "d")
    assert bodies(here.q) == ["1", "a", "b", "c", "d"]


def test_full_queue_refuses_publishes_once_overflow_does() -> None:
    here = ChangingPlace(2)
    here.change(length_max=1, overflow=Overflow.REJECT_PUBLISH)
    here.slices()
    here.publish(here.q, "refused")
    assert bodies(here.q) == ["0", "1"], "it keeps what it has"


def test_time_without_use_begins_with_the_policy() -> None:
    here = ChangingPlace()
    here.clock.advance(60)
    here.change(expires_ms=1000)
    here.clock.advance(0.9)
    assert not here.q.deleted
    here.change(expires_ms=2000)
    here.clock.advance(1.9)
    assert not here.q.deleted
    here.change(length_max=1)
    here.clock.advance(0.2)
    assert here.q.deleted, "a change of another setting is no use of the queue"


def test_queue_lives_on_when_its_expiry_is_removed() -> None:
    here = ChangingPlace()
    here.change(expires_ms=1000)
    here.change(expires_ms=None)
    here.clock.advance(60)
    assert not here.q.deleted
    assert not here.q.timed


def test_messages_have_the_ttl_of_their_publish() -> None:
    here = ChangingPlace(1)
    here.change(ttl_ms=4000, dead_letter_exchange="dlx")
    here.clock.advance(60)
    assert here.q.ready == 1, "it was published before"
    assert bodies(here.q) == ["0"]
    here.publish(here.q, "4 s")
    here.change(ttl_ms=1500)
    here.publish(here.q, "behind it")
    here.clock.advance(3.9)
    assert here.q.ready == 2
    here.change(ttl_ms=None)
    here.publish(here.q, "stays")
    here.clock.advance(60)
    assert here.q.ready == 1
    assert bodies(here.dead) == ["4 s", "behind it"]


def test_paused_queue_drops_when_it_leads_again() -> None:
    here = ChangingPlace(12)
    here.q.pause()
    here.change(length_max=3, expires_ms=1000)
    here.clock.advance(60)
    assert (here.q.ready, here.q.deleted) == (12, False)
    here.q.begin()
    here.turns.run()
    assert here.q.ready == 3


def test_trim_stops_when_the_queue_is_paused_or_deleted() -> None:
    here = ChangingPlace(2500)
    here.change(length_max=0)
    here.clock.turn()
    here.clock.turn()
    here.q.pause()
    assert here.slices() == []
    here.q.begin()
    here.turns.run()
    here.host.delete_queue("q", None, if_unused=False, if_empty=False)
    assert here.slices() == []


def test_delivery_limit_and_consumer_timeout_are_read_when_they_are_needed() -> None:
    here = ChangingPlace(1, queue_type="quorum")
    here.change(delivery_limit=1, consumer_timeout_ms=5000, dead_letter_exchange="dlx")
    here.consume(here.q, "c")
    for _ in range(2):
        here.slices()
        here.q.settle(Disposition.REQUEUED, (0,), (1,))
        here.host.touched((here.q,))
        here.turns.soon()
    here.slices()
    assert (here.dead.ready, here.q.consumer_timeout_ms) == (1, 5000)


def changed(before: QueueSettings) -> QueueSettings:
    return before._replace(consumer_timeout_ms=5000, ttl_ms=7000)


def test_queues_that_are_closed_elsewhere_or_streams_show_their_settings() -> None:
    here = ChangingPlace()
    closed = ClosedQueue(here.q, Refused(RefusalKind.BROKEN, "queue", "broken"))
    here.host.queues["q"] = closed
    place = MovingPlace()
    place.home.targets.elsewhere["q"] = place.remote
    stream = Stream().queue
    for queue in (closed, place.remote, stream):
        queue.apply(changed(queue.settings))
        assert queue.settings.ttl_ms == 7000
        assert queue.consumer_timeout_ms == 5000
    timed = []
    for each in (changed(stream.settings), settings(), stream.settings, settings(ttl_ms=1)):
        place.remote.apply(each)
        timed.append(place.remote._publishes.timed)
    assert timed == [True, False, True, True], "a stream is read from a time on"


def test_queue_elsewhere_and_the_hosted_one_are_both_changed() -> None:
    here, place = ChangingPlace(), MovingPlace()
    here.host.targets.elsewhere["q"] = place.remote
    here.change(length_max=7)
    found = (here.q, place.remote, here.q.declared)
    assert [each.settings.length_max for each in found] == [7, 7, 7]


def test_changes_under_load_lose_no_message_but_dead_letter_it() -> None:
    here = ChangingPlace(dead_letter_exchange="dlx")
    here.consume(here.q, "c")
    taken: list[str] = []
    published = [f"{change}.{number}" for change in range(100) for number in range(30)]
    for change in range(100):
        here.channel.limit = here.channel.unacked + 7 * (change % 3)
        here.publish(here.q, *published[30 * change : 30 * change + 30])
        here.change(length_max=3 if change % 2 else None, ttl_ms=None if change % 4 else 1)
        here.clock.advance(0.0005)
        taken += [each.partition(":")[2] for each in here.heard()]
    here.change(length_max=None, ttl_ms=None)
    here.slices()
    here.clock.advance(1)
    dead = bodies(here.dead)
    assert len(dead) > 500
    assert sorted([*taken, *dead, *bodies(here.q)]) == sorted(published)
