"""A broker's table of one partition of the log of declarations."""

import pytest

from headrace.model.errors import Malformed
from headrace.model.nouns import Offset
from headrace.queues.model.bindings import Removed
from headrace.queues.model.declaration_table import Applied
from headrace.queues.model.stored_model import (
    BindingRecord,
    ExchangeRecord,
    QueueRecord,
    Record,
    policy_record,
)
from headrace.queues.model.stored_records import encode_record, record_key
from headrace.queues.model.vhost_table import VhostTable
from headrace.vhosts.declarations.followed_table import STALE_SECONDS, FollowedTable
from tests.support.queues.policies import vhost_policy

QUEUE = QueueRecord("q", False, {"x-queue-type": "classic"})
EXCHANGE = ExchangeRecord("e", "topic", False, False, {})
BINDING = BindingRecord("e", "queue", "q", "k", {})


class Followed:
    """A table, with the table of its vhost `/` and the changes that it reported."""

    def __init__(self) -> None:
        self.vhost = VhostTable("/")
        self.changes: list[Applied] = []
        self.table = FollowedTable(
            lambda _: self.vhost, lambda _, applied: self.changes.append(applied), 0.0
        )

    def take(self, *records: Record) -> None:
        for record in records:
            self.table.take(record_key("/", record), encode_record("/", record))

    def remove(self, *records: Record) -> None:
        for record in records:
            self.table.take(record_key("/", record), None)

    def owners(self) -> list[object]:
        """Return the owners of exclusive queues."""
        return [each.owner for each in self.vhost.queues.values() if each.owner is not None]

    def route(self) -> tuple[str, ...]:
        """Return the queues of the binding's key."""
        return tuple(self.vhost.router.route("e", "k")) if "e" in self.vhost.exchanges else ()


def test_binding_waits_for_ends_that_compaction_left_behind_it() -> None:
    here = Followed()
    here.take(BINDING, QUEUE)
    assert not here.route()
    here.take(EXCHANGE)
    assert here.route() == ("q",)
    other = Followed()
    other.take(BINDING)
    other.remove(BINDING)
    other.take(QUEUE, EXCHANGE)
    assert not other.route()


def test_replicas_of_a_queue_change_without_its_bindings() -> None:
    here = Followed()
    here.take(EXCHANGE, QUEUE, BINDING)
    here.changes.clear()
    here.take(QUEUE._replace(replicas=(1, 2)))
    assert here.table.planned_leaders == {1: 1}
    assert here.route() == ("q",)
    assert not here.changes
    here.take(QUEUE._replace(replicas=(1, 2), deleting=True))
    assert not here.route()
    assert "q" not in here.vhost.queues


def test_undo_restores_the_last_committed_values() -> None:
    here = Followed()
    here.take(EXCHANGE, QUEUE, BINDING)
    before = dict(here.table.records)
    first, second = here.table.hold(), here.table.hold()
    for record in (BINDING, QUEUE):
        here.table.take_held(first, record_key("/", record), None)
    other = QUEUE._replace(arguments={"x-queue-type": "quorum"})
    for record in (other, BINDING._replace(routing_key="new")):
        here.table.take_held(second, record_key("/", record), encode_record("/", record))
    assert not here.route()
    here.table.undo()
    assert here.table.records == before
    assert here.route() == ("q",)
    assert here.vhost.queues["q"].arguments == QUEUE.arguments


def test_committed_changes_stay_when_later_ones_are_undone() -> None:
    here = Followed()
    first, second = here.table.hold(), here.table.hold()
    for held, record in ((first, QUEUE), (second, EXCHANGE)):
        here.table.take_held(held, record_key("/", record), encode_record("/", record))
    here.table.commit(first)
    here.table.undo()
    assert "q" in here.vhost.queues
    assert "e" not in here.vhost.exchanges


def test_table_that_is_read_again_loses_what_the_log_does_not_have() -> None:
    here = Followed()
    here.take(EXCHANGE, QUEUE, BINDING)
    here.table.advance(Offset(3))
    here.table.note_current(10.0)
    assert not here.table.is_stale(10.0 + STALE_SECONDS)
    assert here.table.is_stale(11.0 + STALE_SECONDS)
    here.table.reread()
    assert here.table.applied == 0
    here.take(QUEUE)
    assert here.route() == ("q",), "routes stay until the end is read"
    here.table.have_reread()
    assert set(here.table.records) == {record_key("/", QUEUE)}
    assert "e" not in here.vhost.exchanges


def test_policies_follow_the_log_and_its_order() -> None:
    here = Followed()
    first, second = vhost_policy(), vhost_policy(length=9, at=1)
    here.take(policy_record(first))
    here.take(policy_record(first))
    here.take(policy_record(second))
    assert here.vhost.policies == {first.id: second}
    assert here.changes == [Applied(first), Applied(second)]
    here.remove(policy_record(second))
    assert not here.vhost.policies
    assert here.changes[-1] == Applied(removed=Removed(policies=(first.id,)))


def test_undo_restores_the_last_committed_policies() -> None:
    here = Followed()
    stays, other = vhost_policy("stays"), vhost_policy("other")
    here.take(policy_record(stays), policy_record(other))
    first, second = here.table.hold(), here.table.hold()
    for held, policy in (
        (first, vhost_policy("stays", length=8)),
        (second, vhost_policy("stays", length=9)),
        (second, vhost_policy("new")),
    ):
        record = policy_record(policy)
        here.table.take_held(held, record_key("/", record), encode_record("/", record))
    here.table.take_held(first, record_key("/", policy_record(other)), None)
    assert len(here.vhost.policies) == 2
    here.table.undo()
    assert here.vhost.policies == {each.id: each for each in (stays, other)}


def test_policy_with_the_name_of_an_exchange_is_no_end_of_a_binding() -> None:
    here = Followed()
    here.take(BINDING, QUEUE, policy_record(vhost_policy("e")))
    here.take(EXCHANGE)
    assert here.route() == ("q",)


def test_malformed_policy_leaves_the_earlier_one() -> None:
    here = Followed()
    record = policy_record(vhost_policy())
    here.take(record)
    with pytest.raises(Malformed):
        here.take(record._replace(value='{"pattern": "^q"}'))
    assert here.table.malformed == 1
    assert here.vhost.policies == {vhost_policy().id: vhost_policy()}


def test_applied_offset_is_awaited() -> None:
    here, heard = Followed(), list[int]()
    here.table.advance(Offset(2))
    here.table.when_applied(Offset(2), lambda _: heard.append(2))
    here.table.when_applied(Offset(5), lambda _: heard.append(5))
    here.table.when_applied(Offset(4), lambda _: heard.append(4))
    assert heard == [2]
    here.table.advance(Offset(4))
    assert heard == [2, 4]
    here.table.advance(Offset(9))
    assert heard == [2, 4, 5]


def test_transient_queues_are_found_by_their_broker() -> None:
    here = Followed()
    exclusive = QueueRecord("mine", False, {"x-queue-type": "classic"}, (1, 7, 3))
    here.take(QUEUE, exclusive)
    assert list(here.table.homes()) == [(1, 7)]
    assert here.table.of_home(1, 7) == [record_key("/", exclusive)]
    assert here.owners() == [(1, 7, 3)]
    moved = exclusive._replace(home=(2, 9, 0))
    here.take(moved)
    assert list(here.table.homes()) == [(2, 9)]
    assert here.owners() == []
    here.remove(moved)
    assert not list(here.table.homes())
