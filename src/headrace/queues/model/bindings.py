"""The bindings of one vhost, from exchanges to queues and other exchanges.

Deleting an exchange or a queue deletes its bindings. An auto-delete exchange is deleted with the
last binding from it, which may delete further exchanges.
"""

from typing import TYPE_CHECKING, NamedTuple

from headrace.queues.model.exchanges import Binding, Destination, Exchange
from headrace.queues.refusals import EXCHANGE

if TYPE_CHECKING:
    from collections.abc import Hashable

    from headrace.queues.model.policies.vhost_policy import PolicyId


class Removed(NamedTuple):
    """Names of deleted queues, deleted exchanges, deleted bindings and ids of cleared policies."""

    queues: tuple[str, ...] = ()
    exchanges: tuple[Exchange, ...] = ()
    bindings: tuple[Binding, ...] = ()
    policies: "tuple[PolicyId, ...]" = ()


class Bindings:
    """All bindings of a vhost but the default exchange's, by source and by destination."""

    def __init__(self, exchanges: dict[str, Exchange]) -> None:
        """Create an empty table of bindings.

        `exchanges` are the vhost's; auto-delete exchanges are removed from it.
        """
        self._exchanges = exchanges
        self._to: dict[Destination, dict[tuple[str, Hashable], Binding]] = {}

    def add(self, binding: Binding) -> bool:
        """Add a binding from an existing exchange; return False if it exists already."""
        source = self._exchanges[binding.source]
        identity = binding.identity
        if identity in source.bindings:
            return False
        source.bindings[identity] = binding
        source.table.add(binding)
        self._to.setdefault(binding.destination, {})[binding.source, identity] = binding
        return True

    def has(self, binding: Binding) -> bool:
        """Tell whether the vhost has an equal binding."""
        source = self._exchanges.get(binding.source)
        return source is not None and binding.identity in source.bindings

    def remove(self, binding: Binding, *, unbound: bool = True) -> Removed:
        """Remove an existing binding; return all that was removed.

        `unbound`: also auto-delete exchanges that are left without a binding.
        """
        return self._remove([binding], [], unbound)

    def remove_exchange(self, exchange: Exchange, *, unbound: bool = True) -> Removed:
        """Remove an exchange with its bindings; return all that was removed, as `remove`."""
        del self._exchanges[exchange.name]
        return self._remove([], [exchange], unbound)

    def remove_to(self, destination: Destination, *, unbound: bool = True) -> Removed:
        """Remove all bindings to a destination; return all that was removed, as `remove`."""
        return self._remove(list(self._to.get(destination, {}).values()), [], unbound)

    def to(self, destination: Destination) -> list[Binding]:
        """Return the vhost's bindings to a queue or an exchange."""
        return list(self._to.get(destination, {}).values())

    def _remove(self, bindings: list[Binding], gone: list[Exchange], unbound: bool) -> Removed:
        """Remove bindings and those of removed exchanges, which `unbound` ones become."""
        removed: list[Binding] = []
        ended = 0
        while bindings or ended < len(gone):
            if bindings:
                binding = bindings.pop()
                if self._take(binding):
                    removed.append(binding)
                    source = self._exchanges.get(binding.source) if unbound else None
                    if source is not None and source.auto_delete and not source.bindings:
                        del self._exchanges[source.name]
                        gone.append(source)
                continue
            exchange = gone[ended]
            ended += 1
            bindings.extend(self.to(Destination(EXCHANGE, exchange.name)))
            for binding in list(exchange.bindings.values()):
                self._untie(exchange, binding)
                removed.append(binding)
        return Removed(exchanges=tuple(gone), bindings=tuple(removed))

    def _take(self, binding: Binding) -> bool:
        source = self._exchanges.get(binding.source)
        if source is None or binding.identity not in source.bindings:
            return False
        self._untie(source, binding)
        return True

    def _untie(self, source: Exchange, binding: Binding) -> None:
        identity = binding.identity
        source.table.remove(source.bindings.pop(identity))
        to = self._to[binding.destination]
        del to[source.name, identity]
        if not to:
            del self._to[binding.destination]
