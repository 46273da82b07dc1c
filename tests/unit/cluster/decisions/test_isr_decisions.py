"""What a leader hears whose picture of its ISR is not the store's."""

from headrace.cluster.decisions.decide import decide
from headrace.cluster.decisions.events import BrokersLeft
from headrace.cluster.decisions.facts import Decision
from headrace.cluster.decisions.orders import Lead
from headrace.ports.store import Set
from tests.unit.cluster.decisions.test_decisions import (
    ONE,
    T0,
    THREE,
    TWO,
    E,
    after,
    asked,
    facts_of,
    only,
    state,
    topic,
)


def test_an_isr_that_was_written_for_an_answer_that_was_lost_is_not_written_again() -> None:
    facts = facts_of(topic(state(ONE, ONE, TWO)))
    assert decide(facts, asked(ONE, TWO, version=7)) == Decision()


def test_an_isr_that_is_so_already_is_written_to_outdate_what_may_be_on_its_way() -> None:
    """A leader asks so, once another ISR that it asked for was lost, and then refused."""
    facts = facts_of(topic(state(ONE, ONE, TWO)))
    decision = decide(facts, asked(ONE, TWO))
    assert after(decision) == state(ONE, ONE, TWO)
    (operation,) = only(decision).operations
    assert isinstance(operation, Set)
    assert operation.version == 8


def test_a_leader_that_has_missed_a_partitions_state_is_told_again() -> None:
    facts = facts_of(topic(state(ONE, ONE, TWO)))
    for event, code in (
        (asked(ONE, version=7), E.INVALID_UPDATE_VERSION),
        (asked(ONE, leader_epoch=4), E.FENCED_LEADER_EPOCH),
    ):
        decision = decide(facts, event)
        assert decision.refused == {T0: code}
        (change,) = decision.changes
        assert (change.operations, change.states) == ((), ())
        ((broker, order),) = change.orders
        assert isinstance(order, Lead)
        told = order.replication
        assert (broker, told.isr, told.leader_epoch, told.partition_epoch) == (
            ONE, (ONE, TWO), 5, 8,
        )  # fmt: skip


def test_a_partition_recovers_until_all_replicas_have_followed_the_unclean_leader() -> None:
    facts = facts_of(topic(state(ONE, ONE, recovering=True)))
    assert after(decide(facts, asked(ONE, TWO))) == state(ONE, ONE, TWO, recovering=True)
    held = topic(state(ONE, ONE, TWO, recovering=True))
    again = decide(facts_of(held, alive=(TWO, THREE)), BrokersLeft([ONE]))
    assert after(again) == state(TWO, TWO, epoch=6, recovering=True)
    assert not only(again).unclean
    whole = decide(facts, asked(ONE, TWO, THREE))
    assert after(whole) == state(ONE, ONE, TWO, THREE)
