"""Exchanges and their bindings: for each exchange type, the destinations of a message."""

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from enum import Enum
from typing import NamedTuple, Protocol

from headrace.queues.field_values import table_identity
from headrace.queues.model.exchange_topic import stored_in
from headrace.queues.model.headers_matching import (
    HeadersPattern,
    comparable_headers,
    headers_pattern,
)
from headrace.queues.model.topic_trie import TopicTrie
from headrace.queues.refusals import EXCHANGE, refused

DEFAULT_EXCHANGE = ""
RESERVED_PREFIX = "amq."
ALTERNATE_EXCHANGE = "alternate-exchange"

Headers = Mapping[str, object]
HeadersOf = Callable[[], Headers]
"""Decodes a message's headers; called only if an exchange routes by them."""


class ExchangeType(Enum):
    """The type of an exchange: direct, fanout, topic or headers."""

    DIRECT = "direct"
    FANOUT = "fanout"
    TOPIC = "topic"
    HEADERS = "headers"


class Destination(NamedTuple):
    """The destination of a binding: a queue or an exchange, by name."""

    kind: str
    """`queue` or `exchange`."""
    name: str


class Binding(NamedTuple):
    """A binding; two are the same if source, destination, key and arguments are equal."""

    source: str
    destination: Destination
    routing_key: str
    arguments: Mapping[str, object]

    @property
    def identity(self) -> Hashable:
        """The key that identifies the binding among those of its source."""
        return self.destination, self.routing_key, table_identity(self.arguments)


class BindingTable(Protocol):
    """The bindings of one exchange, indexed for its exchange type."""

    by_key: bool
    """Whether routes depend on the routing key."""
    by_headers: bool
    """Whether routes depend on headers."""

    def add(self, binding: Binding) -> None:
        """Add a new binding to the index."""

    def remove(self, binding: Binding) -> None:
        """Remove an existing binding from the index."""

    def match(self, routing_keys: Sequence[str], headers: HeadersOf) -> Collection[Destination]:
        """Return the destinations of a message with these routing keys and headers."""


class DirectTable:
    """Bindings of a direct exchange, by routing key. Implements `BindingTable`."""

    by_key = True
    by_headers = False

    def __init__(self) -> None:
        self._bound: dict[str, dict[Destination, int]] = {}

    def add(self, binding: Binding) -> None:
        """Count one more binding of the destination by the binding's routing key."""
        bound = self._bound.setdefault(binding.routing_key, {})
        bound[binding.destination] = bound.get(binding.destination, 0) + 1

    def remove(self, binding: Binding) -> None:
        """Count one binding less; the last one removes the destination."""
        bound = self._bound[binding.routing_key]
        _count_less(bound, binding.destination)
        if not bound:
            del self._bound[binding.routing_key]

    def match(self, routing_keys: Sequence[str], headers: HeadersOf) -> Collection[Destination]:
        """Return the destinations bound by one of the routing keys."""
        if len(routing_keys) == 1:
            return self._bound.get(routing_keys[0], {})
        return {bound for key in routing_keys for bound in self._bound.get(key, ())}


class FanoutTable:
    """Bindings of a fanout exchange, whose keys have no meaning. Implements `BindingTable`."""

    by_key = False
    by_headers = False

    def __init__(self) -> None:
        self._bound: dict[Destination, int] = {}

    def add(self, binding: Binding) -> None:
        """Add a binding: count one more of its destination."""
        self._bound[binding.destination] = self._bound.get(binding.destination, 0) + 1

    def remove(self, binding: Binding) -> None:
        """Count one binding less; the last one removes the destination."""
        _count_less(self._bound, binding.destination)

    def match(self, routing_keys: Sequence[str], headers: HeadersOf) -> Collection[Destination]:
        """Return all bound destinations, whatever the routing keys and headers."""
        return self._bound


class TopicTable:
    """Bindings of a topic exchange, by patterns of words. Implements `BindingTable`."""

    by_key = True
    by_headers = False

    def __init__(self) -> None:
        self._trie: TopicTrie[Destination] = TopicTrie()

    def add(self, binding: Binding) -> None:
        """Add a topic binding's pattern to the trie."""
        self._trie.add(binding.routing_key, binding.destination)

    def remove(self, binding: Binding) -> None:
        """Remove a topic binding's pattern from the trie."""
        self._trie.remove(binding.routing_key, binding.destination)

    def match(self, routing_keys: Sequence[str], headers: HeadersOf) -> Collection[Destination]:
        """Return the destinations bound by a pattern that one of the keys matches."""
        found = self._trie.match(routing_keys[0])
        for key in routing_keys[1:]:
            found |= self._trie.match(key)
        return found


class HeadersTable:
    """Bindings of a headers exchange; each is compared with a message.

    Implements `BindingTable`.
    """

    by_key = False
    by_headers = True

    def __init__(self) -> None:
        self._patterns: dict[Hashable, tuple[HeadersPattern, Destination]] = {}

    def add(self, binding: Binding) -> None:
        """Add the header pattern of a binding's arguments."""
        pattern = headers_pattern(binding.arguments)
        self._patterns[binding.identity] = pattern, binding.destination

    def remove(self, binding: Binding) -> None:
        """Remove the header pattern of a binding."""
        del self._patterns[binding.identity]

    def match(self, routing_keys: Sequence[str], headers: HeadersOf) -> Collection[Destination]:
        """Return the destinations bound by a pattern that the headers match."""
        if not self._patterns:
            return ()
        values = comparable_headers(headers())
        return {
            destination
            for pattern, destination in self._patterns.values()
            if pattern.matches(values)
        }


def _count_less(bound: dict[Destination, int], destination: Destination) -> None:
    if bound[destination] == 1:
        del bound[destination]
    else:
        bound[destination] -= 1


_TABLES: dict[ExchangeType, Callable[[], BindingTable]] = {
    ExchangeType.DIRECT: DirectTable,
    ExchangeType.FANOUT: FanoutTable,
    ExchangeType.TOPIC: TopicTable,
    ExchangeType.HEADERS: HeadersTable,
}


class Exchange:
    """An exchange with its flags, its arguments and the bindings from it."""

    __slots__ = (
        "alternate", "arguments", "auto_delete", "bindings", "durable", "exchange_type",
        "internal", "name", "publish_in", "publish_out", "stored", "table",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        exchange_type: ExchangeType,
        *,
        durable: bool = False,
        auto_delete: bool = False,
        internal: bool = False,
        arguments: Mapping[str, object] | None = None,
    ) -> None:
        self.name = name
        self.exchange_type = exchange_type
        self.durable = durable
        self.auto_delete = auto_delete
        """Whether the exchange is deleted with the last binding from it."""
        self.internal = internal
        """Whether clients may not publish to it; other exchanges and dead letters may."""
        self.arguments = dict(arguments or {})
        alternate = self.arguments.get(ALTERNATE_EXCHANGE)
        self.alternate = alternate if isinstance(alternate, str) else None
        """Name of the exchange for messages without a destination here; None: none."""
        self.stored = stored_in(self.arguments)
        """The Kafka topic that stores each message of the exchange; None: none."""
        self.table = _TABLES[exchange_type]()
        self.bindings: dict[Hashable, Binding] = {}
        """The bindings from the exchange, by their identities."""
        self.publish_in = 0
        """Messages that clients published to it since the broker started."""
        self.publish_out: int | None = None
        """Messages that it routed of these, one for each queue; None: `count_out` begins it."""

    def count_out(self) -> int:
        """Return how many messages it routed to queues since the first call of this method.

        They are not counted before, as that costs each publish more than 1 % of its time.
        """
        if self.publish_out is None:
            self.publish_out = 0
        return self.publish_out

    def destinations(
        self, routing_keys: Sequence[str], headers: HeadersOf
    ) -> Collection[Destination]:
        """Return the destinations of a message; the alternate exchange if there are no others."""
        found = self.table.match(routing_keys, headers)
        if not found and self.alternate is not None and self.stored is None:
            return (Destination(EXCHANGE, self.alternate),)
        return found


def predeclared_exchanges() -> list[Exchange]:
    """Return the exchanges of each new vhost: the default one and those named `amq.`."""
    exchanges = [
        Exchange(name, exchange_type, durable=True)
        for name, exchange_type in (
            (DEFAULT_EXCHANGE, ExchangeType.DIRECT),
            ("amq.direct", ExchangeType.DIRECT),
            ("amq.fanout", ExchangeType.FANOUT),
            ("amq.topic", ExchangeType.TOPIC),
            ("amq.headers", ExchangeType.HEADERS),
            ("amq.match", ExchangeType.HEADERS),
        )
    ]
    trace = Exchange("amq.rabbitmq.trace", ExchangeType.TOPIC, durable=True, internal=True)
    return [*exchanges, trace]


def check_not_default(name: str) -> None:
    """Raise Refused ACCESS_REFUSED for the default exchange, which cannot be changed."""
    if name == DEFAULT_EXCHANGE:
        raise refused("operation not permitted on the default exchange")


def check_name(kind: str, name: str) -> None:
    """Raise Refused ACCESS_REFUSED for a name with the reserved prefix `amq.`."""
    if name.startswith(RESERVED_PREFIX):
        raise refused(f"{kind} name '{name}' contains reserved prefix 'amq.*'")
