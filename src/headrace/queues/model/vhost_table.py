"""The table of one vhost: exchanges, queues, bindings and policies, changed without checks.

Commands (`virtual_host`) check and decide; records of the log of declarations (`declaration_table`)
were decided before. Only a command deletes auto-delete exchanges that it leaves unbound: what it
deletes is in the log, each by a record of its own.
"""

from typing import TYPE_CHECKING

from headrace.queues.model.bindings import Bindings, Removed
from headrace.queues.model.declarations import DeclaredQueue, Owner
from headrace.queues.model.exchange_types.amqp import DIRECT, FANOUT, HEADERS, TOPIC
from headrace.queues.model.exchanges import DEFAULT_EXCHANGE, Binding, Destination, Exchange
from headrace.queues.model.routing import Router
from headrace.queues.refusals import QUEUE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.queues.model.policies.present import PresentPolicies
    from headrace.queues.model.policies.vhost_policy import PolicyId, VhostPolicy


_PREDECLARED = (
    (DEFAULT_EXCHANGE, DIRECT),
    ("amq.direct", DIRECT),
    ("amq.fanout", FANOUT),
    ("amq.topic", TOPIC),
    ("amq.headers", HEADERS),
    ("amq.match", HEADERS),
)


class VhostTable:
    """The exchanges, queues and bindings of a vhost, which routes follow, and its policies."""

    def __init__(self, name: str) -> None:
        """Create the table of a new vhost, with the predeclared exchanges."""
        self.name = name
        self.exchanges = {exchange.name: exchange for exchange in predeclared_exchanges()}
        self.queues: dict[str, DeclaredQueue] = {}
        self.bindings = Bindings(self.exchanges)
        self.router = Router(name, self.exchanges, self.queues)
        self.policies: dict[PolicyId, VhostPolicy] = {}
        """The policies, also those of commands that are not committed yet."""
        self.present: PresentPolicies | None = None
        """The policies by which objects have their settings; None: there are none."""
        self._of_owners: dict[Owner, set[str]] = {}

    def add_exchange(self, exchange: Exchange) -> None:
        """Add a new exchange, with its policies."""
        if self.present is not None:
            exchange.alternate = self.present.alternate_of(exchange)
        self.exchanges[exchange.name] = exchange
        self.router.forget()
        self.router.has_topics |= exchange.stored is not None

    def add_queue(self, queue: DeclaredQueue) -> None:
        """Add a new queue, with its policies."""
        if self.present is not None:
            queue.settings = self.present.settings_of(queue)
        self.queues[queue.name] = queue
        if queue.settings.topic is not None:
            self.router.read_topics[queue.name] = queue.settings.topic
            self.router.has_topics = True
        if queue.owner is not None:
            self._of_owners.setdefault(queue.owner, set()).add(queue.name)

    def add_binding(self, binding: Binding) -> bool:
        """Add a binding whose ends exist; return False if it exists already."""
        added = self.bindings.add(binding)
        if added:
            self.router.forget()
        return added

    def remove_exchange(self, exchange: Exchange, *, unbound: bool = True) -> Removed:
        """Remove an exchange with its bindings; return all that was removed.

        `unbound`: also auto-delete exchanges that are left without a binding.
        """
        self.router.forget()
        return self.bindings.remove_exchange(exchange, unbound=unbound)

    def remove_queue(self, name: str, *, unbound: bool = True) -> Removed:
        """Remove a queue with its bindings; return all that was removed, as `remove_exchange`."""
        queue = self.queues.pop(name)
        self.router.read_topics.pop(name, None)
        if queue.owner is not None:
            of_owner = self._of_owners[queue.owner]
            of_owner.discard(name)
            if not of_owner:
                del self._of_owners[queue.owner]
        removed = self.bindings.remove_to(Destination(QUEUE, name), unbound=unbound)
        if removed.bindings:
            self.router.forget()
        return removed._replace(queues=(name,))

    def remove_binding(self, binding: Binding, *, unbound: bool = True) -> Removed:
        """Remove an existing binding; return all that was removed, as `remove_exchange`."""
        self.router.forget()
        return self.bindings.remove(binding, unbound=unbound)

    def set_policy(self, policy: "VhostPolicy") -> None:
        """Set a policy, in place of an earlier one of its id."""
        self.policies[policy.id] = policy

    def clear_policies(self, ids: "Iterable[PolicyId]") -> Removed:
        """Clear policies; unknown ones are ignored. Return those that were cleared."""
        return Removed(policies=tuple(each for each in ids if self.policies.pop(each, None)))

    def owned_by(self, owner: Owner) -> list[str]:
        """Return the sorted names of the queues that are exclusive to a connection."""
        return sorted(self._of_owners.get(owner, ()))


def predeclared_exchanges() -> list[Exchange]:
    """Return the exchanges of each new vhost: the default one and those named `amq.`."""
    exchanges = [Exchange(name, each, durable=True) for name, each in _PREDECLARED]
    trace = Exchange("amq.rabbitmq.trace", TOPIC, durable=True, internal=True)
    return [*exchanges, trace]
