"""Dead letters as messages: set and remove the headers that describe the deaths.

The broker must know whether an `x-death` is its own or a client's for as long as the message is
stored. The content header has a field of two bytes, the weight, which AMQP requires to be 0: in a
message that the broker dead-lettered, its second byte is 1, and 0 again in what is delivered.
"""

from typing import NamedTuple

from headrace.queue_stores.queue_settings import QueueSettings
from headrace.queues.engine.dead_letters import (
    DeathReason,
    DyingMessage,
    NumberKinds,
    death_headers,
    routing_keys_after,
)
from headrace.queues.field_values import text
from headrace.queues.model.published_properties import routing_keys_of
from headrace.queues.refusals import Refused
from headrace.wire.amqp.content import Message
from headrace.wire.amqp.field_table import Long, Timestamp
from headrace.wire.amqp.properties import (
    header_value,
    property_of,
    with_header,
    without_property,
)

WEIGHT_AT = 3
_DIED = 1
_KINDS = NumberKinds(Long, Timestamp)


class Dead(NamedTuple):
    """A dead letter to be published."""

    message: Message
    further_keys: tuple[str, ...]
    deaths: object
    """`x-death` with the present death."""


def dead_message(
    message: Message, queue: str, settings: QueueSettings, reason: DeathReason, wall_seconds: int
) -> Dead:
    """Return the dead letter that is published in place of `message`."""
    header = message.header
    exchange = settings.dead_letter_exchange or ""
    keys = [message.routing_key, *_further_keys(header)]
    expiration = property_of(header, "expiration")
    has_died = header[WEIGHT_AT] == _DIED
    known = {"x-death": header_value(header, "x-death")} if has_died else {}
    dying = DyingMessage(
        message.exchange,
        keys,
        None if expiration is None else text(expiration),
        known,
        has_died,
    )
    put = death_headers(dying, queue, reason, wall_seconds=wall_seconds, kinds=_KINDS)
    header = without_property(header, "expiration")
    for name, value in put.items():
        header = with_header(header, name, value)  # type: ignore[arg-type]
    keys = routing_keys_after(settings.dead_letter_routing_key, keys)
    header = _weighted(header, _DIED)
    return Dead(Message(exchange, keys[0], header, message.body), tuple(keys[1:]), put["x-death"])


def _further_keys(header: bytes) -> list[str]:
    """Return the keys of the CC header; none if it is unreadable or no list."""
    try:
        return routing_keys_of(header, "CC")
    except Refused:
        return []


def as_delivered(message: Message, times_returned: int) -> Message:
    """Return a message as delivered: the weight reset to 0, `x-delivery-count` set.

    Needed only for dead-lettered or requeued messages; others are delivered unchanged.
    """
    header = message.header
    if header[WEIGHT_AT]:
        header = _weighted(header, 0)
    if times_returned:
        header = with_header(header, "x-delivery-count", Long(times_returned))
    return Message(message.exchange, message.routing_key, header, message.body)


def _weighted(header: bytes, weight: int) -> bytes:
    return b"".join((header[:WEIGHT_AT], weight.to_bytes(), header[WEIGHT_AT + 1 :]))
