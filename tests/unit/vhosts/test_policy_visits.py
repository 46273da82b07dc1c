"""Visits of a vhost's queues and exchanges after its policies have changed."""

import pytest

from headrace.queue_stores.queue_settings import Published
from headrace.queues.model.bindings import Removed
from headrace.queues.model.declaration_table import Applied
from headrace.queues.model.declarations import ExchangeFlags
from headrace.queues.model.exchange_types.amqp import FANOUT
from headrace.queues.model.exchanges import Binding, Destination, Exchange
from headrace.queues.model.policies.vhost_policy import PolicyId, VhostPolicy
from headrace.testing.clock import SimClock
from headrace.vhosts.policies.visits import RETRY_SECONDS, WAIT_SECONDS, PolicyVisits
from headrace.wire.amqp.content import Message
from headrace.wire.amqp.properties import Properties, make_header
from tests.support.queues.policies import NOW_MS, vhost_policy
from tests.unit.queues.engine.test_pauses import Place


class SlowClock(SimClock):
    """A clock of which a slice has time for five objects."""

    def monotonic(self) -> float:
        self._now += 0.001
        return self._now


class Visited(Place):
    """A vhost whose policies change."""

    def __init__(self, clock: SimClock | None = None) -> None:
        super().__init__()
        self.clock = clock or self.clock
        self.visits = PolicyVisits(self.clock, self.hosts)

    def set(self, *policies: VhostPolicy) -> None:
        """Set these policies alone."""
        self.visits.begin(self.host, {each.id: each for each in policies})

    def visit(self, *policies: VhostPolicy) -> None:
        """Set these policies alone, and wait until all objects have them."""
        self.set(*policies)
        while self.clock.turn():
            pass

    @property
    def lengths(self) -> dict[str, int | None]:
        """The length limits of the declared queues."""
        queues = self.host.model.queues
        return {name: queue.settings.length_max for name, queue in queues.items()}


def test_policy_applies_to_queues_of_before_and_of_after_until_it_is_cleared() -> None:
    here = Visited()
    queue = here.queue("q1")
    here.queue("other")
    here.publish(queue, *"abcde")
    here.visit(vhost_policy(length=3))
    assert queue.ready == 3
    here.queue("q2")
    assert here.lengths == {"q1": 3, "other": None, "q2": 3}
    here.publish(here.host.queues["q2"], *"abcde")  # type: ignore[arg-type]
    assert here.host.queues["q2"].ready == 3
    here.visit()
    here.queue("q3")
    assert here.lengths == {"q1": None, "other": None, "q2": None, "q3": None}
    assert here.host.model.table.present is None


def test_policies_are_joined_with_operators_and_arguments() -> None:
    here = Visited()
    here.queue("q1", max_length=9)
    here.queue("q2", max_length=2)
    policy = vhost_policy(definition={"max-length": 7, "message-ttl": 60_000})
    limit = {"max-length": 4, "message-ttl": 5000}
    here.visit(policy, vhost_policy("o", operators=True, definition=limit, at=5))
    assert here.lengths == {"q1": 4, "q2": 2}
    settings = here.host.model.queues["q1"].settings
    assert (settings.ttl_ms, settings.ttl_since_ms) == (5000, NOW_MS + 5)
    here.visit(policy, vhost_policy("o", operators=True, length=8, at=9))
    settings = here.host.model.queues["q1"].settings
    assert (settings.ttl_ms, settings.ttl_since_ms, settings.length_max) == (60_000, NOW_MS, 7)


def test_alternate_exchange_of_a_policy_counts_for_routes_that_are_cached() -> None:
    here = Visited()
    queue = here.queue("unrouted")
    for name in ("x", "fallback"):
        here.host.model.declare_exchange(name, "fanout", ExchangeFlags(), {})
    bind(here, "fallback", "unrouted")
    publish(here, "x")
    policy = vhost_policy(pattern="^x", definition={"alternate-exchange": "fallback"})
    here.visit(policy)
    publish(here, "x")
    here.host.model.declare_exchange("x2", "fanout", ExchangeFlags(), {})
    publish(here, "x2")
    assert queue.ready == 2
    here.visit()
    publish(here, "x")
    assert queue.ready == 2


def bind(here: Visited, exchange: str, queue: str) -> None:
    here.host.model.bind(Binding(exchange, Destination("queue", queue), "", {}), None)


def publish(here: Visited, exchange: str) -> None:
    message = Message(exchange, "", make_header(1, Properties()), b"a")
    here.host.publish(here.host.model.router.route(exchange, ""), Published(message))


def test_visit_goes_in_slices_and_misses_no_declaration_of_that_time() -> None:
    here = Visited(SlowClock())
    for number in range(12):
        here.queue(f"q{number}")
    first = len(here.host.model.exchanges)
    here.set(vhost_policy(length=3))
    sliced: list[int] = []
    while here.visits.is_visiting("/"):
        here.clock.turn()
        sliced.append(sum(length == 3 for length in here.lengths.values()))
        if len(sliced) == 2:
            here.queue("q-late")
            here.host.delete_queue("q11", None, if_unused=False, if_empty=False)
            here.queue("q11", max_length=1)
    assert len(sliced) > (12 + first) // 5
    assert here.lengths == {f"q{number}": 3 for number in range(11)} | {"q-late": 3, "q11": 1}
    running = {name: queue.settings.length_max for name, queue in here.host.queues.items()}
    assert running == here.lengths


def test_change_in_a_visit_begins_it_again() -> None:
    here = Visited(SlowClock())
    for number in range(12):
        here.queue(f"q{number}")
    here.set(vhost_policy(length=3))
    for _ in range(3):
        here.clock.turn()
    assert 3 in here.lengths.values()
    here.visit(vhost_policy(length=5))
    assert set(here.lengths.values()) == {5}


def test_reports_of_records_change_the_policies_by_which_objects_are_declared() -> None:
    here = Visited()
    here.queue("q")
    policy, limit = vhost_policy(length=3), vhost_policy("o", operators=True, length=2)
    seen: list[int | None] = []
    changes = (
        Applied(policy),
        Applied(limit),
        Applied(Exchange("x", FANOUT)),
        Applied(removed=Removed(policies=(PolicyId("o", True), PolicyId("unknown")))),
        Applied(vhost_policy(length=7)),
        Applied(removed=Removed(policies=(PolicyId("p"),))),
    )
    for applied in changes:
        here.visits.changed("/", applied)
        here.clock.turn()
        seen.append(here.lengths["q"])
    assert seen == [3, 2, 2, 3, 7, None]
    here.visits.changed("/", Applied(vhost_policy(length=1)))
    here.visits.changed("/", Applied(limit))
    here.clock.turn()
    assert here.lengths == {"q": 1}, "two records of one batch"
    here.visits.changed("gone", Applied(policy))
    assert not here.visits.is_visiting("gone")


def test_waits_for_the_end_of_all_visits_but_not_for_long() -> None:
    here = Visited()
    told: list[str] = []
    here.visits.ended = lambda: told.append("ended")
    here.visits.when_visited(lambda _: told.append("none"))
    here.set(vhost_policy())
    here.visits.when_visited(lambda _: told.append("visited"))
    assert told == ["none"]
    assert here.visits.is_visiting("/")
    here.clock.turn()
    assert told == ["none", "ended", "visited"]
    assert not here.visits.is_visiting("/")
    here.visits._continue = lambda visit, until: False  # type: ignore[method-assign]
    here.set(vhost_policy())
    here.visits.when_visited(lambda _: told.append("late"))
    for _ in range(3):
        here.clock.turn()
        here.clock._now += WAIT_SECONDS / 2
    assert told[3:] == ["late"]


def test_vhost_that_is_deleted_in_a_visit_ends_it() -> None:
    here = Visited(SlowClock())
    other = here.hosts.add("other")
    here.visits.begin(other, {PolicyId("p"): vhost_policy()})
    here.hosts.remove("other")
    again = here.hosts.add("other")
    while here.clock.turn():
        pass
    assert not here.visits.is_visiting("other")
    assert again.model.table.present is None


def test_queues_have_the_settings_of_their_policies_before_they_run() -> None:
    here = Visited()
    model = here.host.model
    queue = here.queue("q").declared
    model.table.set_policy(vhost_policy(length=3))
    here.visits.load(here.host)
    assert queue.settings.length_max == 3
    assert not here.visits.is_visiting("/")
    assert here.visits._policies_of(here.host) == model.policies


def test_fault_with_one_queue_does_not_end_the_visit() -> None:
    here = Visited()
    for name in ("q1", "q2", "q3"):
        here.queue(name)

    def fail(settings: object) -> None:
        raise KeyError("planted")

    here.host.queues["q2"].apply = fail  # type: ignore[method-assign]
    here.set(vhost_policy(length=3))
    with pytest.raises(KeyError, match="planted"):
        here.clock.turn()
    here.clock.turn()
    lengths = here.lengths
    assert lengths["q3"] is None, "a fault that stays does not fill the log"
    here.clock.advance(RETRY_SECONDS)
    assert here.lengths["q3"] == 3
    assert not here.visits.is_visiting("/")
