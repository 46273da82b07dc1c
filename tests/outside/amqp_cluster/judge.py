"""Judgement of a run's history: each function returns the violations of one promise.

A fault excuses what it may do: acknowledgements of less than 2 s before it may be lost, and until
`RECONCILED_SECONDS` behind the end of a pause or a partition two sides may disagree. Nothing
excuses a confirmed message that is never delivered.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise

from tests.outside.amqp_cluster.faults import CUT_FROM_PEERS, CUT_OFF, KILL
from tests.outside.amqp_cluster.history import (
    Deliveries,
    Fault,
    History,
    PublisherSession,
    Publishes,
    Subscription,
)
from tests.outside.amqp_cluster.plan import (
    BY_NAME,
    TTL_EXPIRED,
    TTL_SECONDS,
    Claim,
    Queue,
)

SETTLED_SECONDS = 2.0
"""An acknowledgement that is so old when a fault begins is kept."""
RECONCILED_SECONDS = 2.0
SILENT_SECONDS_MAX = 12.0
"""Without a fault, a client waits no longer for an answer."""
EARLY_SECONDS_MAX = 0.02
"""Publishes of some milliseconds have one timestamp."""


def lost(claim: Claim, publishes: Publishes, deliveries: Mapping[str, Deliveries]) -> list[int]:
    """Return confirmed messages that none of the claim's queues delivered."""
    seen = bytearray(len(publishes.state))
    for found in (deliveries[queue] for queue in claim.queues if queue in deliveries):
        for number in found.numbers:
            seen[number] = 1
    return [
        number
        for number in publishes.confirmed(claim.exchange)
        if not seen[number] and claim.holds_for(number)
    ]


def foreign(queue: Queue, deliveries: Deliveries, publishes: Publishes) -> list[int]:
    """Return delivered messages that were not published, or not for this queue."""
    exchange = queue.exchange or queue.dead_letters_of
    seen = _marks(deliveries)
    found = []
    for number in deliveries.numbers:
        if seen[number]:
            continue
        seen[number] = 1
        known = number < len(publishes.state) and publishes.state[number]
        session = publishes.sessions[publishes.session_of(number)] if known else None
        if session is None or session.exchange != exchange or number % queue.divisor:
            found.append(number)
    return found


def _marks(deliveries: Deliveries) -> bytearray:
    """Return a byte for each number up to the greatest that was delivered."""
    return bytearray(max(deliveries.numbers, default=-1) + 1)


def settled_and_back(deliveries: Deliveries, faults: Sequence[Fault]) -> list[int]:
    """Return messages delivered again although their settlement had to be kept."""
    last = array("l", [-1]) * (max(deliveries.numbers, default=-1) + 1)
    found = []
    for index, number in enumerate(deliveries.numbers):
        before = last[number]
        last[number] = index
        if before < 0:
            continue
        settled, now = deliveries.settled[before], deliveries.times[index]
        # A settlement that the broker accepted behind this delivery was one of a former delivery.
        if 0.0 < settled < now and not _may_forget(settled, now, faults):
            found.append(number)
    return found


def _may_forget(settled: float, now: float, faults: Sequence[Fault]) -> bool:
    return any(
        fault.began - SETTLED_SECONDS < settled <= _over(fault) and fault.began <= now
        for fault in faults
    )


def unflagged(
    deliveries: Deliveries, subscriptions: Sequence[Subscription], faults: Sequence[Fault]
) -> list[int]:
    """Return messages delivered again without the flag `redelivered`.

    But for first deliveries that arrive late: after a partition, TCP sends again what was under way
    before, at the latest after as long a time as the partition took.
    """
    seen = _marks(deliveries)
    found = []
    for index, number in enumerate(deliveries.numbers):
        if seen[number] and not deliveries.redelivered[index]:
            subscription, now = (
                subscriptions[deliveries.subscriptions[index]],
                deliveries.times[index],
            )
            if not any(_arrives_late(subscription, now, fault) for fault in faults):
                found.append(number)
        seen[number] = 1
    return found


def _arrives_late(subscription: Subscription, now: float, fault: Fault) -> bool:
    """Tell whether a delivery of this time may have been sent before a partition."""
    if fault.kind not in (CUT_OFF, CUT_FROM_PEERS):
        return False
    took = max(fault.ended - fault.began, RECONCILED_SECONDS)
    return subscription.opened <= fault.began <= now <= fault.ended + took


def disordered(deliveries: Deliveries, publishes: Publishes) -> list[int]:
    """Return messages delivered for the first time behind a later one of the same publisher."""
    seen = _marks(deliveries)
    last: dict[int, int] = {}
    found = []
    for number in deliveries.numbers:
        if seen[number]:
            continue
        seen[number] = 1
        session = publishes.session_of(number)
        if number < last.get(session, -1):
            found.append(number)
        else:
            last[session] = number
    return found


def two_active(
    deliveries: Deliveries, subscriptions: Sequence[Subscription], faults: Sequence[Fault]
) -> list[str]:
    """Return changes of a single active consumer whose connection lived, without a fault."""
    active = -1
    found = []
    for index, subscription in enumerate(deliveries.subscriptions):
        if active not in (-1, subscription):
            former, now = subscriptions[active], deliveries.times[index]
            alive = not former.ended or former.ended > now
            if alive and not any(
                fault.began <= now <= fault.ended + RECONCILED_SECONDS for fault in faults
            ):
                number = deliveries.numbers[index]
                found.append(f"{number} from consumer {active} to {subscription}")
        active = subscription
    return found


def expired_early(deliveries: Deliveries, publishes: Publishes, seconds: float) -> list[int]:
    """Return messages that left a queue before they were so old."""
    earliest = seconds - EARLY_SECONDS_MAX
    pairs = zip(deliveries.numbers, deliveries.times, strict=True)
    return [number for number, time in pairs if time - publishes.sent[number] < earliest]


def unanswered(sessions: Sequence[PublisherSession], window: int) -> list[str]:
    """Return sessions with publishes that were neither in flight at their end nor answered."""
    return [
        f"session {index} on broker {session.broker}: {session.unanswered} unanswered"
        for index, session in enumerate(sessions)
        if session.unanswered > (0 if session.clean else window)
    ]


def stuck(
    sessions: Sequence[PublisherSession | Subscription], faults: Sequence[Fault]
) -> list[str]:
    """Return connections whose client waited in vain for too long without a fault."""
    found = []
    for session in sessions:
        if session.silent_since:
            waited = _without_faults(session.silent_since, session.ended, faults)
            if waited > SILENT_SECONDS_MAX:
                found.append(f"{waited:.1f} s without an answer: {session}")
    return found


def _without_faults(began: float, ended: float, faults: Sequence[Fault]) -> float:
    """Return how much of a time lies outside of all faults."""
    seconds = ended - began
    for fault in faults:
        seconds -= max(min(ended, _over(fault)) - max(began, fault.began), 0.0)
    return seconds


def _over(fault: Fault) -> float:
    """Return until when a fault excuses. A kill has no second side, and excuses nothing later."""
    return fault.ended + (0.0 if fault.kind == KILL else RECONCILED_SECONDS)


def longest_gap(times: "array[float]", began: float, ended: float) -> float:
    """Return the longest time between two events of which one lies between two times.

    `times` are in order. Without an event behind `began`, it is the time until `ended`.
    """
    first = bisect_left(times, began)
    marks = times[max(first - 1, 0) : bisect_right(times, ended) + 1]
    if first == len(times):
        marks = array("d", [*marks, ended])
    return max((later - earlier for earlier, later in pairwise(marks)), default=ended - began)


def broken(history: History, claims: Collection[Claim], window: int) -> Iterator[str]:
    """Yield each promise that a run broke, with the first of the violations."""
    publishes, deliveries, faults = history.publishes, history.deliveries, history.faults
    for claim in claims:
        yield from _told(f"lost of {' or '.join(claim.queues)}", lost(claim, publishes, deliveries))
    for name, found in deliveries.items():
        for promise, violations in _of_queue(name, found, history):
            yield from _told(f"{name}: {promise}", violations)
            if violations and isinstance(violations[0], int):
                yield f"  {told_of(violations[0], found, history)}"
    yield from _told("unanswered publishes", unanswered(publishes.sessions, window))
    yield from _told("stuck", stuck([*publishes.sessions, *history.subscriptions], faults))
    yield from _told("clients", history.problems)


def _told(promise: str, violations: Sequence[object]) -> Iterator[str]:
    if violations:
        yield f"{promise}: {len(violations)}: {', '.join(map(str, violations[:5]))}"


def _of_queue(
    name: str, found: Deliveries, history: History
) -> Iterator[tuple[str, Sequence[object]]]:
    """Yield the promises about a queue with their violations."""
    queue, publishes, faults = BY_NAME[name], history.publishes, history.faults
    yield "never published to it", foreign(queue, found, publishes)
    if name == TTL_EXPIRED:
        yield "expired early", expired_early(found, publishes, TTL_SECONDS)
    if not queue.dead_letters_of:
        yield "settled and back", settled_and_back(found, faults)
        yield (
            "delivered twice without a flag",
            unflagged(found, history.subscriptions, faults),
        )
    if queue.in_order:
        yield "out of order", disordered(found, publishes)
    if queue.single_active:
        yield "two active consumers", two_active(found, history.subscriptions, faults)


def told_of(number: int, found: Deliveries, history: History) -> str:
    """Return the history of a message: its publish, deliveries and the fault before the last."""
    publishes, subscriptions = history.publishes, history.subscriptions
    told, last = [], 0.0
    if number < len(publishes.state) and publishes.state[number]:
        session = publishes.sessions[publishes.session_of(number)]
        told.append(f"sent {publishes.sent[number]:.3f} by broker {session.broker}")
    for index, one in enumerate(found.numbers):
        if one == number:
            subscription, last = found.subscriptions[index], found.times[index]
            told.append(
                f"{'re' * found.redelivered[index]}delivered {last:.3f} to consumer {subscription}"
                f" by broker {subscriptions[subscription].broker},"
                f" settled {found.settled[index]:.3f}"
            )
    before = [fault for fault in history.faults if fault.began <= last]
    if before:
        kind, broker, began, ended = before[-1]
        told.append(f"{kind} of broker {broker} from {began:.3f} to {ended:.3f}")
    return "; ".join(told)
