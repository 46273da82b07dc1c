"""Errors of the queue model: which rule an operation broke, on which kind of resource.

No protocol's codes stand here: each frontend maps a `RefusalKind` to its own
(`frontends/amqp/replies.py`). The texts are RabbitMQ 4.0's, because people search for them.
"""

from collections.abc import Mapping
from enum import Enum

from headrace.model.errors import HeadraceError
from headrace.queues.field_values import comparable, kind_of, text

QUEUE = "queue"
EXCHANGE = "exchange"
BINDING = "binding"
MESSAGE = "message"
KAFKA_TOPIC = "Kafka topic"
"""A topic that is no queue's; it is of no vhost."""


class RefusalKind(Enum):
    """The rules by which an operation is refused."""

    ACCESS_REFUSED = "access refused"
    NOT_FOUND = "not found"
    LOCKED = "locked"
    """The queue is exclusive to another connection."""
    IN_EXCLUSIVE_USE = "in exclusive use"
    """Another consumer has the queue for itself, or this one would with others there."""
    PRECONDITION_FAILED = "precondition failed"
    INEQUIVALENT = "inequivalent"
    """A queue or an exchange is declared unlike it is."""
    LIMIT_REACHED = "limit reached"
    CONDITION_UNSUPPORTED = "condition unsupported"
    """The type of the queue does not look at a condition of deletion."""
    UNSUPPORTED = "unsupported"
    """The type of the queue does not have the operation."""
    MALFORMED = "malformed"
    """A message's properties cannot be read."""
    BROKEN = "broken"
    """The queue was closed because its state contradicts itself."""


class Refused(HeadraceError):
    """An operation on a queue, an exchange, a binding or a message is refused."""

    def __init__(self, kind: RefusalKind, resource: str, explanation: str) -> None:
        """`resource`: its kind, `queue` and so on; empty where the explanation alone tells."""
        super().__init__(explanation)
        self.kind = kind
        self.resource = resource


def resource_text(kind: str, name: str, vhost: str) -> str:
    """Return how texts name a queue or an exchange: `queue 'q' in vhost '/'`."""
    if kind == KAFKA_TOPIC:
        return f"{kind} '{name}'"
    return f"{kind} '{name}' in vhost '{vhost}'"


def not_found(resource: str, named: str) -> Refused:
    """Return the error for a resource that does not exist; `named`: as `resource_text` names it."""
    return Refused(RefusalKind.NOT_FOUND, resource, f"no {named}")


def refused(explanation: str, resource: str = "") -> Refused:
    """Return the error for what the user may not do, or no user may."""
    return Refused(RefusalKind.ACCESS_REFUSED, resource, explanation)


def precondition_failed(explanation: str, resource: str = "") -> Refused:
    """Return the error for arguments that are invalid, or a state that forbids the operation."""
    return Refused(RefusalKind.PRECONDITION_FAILED, resource, explanation)


def unsupported(explanation: str) -> Refused:
    """Return the error for an operation that the type of the queue does not have."""
    return Refused(RefusalKind.UNSUPPORTED, QUEUE, explanation)


def malformed_message(problem: Exception) -> Refused:
    """Return the error for a message whose properties cannot be read."""
    text = f"the properties of a message cannot be read: {problem}"
    return Refused(RefusalKind.MALFORMED, MESSAGE, text)


def locked(named: str) -> Refused:
    """Return the error for an exclusive queue of another connection."""
    return Refused(
        RefusalKind.LOCKED,
        QUEUE,
        f"cannot obtain exclusive access to locked {named}. It could be originally declared on"
        " another connection or the exclusive property value does not match that of the original"
        " declaration.",
    )


def check_same(what: str, named: str, received: object, current: object) -> None:
    """Raise INEQUIVALENT where a property is declared unlike it is."""
    if comparable(received) != comparable(current):
        raise _inequivalent(what, named, f"'{text(received)}'", f"'{text(current)}'")


def check_same_argument(
    name: str, named: str, received: Mapping[str, object], current: Mapping[str, object]
) -> None:
    """Raise INEQUIVALENT where an argument is declared unlike it is.

    Kinds do not count, numbers and strings do (`comparable`).
    """
    if name in received and name in current:
        check_same(name, named, received[name], current[name])
    elif name in received or name in current:
        raise _inequivalent(name, named, _with_kind(received, name), _with_kind(current, name))


def _with_kind(arguments: Mapping[str, object], name: str) -> str:
    if name not in arguments:
        return "none"
    value = arguments[name]
    return f"the value '{text(value)}' of type '{kind_of(value)}'"


def _inequivalent(what: str, named: str, received: str, current: str) -> Refused:
    return Refused(
        RefusalKind.INEQUIVALENT,
        named.partition(" ")[0],
        f"inequivalent arg '{what}' for {named}: received {received} but current is {current}",
    )
