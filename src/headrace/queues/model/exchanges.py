"""Exchanges, their bindings, and the interface to exchange types, which route messages.

The types are in `exchange_types`; `exchange_types.registry` has them by name.
"""

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import NamedTuple, Protocol

from headrace.queue_stores.queue_settings import QueueType
from headrace.queues.field_values import table_identity
from headrace.queues.model.exchange_topic import stored_in
from headrace.queues.refusals import refused

DEFAULT_EXCHANGE = ""
RESERVED_PREFIX = "amq."
ALTERNATE_EXCHANGE = "alternate-exchange"

Headers = Mapping[str, object]
ExchangeArguments = Mapping[str, object]


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


Uniform = Callable[[float, float], float]
"""Returns a random float between two bounds."""


def lowest(low: float, _: float) -> float:
    """Return the lower bound, where nothing is random."""
    return low


class RoutingContext:
    """The parts of a broker that routes of some exchange types depend on."""

    __slots__ = ("is_led_here", "uniform")

    def __init__(self) -> None:
        """Create for a vhost on its own: all its queues are led here, and nothing is random."""
        self.uniform: Uniform = lowest
        self.is_led_here: Callable[[str], bool] = lambda _: True
        """Tells whether this broker leads a queue."""


class CannotRoute(Exception):
    """An exchange's type is not known: its messages are nacked."""


class BindingTable(Protocol):
    """The bindings of one exchange, indexed for its exchange type."""

    by_key: bool
    """Whether routes depend on the routing key."""
    cached: bool
    """Whether routes depend on bindings and routing keys alone, so that they can be cached."""

    def add(self, binding: Binding) -> None:
        """Add a new binding to the index."""

    def remove(self, binding: Binding) -> None:
        """Remove an existing binding from the index."""

    def match(
        self,
        routing_keys: Sequence[str],
        headers: bytes | None,
        content_header: bytes,
        context: RoutingContext,
    ) -> Collection[Destination]:
        """Return the destinations of a message. Raises CannotRoute, or Refused: it is invalid.

        `routing_keys` are its routing key, then the keys of the headers CC and BCC. `headers` are
        the entries of its headers table, not decoded. `content_header` has all its properties.
        Separate arguments, as an object for each message takes a tenth of the time of a route.
        """


class ExchangeType(NamedTuple):
    """A type of exchanges."""

    name: str
    description: str
    """The type in a few words, for lists."""
    table: Callable[[ExchangeArguments], BindingTable]
    """Creates the table of a new exchange by its arguments, which may be unchecked: stored ones."""
    check_arguments: Callable[[ExchangeArguments], None] = lambda _: None
    """Raises Refused for invalid arguments of a new exchange."""
    check_binding: Callable[[ExchangeArguments, Binding, QueueType | None], None] = lambda *_: None
    """Raises Refused for an invalid binding of an exchange with these arguments, to a queue of a
    type or, None, to an exchange."""
    feature: str | None = None
    """The feature of brokers that have the type; None: all brokers have it."""


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
        arguments: ExchangeArguments | None = None,
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
        self.table = exchange_type.table(self.arguments)
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


def check_not_default(name: str) -> None:
    """Raise Refused ACCESS_REFUSED for the default exchange, which cannot be changed."""
    if name == DEFAULT_EXCHANGE:
        raise refused("operation not permitted on the default exchange")


def check_name(kind: str, name: str) -> None:
    """Raise Refused ACCESS_REFUSED for a name with the reserved prefix `amq.`."""
    if name.startswith(RESERVED_PREFIX):
        raise refused(f"{kind} name '{name}' contains reserved prefix 'amq.*'")
