"""`PolicyVisits`: gives the queues and exchanges of vhosts the settings of their policies.

    policies change ──► VhostTable.present: what is declared from now on has its policies
                    └─► a visit of all that is declared, in slices of 5 ms

A change of policies during a visit begins it again. Only committed policies count: those of a
command whose append fails must drop no message.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from headrace.ports.callbacks import Done, Once
from headrace.ports.clock import Clock
from headrace.queues.engine.changed_settings import change_settings
from headrace.queues.model.declarations import DeclaredQueue
from headrace.queues.model.exchanges import Exchange
from headrace.queues.model.policies.present import PresentPolicies
from headrace.queues.model.policies.vhost_policy import PolicyId, VhostPolicy

if TYPE_CHECKING:
    from headrace.queue_stores.queue_settings import QueueSettings
    from headrace.queues.engine.queue_host import QueueHost
    from headrace.queues.engine.virtual_hosts import VirtualHosts
    from headrace.queues.model.declaration_table import Applied

    QueueChanged = Callable[[QueueHost, DeclaredQueue, QueueSettings], None]

SLICE_SECONDS = 0.005
"""Seconds of a visit in one turn of the loop."""
WAIT_SECONDS = 2.0
"""Seconds for which `when_visited` waits at most."""
RETRY_SECONDS = 1.0
"""Seconds after which a visit goes on that a fault has interrupted."""
_NO_POLICIES: Mapping[PolicyId, VhostPolicy] = {}


class _Visit:
    """A visit of a vhost's objects."""

    def __init__(self, host: "QueueHost", policies: Mapping[PolicyId, VhostPolicy]) -> None:
        self.host = host
        self.policies = dict(policies)
        self.present: PresentPolicies | None = None
        """The policies of the objects; None: it begins, perhaps again."""
        self.left: Iterator[Exchange | DeclaredQueue] = iter(())

    def begin(self) -> PresentPolicies:
        """Have later declarations match; take all objects that exist."""
        table = self.host.model.table
        self.present = present = PresentPolicies(self.policies)
        table.present = present if self.policies else None
        self.left = iter([*table.exchanges.values(), *table.queues.values()])
        return present


class PolicyVisits:
    """The visits of a broker's vhosts after changes of policies. On the deciding thread."""

    def __init__(self, clock: Clock, virtual_hosts: "VirtualHosts") -> None:
        """Begin without policies."""
        self._clock = clock
        self._virtual_hosts = virtual_hosts
        self._visits: dict[str, _Visit] = {}
        self._waiting: list[Once[None]] = []
        self._is_scheduled = False
        self.ended: Callable[[], None] = lambda: None
        """Called once all visits have ended."""
        self.queue_changed: list[QueueChanged] = []
        """Called with a vhost, a queue that has other settings now, and those before."""

    # Changes of policies

    def changed(self, vhost: str, applied: "Applied") -> None:
        """Note a committed change of a vhost by a record; other ones than policies are ignored."""
        added, removed = applied.added, applied.removed.policies
        host = self._virtual_hosts.hosts.get(vhost)
        if host is None or not (isinstance(added, VhostPolicy) or removed):
            return
        policies = dict(self._policies_of(host))
        for each in removed:
            policies.pop(each, None)
        if isinstance(added, VhostPolicy):
            policies[added.id] = added
        self.begin(host, policies)

    def begin(self, host: "QueueHost", policies: Mapping[PolicyId, VhostPolicy]) -> None:
        """Give the objects of a vhost the settings of policies, from the loop's next turn on."""
        visit = self._visits.get(host.name)
        if visit is None or visit.host is not host:
            visit = self._visits[host.name] = _Visit(host, policies)
        visit.policies, visit.present = dict(policies), None
        self._schedule()

    def load(self, host: "QueueHost") -> None:
        """Give the objects of a vhost, none of which runs yet, the settings of its policies."""
        if host.model.policies:
            visit = _Visit(host, host.model.policies)
            present = visit.begin()
            for each in visit.left:
                self._visit(host, present, each, [])

    def _policies_of(self, host: "QueueHost") -> Mapping[PolicyId, VhostPolicy]:
        visit, present = self._visits.get(host.name), host.model.table.present
        if visit is not None and visit.host is host:
            return visit.policies
        return _NO_POLICIES if present is None else present.policies

    # Visits

    def is_visiting(self, vhost: str) -> bool:
        """Tell whether objects of a vhost may not have the settings of its policies yet."""
        return vhost in self._visits

    def when_visited(self, done: Done[None]) -> None:
        """Call `done` once no visit is going on, after `WAIT_SECONDS` at the latest."""
        if not self._visits:
            done(None)
            return
        once = Once(done)
        self._waiting.append(once)
        self._clock.call_later(WAIT_SECONDS, partial(once, None))

    def _schedule(self, seconds: float = 0.0) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._clock.call_later(seconds, self._slice)

    def _slice(self) -> None:
        """Visit some objects, and the others in later turns of the loop."""
        self._is_scheduled = False
        until = self._clock.monotonic() + SLICE_SECONDS
        has_failed = True
        try:
            while self._visits:
                vhost, visit = next(iter(self._visits.items()))
                if not self._continue(visit, until):
                    break
                if visit.present is not None:  # else it begins again
                    del self._visits[vhost]
            has_failed = False
        finally:
            if self._visits:  # a fault with one object must not hold up all others
                self._schedule(RETRY_SECONDS if has_failed else 0.0)
        if not self._visits:
            self.ended()
            waiting, self._waiting = self._waiting, []
            for done in waiting:
                done(None)

    def _continue(self, visit: _Visit, until: float) -> bool:
        """Visit objects of a vhost until a monotonic time; return whether none are left."""
        host = visit.host
        if self._virtual_hosts.hosts.get(host.name) is not host:
            visit.begin()
            return True
        present = visit.present or visit.begin()
        for each in visit.left:
            self._visit(host, present, each, self.queue_changed)
            if self._clock.monotonic() >= until:
                return False
        return True

    def _visit(
        self,
        host: "QueueHost",
        present: PresentPolicies,
        declared: Exchange | DeclaredQueue,
        queue_changed: "Sequence[QueueChanged]",
    ) -> None:
        table = host.model.table
        if isinstance(declared, Exchange):
            alternate = present.alternate_of(declared)
            if alternate != declared.alternate:
                declared.alternate = alternate
                table.router.forget()
        elif table.queues.get(declared.name) is declared:
            settings = present.settings_of(declared)
            if settings != declared.settings:
                before = declared.settings
                change_settings(host, declared, settings, self._clock.wall_ms())
                for changed in queue_changed:
                    changed(host, declared, before)
