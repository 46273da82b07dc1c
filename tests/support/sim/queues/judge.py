"""The promises of queues in a cluster, as functions of a history that yield each violation.

`lost`: a confirmed message is acknowledged by a consumer of each queue, or of its dead letters.
`answered_twice`: a publish is confirmed or refused, not both.
`delivered_again`: acknowledged more than 2 s before a fault, it is not delivered again. A change of
    leaders that is asked for is no fault.
`held_twice`: a message that a consumer holds is not delivered while at most one broker fails.
`unmarked`: a publish is stored once, and `redelivered` is set if it may have been delivered.
`reordered`: messages of a publisher reach a queue's only consumer in their order.
`beyond_prefetch`: unacknowledged deliveries of a consumer do not exceed its prefetch.
`two_active`: a single active consumer is active until it is cancelled, while nothing fails.
`made_up`: a delivered message was published to the queue, and a rejected one was rejected.
"""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import pairwise

from tests.support.sim.queues.events import (
    Answered,
    Cancelled,
    Delivered,
    Delivery,
    Ended,
    Fault,
    How,
    Message,
    Played,
    Published,
    Settled,
    Subscribed,
    deliveries,
    of_kind,
)

COPIED_SECONDS = 2.0
"""Seconds after which an acknowledgement is on all replicas, while nothing fails."""
ELECTIONS = "elections asked for"
"""The name of leaders' changes while all brokers run."""
CALM_SECONDS = 5.0
"""Seconds after a fault after which a queue's leader and its consumers are known again."""
MOVES = frozenset({"kills", "power cuts", "restarts", ELECTIONS})
"""Faults after which another broker leads a queue while the consumers' brokers answer in time.

Not false resets: a living broker is suspected to be dead, and what its clients hold is requeued."""
Judge = Callable[[Played], Iterator[str]]


class Calm:
    """The times in which nothing fails."""

    def __init__(self, faults: Collection[Fault]) -> None:
        """Merge faults that overlap."""
        self._begins: list[float] = []
        self._ends: list[float] = []
        for fault in sorted(faults):
            if self._ends and fault.at <= self._ends[-1]:
                self._ends[-1] = max(self._ends[-1], fault.ended)
            else:
                self._begins.append(fault.at)
                self._ends.append(fault.ended)

    def lasts(self, first: float, last: float) -> bool:
        """Return whether nothing fails from `first` to `last`."""
        at = bisect_left(self._ends, first)
        return at == len(self._ends) or self._begins[at] > last


def real_faults(played: Played) -> list[Fault]:
    """Return the faults but for changes of leaders that are asked for."""
    return [each for each in played.faults if each.name != ELECTIONS]


def lost(played: Played) -> Iterator[str]:
    """Yield confirmed messages that no consumer has acknowledged."""
    for message, queue in sorted(owed(played)):
        yield f"{queue}: {message} is confirmed, and no consumer has acknowledged it"


def owed(played: Played) -> set[tuple[Message, str]]:
    """Return confirmed messages by queue that were not acknowledged there, nor as dead letters."""
    routes = {event.message: event.queues for event in of_kind(played, Published)}
    left = {
        (event.message, queue)
        for event in of_kind(played, Answered)
        if event.stored
        for queue in routes[event.message]
    }
    for delivery in deliveries(played):
        if delivery.settled is not None and delivery.settled.how is How.ACK:
            left.discard((delivery.message, delivery.queue))
            source = delivery.event.died[0]
            if played.queues.get(source) and played.queues[source].dead == delivery.queue:
                left.discard((delivery.message, source))
    return left


def answered_twice(played: Played) -> Iterator[str]:
    """Yield publishes with two answers."""
    answers: dict[Message, Answered] = {}
    for event in of_kind(played, Answered):
        former = answers.setdefault(event.message, event)
        if former is not event:
            yield f"{event.message} is answered twice: {former}, {event}"


def delivered_again(played: Played) -> Iterator[str]:
    """Yield deliveries of messages that were acknowledged well before a fault."""
    firmly = _Firmly(played)
    for places in _by_place(played).values():
        for number, delivery in enumerate(places):
            later = places[number + 1 :]
            ack = firmly.acknowledged(delivery, later)
            if ack is not None:
                for other in later:
                    yield f"{other.queue}: {other.event} is delivered again, after {ack}"


def firm_acks(played: Played) -> int:
    """Return how many acknowledgements `delivered_again` judges."""
    firmly = _Firmly(played)
    return sum(
        firmly.acknowledged(delivery, places[number + 1 :]) is not None
        for places in _by_place(played).values()
        for number, delivery in enumerate(places)
    )


class _Firmly:
    """Which acknowledgements are on all replicas before a fault."""

    def __init__(self, played: Played) -> None:
        self._calm = Calm(real_faults(played))
        self._queues = played.queues
        self._cancelled = {event.subscription: event.at for event in of_kind(played, Cancelled)}
        self._pulls = {event.subscription for event in of_kind(played, Subscribed) if event.pulls}

    def acknowledged(self, delivery: Delivery, later: Sequence[Delivery]) -> Settled | None:
        """Return the acknowledgement of a delivery; None: it may be without effect.

        `later`: the next deliveries of the message by its queue.
        """
        settled = delivery.settled
        if settled is None or settled.how is not How.ACK:
            return None
        if self._queues[delivery.queue].holds_dead:
            return None  # two dead letters of one message are two messages
        if later and later[0].event.at <= settled.at:
            return None  # the message was requeued before
        first, name = settled.at - COPIED_SECONDS, settled.subscription
        if name in self._pulls or self._cancelled.get(name, settled.at) < settled.at:
            first = min(first, delivery.event.at)  # a former leader that fails requeues these
        return settled if self._calm.lasts(first, settled.at + COPIED_SECONDS) else None


def _by_place(played: Played) -> dict[tuple[str, Message], list[Delivery]]:
    """Return the deliveries of each message by each queue, in order."""
    found: dict[tuple[str, Message], list[Delivery]] = defaultdict(list)
    for delivery in deliveries(played):
        found[delivery.queue, delivery.message].append(delivery)
    return found


def held_twice(played: Played) -> Iterator[str]:
    """Yield deliveries of messages that another delivery holds: one fault requeues none of these.

    It does requeue those of basic.get, of cancelled consumers, and of connections that end.
    """
    over: dict[str, float] = {}
    for event in played.events:
        if isinstance(event, Cancelled | Ended):
            over.setdefault(event.subscription, event.at)
    pulls = {event.subscription for event in of_kind(played, Subscribed) if event.pulls}
    for places in _by_place(played).values():
        for held, again in pairwise(places):
            name, at = held.event.subscription, again.event.at
            settled = held.settled is not None and held.settled.at <= at
            if settled or name in pulls or played.queues[held.queue].holds_dead:
                continue
            if over.get(name, at + 1) > at and _one_move(played.faults, held.event.at, at):
                yield f"{held.queue}: {again.event} while {held.event} holds it"


def _one_move(faults: Collection[Fault], first: float, last: float) -> bool:
    """Return whether nothing fails from `first` to `last`, or one broker, so that leaders move."""
    found = [each for each in faults if each.at <= last and each.ended >= first - CALM_SECONDS]
    return not found or (len(found) == 1 and found[0].name in MOVES)


def unmarked(played: Played) -> Iterator[str]:
    """Yield deliveries of a message without the mark `redelivered`, but for the first such one.

    It may arrive behind others: its broker, or its client, may have stood still.
    """
    for (queue, _), places in _by_place(played).items():
        fresh = [each.event for each in places if not each.event.redelivered]
        for event in fresh[1:]:
            if not played.queues[queue].holds_dead:
                yield f"{queue}: {event} is not marked, after {fresh[0]}"


def reordered(played: Played) -> Iterator[str]:
    """Yield first deliveries by a queue with one consumer before those of earlier publishes."""
    last: dict[tuple[str, str], Delivered] = {}
    for event, queue, _ in deliveries(played):
        if not played.queues[queue].in_order or event.redelivered:
            continue
        # What was sent to a single active consumer may arrive behind what its successor was sent.
        single = played.queues[queue].single_active
        place = event.subscription if single else queue, event.message.publisher
        before = last.setdefault(place, event)
        if event.message.number < before.message.number:
            yield f"{queue}: {event} comes behind {before}"
        last[place] = event


def beyond_prefetch(played: Played) -> Iterator[str]:
    """Yield deliveries beyond the prefetch of their consumer."""
    prefetch = {each.subscription: each.prefetch for each in of_kind(played, Subscribed)}
    held: Counter[str] = Counter()
    for event in played.events:
        if isinstance(event, Delivered):
            held[event.subscription] += 1
            if held[event.subscription] > prefetch[event.subscription] > 0:
                yield f"{event} is beyond the prefetch of {prefetch[event.subscription]}"
        elif isinstance(event, Settled):
            held[event.subscription] -= 1


def two_active(played: Played) -> Iterator[str]:
    """Yield deliveries to a consumer while another single active one goes on, without a fault."""
    calm = Calm(real_faults(played))
    active: dict[str, Delivered] = {}
    ended: set[str] = set()
    queues = {each.subscription: each.queue for each in of_kind(played, Subscribed)}
    for event in played.events:
        if isinstance(event, Cancelled | Ended):
            ended.add(event.subscription)
        if not isinstance(event, Delivered) or event.subscription in ended:
            continue
        queue = queues[event.subscription]
        if not played.queues[queue].single_active:
            continue
        before = active.get(queue, event)
        active[queue] = event
        if before.subscription in ended or before.subscription == event.subscription:
            continue
        if calm.lasts(event.at - CALM_SECONDS, event.at):
            yield f"{queue}: {event} while the consumer of {before} is active"


def made_up(played: Played) -> Iterator[str]:
    """Yield deliveries of messages that were not published to the queue, or did not die so."""
    routes = {event.message: event.queues for event in of_kind(played, Published)}
    rejected = {
        (delivery.queue, delivery.message)
        for delivery in deliveries(played)
        if delivery.settled is not None and delivery.settled.how is How.REJECT
    }
    for event, queue, _ in deliveries(played):
        source, reason = event.died if played.queues[queue].holds_dead else (queue, "")
        if source not in routes.get(event.message, ()):
            yield f"{queue}: {event} was not published to {source!r}"
        elif reason == "rejected" and (source, event.message) not in rejected:
            yield f"{queue}: {event} was rejected by no consumer"


JUDGES: Sequence[Judge] = (
    lost, answered_twice, delivered_again, held_twice, unmarked, reordered, beyond_prefetch,
    two_active, made_up,
)  # fmt: skip


def violations(played: Played) -> list[str]:
    """Return all violations of a history, each with the name of its promise."""
    return [f"{judge.__name__}: {text}" for judge in JUDGES for text in judge(played)]
