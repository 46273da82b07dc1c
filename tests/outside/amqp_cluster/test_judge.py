"""The judge sees each violation, and excuses what a fault may do and nothing else."""

import random
from array import array
from collections.abc import Sequence

import pytest

from headrace.wire.amqp.model_methods import BasicAck, BasicDeliver, BasicNack
from tests.outside.amqp_cluster.clients import WINDOW, Held, Published
from tests.outside.amqp_cluster.faults import CUT_FROM_PEERS, CUT_OFF, KILL, PAUSE, drawn
from tests.outside.amqp_cluster.history import (
    BLOCK,
    CONFIRMED,
    REFUSED,
    SENT,
    Deliveries,
    Fault,
    History,
    PublisherSession,
    Subscription,
)
from tests.outside.amqp_cluster.judge import broken, longest_gap
from tests.outside.amqp_cluster.plan import BY_NAME, CLAIMS, MIXED, QUEUES, SPREAD, Claim

KILLED = Fault(KILL, 1, 100.0, 100.0)
PAUSED = Fault(PAUSE, 1, 100.0, 110.0)
SPREAD_QUEUES = [queue.name for queue in QUEUES if queue.exchange == SPREAD]
Row = tuple[int, float, int, bool, float]
"""A delivery: message, time, subscription, redelivered, time of its settlement."""


def history_of(
    exchange: str, queue: str, rows: Sequence[Row], faults: Sequence[Fault] = (), published: int = 4
) -> History:
    """Make a run with one publisher, its first messages confirmed, and one queue's deliveries."""
    history = History(faults=list(faults))
    history.subscriptions += [Subscription(queue, 0, 0.0, ended=500.0) for _ in range(2)]
    session = history.publishes.open(PublisherSession(exchange, 0, 0.0, ended=500.0, clean=True))
    history.publishes.block(session)
    for number in range(published):
        history.publishes.state[number] = CONFIRMED
        history.publishes.sent[number] = 1.0
    history.deliveries = {one.name: Deliveries() for one in QUEUES}
    found = history.deliveries[queue]
    for number, time, subscription, redelivered, settled in rows:
        found.settled[found.note(number, time, subscription, redelivered)] = settled
    return history


def told(history: History, claims: Sequence[Claim] = ()) -> list[str]:
    return [line for line in broken(history, claims, WINDOW) if not line.startswith("  ")]


def once(number: int, time: float = 50.0, settled: float = 50.1) -> Row:
    return number, time, 0, False, settled


def test_a_run_without_faults_keeps_every_promise() -> None:
    history = history_of(SPREAD, "order", [once(number) for number in range(4)])
    for name in SPREAD_QUEUES:
        history.deliveries[name] = history.deliveries["order"]
    assert told(history, CLAIMS) == []


@pytest.mark.parametrize("queue", SPREAD_QUEUES)
def test_a_confirmed_message_that_one_queue_never_delivers_is_lost(queue: str) -> None:
    history = history_of(SPREAD, queue, [once(0), once(1), once(3)])
    (claim,) = [claim for claim in CLAIMS if claim.queues == (queue,)]
    assert told(history, [claim]) == [f"lost of {queue}: 1: 2"]


@pytest.mark.parametrize("state", [SENT, REFUSED])
def test_only_confirmed_messages_can_be_lost(state: int) -> None:
    history = history_of(SPREAD, "order", [once(0), once(1), once(3)])
    history.publishes.state[2] = state
    assert told(history, [Claim(SPREAD, ("order",))]) == []


def test_a_queue_that_was_never_consumed_has_lost_all() -> None:
    history = history_of(SPREAD, "order", [])
    history.deliveries.clear()
    assert told(history, [Claim(SPREAD, ("order",))]) == ["lost of order: 4: 0, 1, 2, 3"]


def test_a_dropped_message_is_lost_if_neither_queue_has_it() -> None:
    history = history_of(MIXED, "short", [once(3)])
    history.deliveries["dropped"].note(1, 5.0, 0, False)
    (claim,) = [claim for claim in CLAIMS if "short" in claim.queues]
    assert told(history, [claim]) == ["lost of short or dropped: 2: 0, 2"]


def test_a_rejected_message_without_its_dead_letter_is_lost() -> None:
    history = history_of(MIXED, "rejected", [once(0), once(10)], published=30)
    (claim,) = [claim for claim in CLAIMS if claim.queues == ("rejected",)]
    assert told(history, [claim]) == ["lost of rejected: 1: 20"]


@pytest.mark.parametrize(
    ("settled", "delivered", "faults", "seen"),
    [
        (50.0, 60.0, [], True),
        (97.9, 100.5, [KILLED], True),
        (98.1, 100.5, [KILLED], False),
        (98.1, 99.5, [KILLED], True),  # delivered before the fault
        (100.1, 100.5, [KILLED], True),  # the next leader had it
        (100.1, 100.5, [KILLED._replace(ended=100.2)], False),  # before the process had ended
        (97.9, 111.0, [PAUSED], True),
        (98.1, 111.0, [PAUSED], False),
        (111.9, 113.0, [PAUSED], False),
        (112.1, 113.0, [PAUSED], True),
        (0.0, 60.0, [], False),  # never settled
        (61.0, 60.0, [], False),  # of a former delivery, when it had been requeued
    ],
)
def test_a_settled_message_comes_back_only_if_a_fault_followed_within_two_seconds(
    settled: float, delivered: float, faults: list[Fault], seen: bool
) -> None:
    again = (1, delivered, 1, True, delivered + 1)
    history = history_of(SPREAD, "shared", [(1, 49.0, 0, False, settled), again], faults)
    assert told(history) == (["shared: settled and back: 1: 1"] if seen else [])


def test_a_second_delivery_without_the_flag_is_seen() -> None:
    history = history_of(SPREAD, "shared", [once(1, settled=0.0), once(1, 51.0)])
    assert told(history) == ["shared: delivered twice without a flag: 1: 1"]


@pytest.mark.parametrize(
    ("kind", "time", "excused"),
    [
        (CUT_OFF, 119.0, True),
        (CUT_FROM_PEERS, 119.0, True),
        (CUT_OFF, 121.0, False),
        (PAUSE, 111.0, False),
        (KILL, 110.0, False),
    ],
)
def test_a_first_delivery_may_arrive_late_after_a_partition_alone(
    kind: str, time: float, excused: bool
) -> None:
    rows = [(1, 105.0, 1, True, 0.0), (1, time, 0, False, 0.0)]
    history = history_of(SPREAD, "shared", rows, [Fault(kind, 1, 100.0, 110.0)])
    assert told(history) == ([] if excused else ["shared: delivered twice without a flag: 1: 1"])


def test_the_first_violation_is_told_with_the_fault_before_it() -> None:
    history = history_of(SPREAD, "shared", [once(1), (1, 101.0, 1, False, 0.0)], [KILLED])
    found = list(broken(history, [], WINDOW))
    assert found[1] == (
        "  sent 1.000 by broker 0; delivered 50.000 to consumer 0 by broker 0, settled 50.100;"
        " delivered 101.000 to consumer 1 by broker 0, settled 0.000;"
        " kill of broker 1 from 100.000 to 100.000"
    )


def test_dead_letters_may_come_twice() -> None:
    history = history_of(MIXED, "dropped", [once(1), once(1, 51.0)])
    assert told(history) == []


@pytest.mark.parametrize("queue", ["order", "reject", "plain"])
def test_a_first_delivery_behind_a_later_message_is_out_of_order(queue: str) -> None:
    history = history_of(
        BY_NAME[queue].exchange, queue, [once(0), once(2, settled=0.0), once(1), once(3)]
    )
    assert told(history) == [f"{queue}: out of order: 1: 1"]


def test_messages_of_two_publishers_and_redelivered_ones_have_no_order() -> None:
    rows = [once(BLOCK), once(0), once(1, settled=0.0), (1, 51.0, 0, True, 52.0), once(BLOCK + 1)]
    history = history_of(SPREAD, "order", rows)
    other = history.publishes.open(PublisherSession(SPREAD, 1, 0.0, ended=500.0, clean=True))
    history.publishes.block(other)
    for number in (BLOCK, BLOCK + 1):
        history.publishes.state[number] = SENT
    assert told(history) == []


@pytest.mark.parametrize(
    ("now", "ended", "faults", "seen"),
    [
        (60.0, 0.0, [], True),
        (60.0, 70.0, [], True),
        (60.0, 59.0, [], False),
        (101.0, 0.0, [KILLED], False),
        (103.0, 0.0, [KILLED], True),
        (111.0, 0.0, [PAUSED], False),
        (113.0, 0.0, [PAUSED], True),
    ],
)
def test_another_consumer_is_active_only_behind_the_end_of_the_first(
    now: float, ended: float, faults: list[Fault], seen: bool
) -> None:
    history = history_of(SPREAD, "single", [once(0), (1, now, 1, False, now)], faults)
    history.subscriptions[0].ended = ended
    expected = ["single: two active consumers: 1: 1 from consumer 0 to 1"]
    assert told(history) == (expected if seen else [])


def test_a_message_that_expires_early_is_seen() -> None:
    history = history_of(MIXED, "expired", [once(0, 2.9), once(1, 3.1)])
    assert told(history) == ["expired: expired early: 1: 0"]


def test_messages_of_another_exchange_and_unknown_ones_are_seen() -> None:
    history = history_of(SPREAD, "plain", [once(0)])
    assert told(history) == ["plain: never published to it: 1: 0"]
    history = history_of(SPREAD, "shared", [once(4), once(9999)])
    assert told(history) == ["shared: never published to it: 2: 4, 9999"]
    history = history_of(MIXED, "rejected", [once(5), once(10)], published=11)
    assert told(history) == ["rejected: never published to it: 1: 5"]


@pytest.mark.parametrize(
    ("clean", "left", "seen"),
    [(True, 0, False), (True, 1, True), (False, WINDOW, False), (False, WINDOW + 1, True)],
)
def test_a_publish_without_an_answer_was_in_flight_at_the_end(
    clean: bool, left: int, seen: bool
) -> None:
    history = history_of(SPREAD, "order", [])
    (session,) = history.publishes.sessions
    session.clean, session.unanswered = clean, left
    expected = [f"unanswered publishes: 1: session 0 on broker 0: {left} unanswered"]
    assert told(history) == (expected if seen else [])


@pytest.mark.parametrize(
    ("since", "faults", "seen"),
    [(80.0, [], True), (90.0, [], False), (95.0, [PAUSED], False), (80.0, [PAUSED], True)],
)
def test_a_client_that_waits_in_vain_without_a_fault_is_stuck(
    since: float, faults: list[Fault], seen: bool
) -> None:
    history = history_of(SPREAD, "order", [], faults)
    for session in (history.publishes.sessions[0], history.subscriptions[0]):
        session.silent_since, session.ended = since, 100.0 if not faults else 115.0
    found = told(history)
    assert [line.partition(": 2: ")[0] for line in found] == (["stuck"] if seen else [])


def test_a_second_answer_to_a_publish_is_a_problem() -> None:
    history = History()
    published = Published(history, PublisherSession(SPREAD, 0, 0.0))
    published.next_numbers(4)
    published.answered(BasicAck(2, True), 1.0)
    published.answered(BasicNack(4, False, False), 1.1)
    assert list(history.publishes.state[:4]) == [CONFIRMED, CONFIRMED, SENT, REFUSED]
    assert history.problems == []
    published.answered(BasicNack(2, False, False), 1.2)
    assert len(history.problems) == 1
    assert published.waiting == {3: 2}


def test_only_what_a_probe_confirms_is_settled() -> None:
    deliveries = Deliveries()
    held = Held(BY_NAME["reject"], deliveries, 0)
    for tag, number in enumerate((9, 10, 20), 1):
        held.delivered(BasicDeliver("c", tag, False, "", ""), number, 1.0)
    frames = held.settle()
    assert frames.count(b"\x00\x3c\x00\x5a") == 2, "two are rejected"
    assert list(deliveries.settled) == [0.0, 0.0, 0.0]
    held.accepted(2.0)
    assert list(deliveries.settled) == [2.0, 2.0, 2.0]


def test_a_requeued_delivery_is_not_settled() -> None:
    deliveries = Deliveries()
    held = Held(BY_NAME["shared"], deliveries, 0)
    held.delivered(BasicDeliver("c", 1, False, "", ""), 50, 1.0)
    held.delivered(BasicDeliver("c", 2, True, "", ""), 50, 2.0)
    held.settle()
    held.accepted(3.0)
    assert list(deliveries.settled) == [0.0, 3.0]


def test_the_longest_gap_of_a_fault_begins_with_the_last_event_before_it() -> None:
    times = array("d", [1.0, 1.5, 9.0, 9.1, 30.0])
    assert longest_gap(times, 2.0, 9.05) == 7.5
    assert longest_gap(times, 8.0, 8.5) == 7.5
    assert longest_gap(times, 9.0, 9.05) == 7.5
    assert longest_gap(times, 29.0, 60.0) == pytest.approx(20.9)
    assert longest_gap(times, 31.0, 35.0) == 5.0


def test_the_faults_of_a_run_are_drawn_by_its_seed() -> None:
    orders = [drawn(5, 3, 4, random.Random(seed)) for seed in (1, 1, 2)]
    assert orders[0] == orders[1] != orders[2]
    for order in orders:
        assert sorted(order) == sorted(
            [KILL] * 5 + [PAUSE] * 3 + [CUT_FROM_PEERS] * 2 + [CUT_OFF] * 2
        )
