"""`x-modulus-hash`: a message goes to one destination, by the hash of its routing key."""

from collections.abc import Iterable, Sequence

from headrace.exchanges import Arguments, Binding, Destination, ExchangeKind, Message
from headrace.queues.model.exchange_types.hashes import hash_of_keys


class ModulusHash(ExchangeKind):
    """The hash of the routing keys, modulo the number of destinations, in their order.

    Binding keys have no meaning. A new destination moves almost all routing keys.
    """

    name = "x-modulus-hash"
    description = "Modulus Hashing Exchange"

    def __init__(self, arguments: Arguments) -> None:
        """Create for an exchange without bindings."""
        super().__init__(arguments)
        self._of: Sequence[Binding] = ()
        self._destinations: list[Destination] = []

    def route(self, bindings: Sequence[Binding], message: Message) -> Iterable[Destination]:
        """Return one destination, or none if there is no binding."""
        if bindings is not self._of:
            self._of = bindings
            self._destinations = sorted({each.destination for each in bindings})
        found = self._destinations
        return (found[hash_of_keys(message.routing_keys) % len(found)],) if found else ()
