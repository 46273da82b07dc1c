"""The contract of exchange types that are written as Python classes.

A type is a subclass of `ExchangeKind`. An object of it routes the messages of one exchange:

    class FirstWord(ExchangeKind):
        name = "x-first-word"
        description = "routes by the first word of the routing key"

        def route(self, bindings, message):
            word = message.routing_keys[0].partition(".")[0]
            return {each.destination for each in bindings if each.routing_key == word}

Routes are cached by exchange and routing keys until a binding changes, so they must depend on
arguments, bindings and message alone: not on time, random numbers or earlier messages.

Types of other packages are not loaded yet (ADR 90).
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, NamedTuple

Arguments = Mapping[str, object]
Destination = tuple[str, str]
"""`queue` or `exchange`, and its name."""


class Refused(Exception):
    """A declaration or a binding is invalid: the client gets the text, with code 406."""


class Binding(NamedTuple):
    """A binding from the exchange."""

    destination: Destination
    routing_key: str
    arguments: Arguments


class Reads(NamedTuple):
    """The parts of a message, beside its routing keys, that routes depend on."""

    headers: tuple[str, ...] = ()
    """Names of headers."""
    properties: tuple[str, ...] = ()
    """Names of properties: content_type, content_encoding, delivery_mode, priority, correlation_id,
    reply_to, expiration, message_id, timestamp, type, user_id, app_id, cluster_id."""


class Message(NamedTuple):
    """A message as it is routed."""

    routing_keys: tuple[str, ...]
    """The routing key, then the keys of the headers CC and BCC."""
    headers: Mapping[str, object]
    """The headers that the type reads and the message has."""
    properties: Mapping[str, object]
    """The properties that the type reads and the message has."""


class ExchangeKind(ABC):
    """A type of exchanges, and the exchange that an object of it routes for."""

    name: ClassVar[str]
    """The type's name, as in exchange.declare."""
    description: ClassVar[str]
    """The type in a few words, for lists."""

    def __init__(self, arguments: Arguments) -> None:
        """Create for an exchange with the arguments of its declaration."""
        self.arguments = arguments

    @property
    def reads(self) -> Reads:
        """The parts of a message that routes of this exchange depend on; always the same."""
        return Reads()

    @classmethod  # noqa: B027 - all arguments are valid unless a type checks them
    def check_arguments(cls, arguments: Arguments) -> None:
        """Raise Refused if an exchange cannot be declared with these arguments."""

    @classmethod  # noqa: B027 - likewise
    def check_binding(cls, arguments: Arguments, binding: Binding) -> None:
        """Raise Refused if an exchange with these arguments cannot have the binding."""

    @abstractmethod
    def route(self, bindings: Sequence[Binding], message: Message) -> Iterable[Destination]:
        """Return destinations of `bindings` that get the message.

        `bindings` are in the same order on all brokers, and the same object until one changes.
        """
