"""The judge of queues in a cluster: each kind of violation is seen, and nothing else."""

import pytest

from tests.support.sim.queues.events import (
    Answered,
    Cancelled,
    Delivered,
    Ended,
    Event,
    Fault,
    How,
    Message,
    Played,
    Promises,
    Published,
    Settled,
    Subscribed,
)
from tests.support.sim.queues.judge import ELECTIONS, Calm, firm_acks, violations

QUEUES = {
    "q": Promises(dead="dead"),
    "one": Promises(single_active=True),
    "any": Promises(in_order=False),
    "dead": Promises(in_order=False, holds_dead=True),
}
FIRST, SECOND = Message("p", 1), Message("p", 2)
BOTH: list[Event] = [
    Published(1, FIRST, ("q",)),
    Published(1, SECOND, ("q",)),
    Answered(2, FIRST, True),
    Answered(2, SECOND, True),
    Subscribed(2, "c", "q"),
]


def delivered(
    at: float, message: Message, tag: int, *, to: str = "c", redelivered: bool = False
) -> Delivered:
    return Delivered(at, to, tag, message, redelivered)


def acked(at: float, tag: int, *, of: str = "c", how: How = How.ACK) -> Settled:
    return Settled(at, of, tag, how)


CONSUMED: list[Event] = [
    delivered(3, FIRST, 1),
    delivered(3, SECOND, 2),
    acked(4, 1),
    acked(4, 2),
]


def seen(*events: Event, faults: tuple[Fault, ...] = ()) -> list[str]:
    """Return the names of the broken promises."""
    found = violations(Played(QUEUES, events, faults))
    return [text.partition(":")[0] for text in found]


def test_history_without_a_fault_is_well() -> None:
    assert seen(*BOTH, *CONSUMED) == []
    assert firm_acks(Played(QUEUES, [*BOTH, *CONSUMED], [])) == 2


def test_confirmed_message_that_is_not_delivered_is_lost() -> None:
    assert seen(*BOTH, delivered(3, FIRST, 1), acked(4, 1)) == ["lost"]


def test_confirmed_message_that_is_not_acknowledged_is_lost() -> None:
    assert seen(*BOTH, *CONSUMED[:-1]) == ["lost"]
    assert seen(*BOTH, *CONSUMED[:-1], acked(4, 2, how=How.REQUEUE)) == ["lost"]


def test_message_is_owed_by_each_of_its_queues() -> None:
    fan: list[Event] = [
        Published(1, FIRST, ("q", "any")),
        Answered(2, FIRST, True),
        Subscribed(2, "c", "q"),
    ]
    assert seen(*fan, delivered(3, FIRST, 1), acked(4, 1)) == ["lost"]


def test_unconfirmed_message_may_be_lost() -> None:
    assert seen(Published(1, FIRST, ("q",))) == []
    assert seen(Published(1, FIRST, ("q",)), Answered(2, FIRST, False)) == []


def test_rejected_message_is_acknowledged_as_a_dead_letter() -> None:
    rejected: list[Event] = [*BOTH, *CONSUMED[:-1], acked(4, 2, how=How.REJECT)]
    assert seen(*rejected) == ["lost"]
    died = Delivered(5, "d", 1, SECOND, False, ("q", "rejected"))
    assert seen(*rejected, Subscribed(2, "d", "dead"), died) == ["lost"]
    assert seen(*rejected, Subscribed(2, "d", "dead"), died, acked(6, 1, of="d")) == []


def test_dead_letter_of_another_queue_does_not_count() -> None:
    died = Delivered(5, "d", 1, SECOND, False, ("any", "expired"))
    events: list[Event] = [
        *BOTH,
        *CONSUMED[:-1],
        Subscribed(2, "d", "dead"),
        died,
        acked(6, 1, of="d"),
    ]
    assert seen(*events) == ["lost", "made_up"]


@pytest.mark.parametrize("first", [True, False])
def test_publish_that_is_confirmed_and_refused_is_seen(first: bool) -> None:
    answers = [Answered(2, FIRST, first), Answered(3, FIRST, not first)]
    events: list[Event] = [Published(1, FIRST, ("q",)), *answers, Subscribed(2, "c", "q")]
    assert seen(*events, delivered(4, FIRST, 1), acked(5, 1)) == ["answered_twice"]


AGAIN = delivered(20, FIRST, 3, redelivered=True)


def test_acknowledged_message_that_is_delivered_again_is_seen() -> None:
    assert seen(*BOTH, *CONSUMED, AGAIN, acked(21, 3)) == ["delivered_again"]
    late = (Fault(10, 12, "kills"),)
    assert seen(*BOTH, *CONSUMED, AGAIN, acked(21, 3), faults=late) == ["delivered_again"]


@pytest.mark.parametrize("fault", [Fault(0, 3, "ended"), Fault(5, 9, "began"), Fault(2, 9, "on")])
def test_acknowledgement_within_two_seconds_of_a_fault_may_be_lost(fault: Fault) -> None:
    assert seen(*BOTH, *CONSUMED, AGAIN, acked(21, 3), faults=(fault,)) == []


def test_acknowledgement_of_a_message_that_was_requeued_before_has_no_effect() -> None:
    other: list[Event] = [
        Subscribed(2, "d", "q"),
        delivered(3.5, FIRST, 1, to="d", redelivered=True),
    ]
    events: list[Event] = [*BOTH, *CONSUMED[:2], *other, *CONSUMED[2:]]
    fault = (Fault(2, 3, "pauses"),)
    assert seen(*events, Ended(6, "d"), AGAIN, acked(21, 3), faults=fault) == []


@pytest.mark.parametrize("pulls", [True, False])
@pytest.mark.parametrize("name", ["kills", ELECTIONS])
def test_deliveries_of_gets_and_cancelled_consumers_are_requeued_by_faults(
    pulls: bool, name: str
) -> None:
    fault = (Fault(5, 6, name),)
    events: list[Event] = [
        *BOTH[:-1], Subscribed(2, "c", "q", pulls=pulls), *CONSUMED[:2], Cancelled(4, "c"),
        acked(14, 1), acked(14, 2), AGAIN, acked(21, 3),
    ]  # fmt: skip
    assert seen(*events, faults=fault) == ([] if name == "kills" else ["delivered_again"])
    assert seen(*events) == ["delivered_again"]


TWICE = delivered(3.5, FIRST, 1, to="d", redelivered=True)
"""A second delivery of a message that the consumer c holds."""


@pytest.mark.parametrize("name", ["kills", "elections asked for"])
def test_delivery_of_a_held_message_after_one_move_is_seen(name: str) -> None:
    events: list[Event] = [*BOTH, Subscribed(2, "d", "q"), *CONSUMED[:2], TWICE, *CONSUMED[2:]]
    assert seen(*events) == ["held_twice"]
    assert seen(*events, faults=(Fault(2, 3.2, name),)) == ["held_twice"]
    assert seen(*events, faults=(Fault(2, 3.2, name), Fault(3, 4, name))) == []
    assert seen(*events, faults=(Fault(2, 3.2, "pauses"),)) == []


@pytest.mark.parametrize("over", [Ended(3.2, "c"), Cancelled(3.2, "c")])
def test_delivery_after_the_end_of_its_consumer_is_requeued(over: Event) -> None:
    events: list[Event] = [*BOTH, Subscribed(2, "d", "q"), CONSUMED[0], over, TWICE]
    assert (
        seen(*events, delivered(4, SECOND, 2, to="d"), acked(5, 1, of="d"), acked(5, 2, of="d"))
        == []
    )


def test_second_delivery_without_its_mark_is_seen() -> None:
    requeued: list[Event] = [*BOTH, *CONSUMED[:3], acked(4, 2, how=How.REQUEUE)]
    assert seen(*requeued, delivered(5, SECOND, 3), acked(6, 3)) == ["unmarked"]
    assert seen(*requeued, delivered(5, SECOND, 3, redelivered=True), acked(6, 3)) == []


def test_first_delivery_may_arrive_behind_the_second_one() -> None:
    again = delivered(2.5, FIRST, 1, to="d", redelivered=True)
    events: list[Event] = [*BOTH, Subscribed(2, "d", "q"), again, Ended(2.6, "d"), *CONSUMED]
    assert seen(*events) == []


def test_dead_letter_may_exist_twice() -> None:
    died = [Delivered(5, "d", tag, SECOND, False, ("q", "rejected")) for tag in (1, 2)]
    acks = [acked(6, 1, of="d"), acked(6, 2, of="d")]
    rejected: list[Event] = [*BOTH, *CONSUMED[:-1], acked(4, 2, how=How.REJECT)]
    assert seen(*rejected, Subscribed(2, "d", "dead"), *died, *acks) == []


def test_messages_in_another_order_are_seen() -> None:
    swapped = [delivered(3, SECOND, 1), delivered(3, FIRST, 2), *CONSUMED[2:]]
    assert seen(*BOTH, *swapped) == ["reordered"]
    marked = [delivered(3, SECOND, 1), delivered(3, FIRST, 2, redelivered=True), *CONSUMED[2:]]
    assert seen(*BOTH, *marked) == []


def test_order_is_kept_over_connections_of_a_consumer() -> None:
    events: list[Event] = [
        *BOTH, delivered(3, SECOND, 1), acked(3, 1), Ended(4, "c"), Subscribed(5, "d", "q"),
        delivered(6, FIRST, 1, to="d"), acked(7, 1, of="d"),
    ]  # fmt: skip
    assert seen(*events) == ["reordered"]


def test_delivery_beyond_the_prefetch_is_seen() -> None:
    events: list[Event] = [*BOTH[:-1], Subscribed(2, "c", "q", prefetch=1)]
    assert seen(*events, *CONSUMED) == ["beyond_prefetch"]
    assert seen(*events, CONSUMED[0], CONSUMED[2], CONSUMED[1], CONSUMED[3]) == []


def active(*events: Event, faults: tuple[Fault, ...] = ()) -> list[str]:
    """Judge a queue with two consumers, c and d, of which c is active."""
    published: list[Event] = [
        Published(1, FIRST, ("one",)), Published(1, SECOND, ("one",)),
        Subscribed(2, "c", "one"), Subscribed(2, "d", "one"), delivered(3, FIRST, 1),
    ]  # fmt: skip
    return seen(*published, *events, faults=faults)


def test_second_active_consumer_is_seen() -> None:
    second = delivered(9, SECOND, 1, to="d")
    assert active(second) == ["two_active"]
    assert active(second, faults=(Fault(5, 6, "kills"),)) == []
    assert active(Cancelled(4, "c"), second) == []
    assert active(Ended(4, "c"), second) == []


def test_message_that_was_sent_to_a_cancelled_consumer_may_arrive_later() -> None:
    second = delivered(5, SECOND, 1, to="d")
    third = delivered(5.1, Message("p", 3), 2)
    published = Published(1, Message("p", 3), ("one",))
    assert active(published, Cancelled(4, "c"), second, third) == []


def test_message_that_was_not_published_to_a_queue_is_seen() -> None:
    assert seen(Subscribed(2, "c", "q"), delivered(3, FIRST, 1)) == ["made_up"]
    elsewhere: list[Event] = [Published(1, FIRST, ("any",)), Subscribed(2, "c", "q")]
    assert seen(*elsewhere, delivered(3, FIRST, 1)) == ["made_up"]


def test_dead_letter_that_was_not_rejected_is_seen() -> None:
    died = Delivered(5, "d", 1, SECOND, False, ("q", "rejected"))
    events: list[Event] = [*BOTH, *CONSUMED, Subscribed(2, "d", "dead"), died, acked(6, 1, of="d")]
    assert seen(*events) == ["made_up"]


def test_calm_is_what_no_fault_overlaps() -> None:
    calm = Calm([Fault(5, 9, "a"), Fault(1, 2, "b"), Fault(1.5, 3, "c"), Fault(6, 7, "d")])
    for first, last, lasts in ((0, 0.5, True), (0, 1, False), (2.5, 2.6, False), (3.1, 4.9, True),
                               (3.1, 5, False), (7.5, 8, False), (9.1, 99, True)):  # fmt: skip
        assert calm.lasts(first, last) is lasts, (first, last)
    assert Calm([]).lasts(0, 1)
