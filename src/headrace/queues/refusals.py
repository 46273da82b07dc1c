"""Errors of the queue model: the rule that an operation broke, and the kind of resource.

Each frontend maps a `RefusalKind` to its protocol's codes (`frontends/amqp/replies.py`). The texts
are RabbitMQ 4.0's, because users search for them.
"""

from collections.abc import Mapping
from enum import Enum

from headrace.model.errors import HeadraceError
from headrace.queues.field_values import comparable, kind_of, text

QUEUE = "queue"
EXCHANGE = "exchange"
BINDING = "binding"
POLICY = "policy"
MESSAGE = "message"
KAFKA_TOPIC = "Kafka topic"
"""Kind of a Kafka topic that is no queue's; it belongs to no vhost."""


class RefusalKind(Enum):
    """The reasons for which the queue model refuses an operation."""

    ACCESS_REFUSED = "access refused"
    NOT_FOUND = "not found"
    LOCKED = "locked"
    """The queue is exclusive to another connection."""
    IN_EXCLUSIVE_USE = "in exclusive use"
    """Another consumer has exclusive use of the queue, or this one wants it with others present."""
    PRECONDITION_FAILED = "precondition failed"
    INEQUIVALENT = "inequivalent"
    """A queue or an exchange is declared with other properties than it has."""
    LIMIT_REACHED = "limit reached"
    CONDITION_UNSUPPORTED = "condition unsupported"
    """The type of the queue does not support a condition of deletion."""
    UNSUPPORTED = "unsupported"
    """The type of the queue does not support the operation."""
    MALFORMED = "malformed"
    """A message's properties cannot be decoded."""
    BROKEN = "broken"
    """The queue was closed because its state contradicts itself."""


class Refused(HeadraceError):
    """An operation on a queue, an exchange, a binding or a message is refused."""

    def __init__(self, kind: RefusalKind, resource: str, explanation: str) -> None:
        """`resource` is its kind, as `queue`; empty if the explanation names it."""
        super().__init__(explanation)
        self.kind = kind
        self.resource = resource


def resource_text(kind: str, name: str, vhost: str) -> str:
    """Return the name of a queue or an exchange in texts: `queue 'q' in vhost '/'`."""
    if kind == KAFKA_TOPIC:
        return f"{kind} '{name}'"
    return f"{kind} '{name}' in vhost '{vhost}'"


def not_found(resource: str, named: str) -> Refused:
    """Return the error for a missing resource, named as `resource_text` does."""
    return Refused(RefusalKind.NOT_FOUND, resource, f"no {named}")


def refused(explanation: str, resource: str = "") -> Refused:
    """Return the error for an operation that the user, or any user, is not permitted."""
    return Refused(RefusalKind.ACCESS_REFUSED, resource, explanation)


def precondition_failed(explanation: str, resource: str = "") -> Refused:
    """Return the error for invalid arguments, or a state that forbids the operation."""
    return Refused(RefusalKind.PRECONDITION_FAILED, resource, explanation)


def unsupported(explanation: str) -> Refused:
    """Return the error for an operation that the type of the queue does not support."""
    return Refused(RefusalKind.UNSUPPORTED, QUEUE, explanation)


def malformed_message(problem: Exception) -> Refused:
    """Return the error for a message whose properties cannot be decoded."""
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
    """Raise Refused INEQUIVALENT if a property differs from the existing one."""
    if comparable(received) != comparable(current):
        raise _inequivalent(what, named, f"'{text(received)}'", f"'{text(current)}'")


def check_same_argument(
    name: str, named: str, received: Mapping[str, object], current: Mapping[str, object]
) -> None:
    """Raise Refused INEQUIVALENT if an argument differs from the existing one.

    Compared by `comparable`: types have no influence, numbers and strings do.
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
