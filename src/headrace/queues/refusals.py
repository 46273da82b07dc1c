"""What clients are told when the model refuses something: RabbitMQ 4.0's codes and texts."""

from collections.abc import Mapping

from headrace.queues.field_values import comparable, kind_of, text
from headrace.wire.amqp.reply_codes import ChannelClosing, ReplyCode

QUEUE = "queue"
EXCHANGE = "exchange"
KAFKA_TOPIC = "Kafka topic"
"""A topic that is no queue's; it is of no vhost."""


def resource_text(kind: str, name: str, vhost: str) -> str:
    """Return how texts name a queue or an exchange: `queue 'q' in vhost '/'`."""
    if kind == KAFKA_TOPIC:
        return f"{kind} '{name}'"
    return f"{kind} '{name}' in vhost '{vhost}'"


def not_found(resource: str) -> ChannelClosing:
    """Return the error for a queue or an exchange that is not there."""
    return ChannelClosing(ReplyCode.NOT_FOUND, f"no {resource}")


def refused(explanation: str) -> ChannelClosing:
    """Return the error ACCESS_REFUSED."""
    return ChannelClosing(ReplyCode.ACCESS_REFUSED, explanation)


def precondition_failed(explanation: str) -> ChannelClosing:
    """Return the error PRECONDITION_FAILED."""
    return ChannelClosing(ReplyCode.PRECONDITION_FAILED, explanation)


def locked(resource: str) -> ChannelClosing:
    """Return the error for an exclusive queue of another connection."""
    return ChannelClosing(
        ReplyCode.RESOURCE_LOCKED,
        f"cannot obtain exclusive access to locked {resource}. It could be originally declared on"
        " another connection or the exclusive property value does not match that of the original"
        " declaration.",
    )


def check_same(what: str, resource: str, received: object, current: object) -> None:
    """Raise PRECONDITION_FAILED where a property is declared unlike it is."""
    if comparable(received) != comparable(current):
        raise _inequivalent(what, resource, f"'{text(received)}'", f"'{text(current)}'")


def check_same_argument(
    name: str, resource: str, received: Mapping[str, object], current: Mapping[str, object]
) -> None:
    """Raise PRECONDITION_FAILED where an argument is declared unlike it is.

    Kinds do not count, numbers and strings do (`comparable`).
    """
    if name in received and name in current:
        check_same(name, resource, received[name], current[name])
    elif name in received or name in current:
        raise _inequivalent(name, resource, _with_kind(received, name), _with_kind(current, name))


def _with_kind(arguments: Mapping[str, object], name: str) -> str:
    if name not in arguments:
        return "none"
    value = arguments[name]
    return f"the value '{text(value)}' of type '{kind_of(value)}'"


def _inequivalent(what: str, resource: str, received: str, current: str) -> ChannelClosing:
    return precondition_failed(
        f"inequivalent arg '{what}' for {resource}: received {received} but current is {current}"
    )
