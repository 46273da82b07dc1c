"""Properties of a publish that queues and routing use, decoded from its content header.

Invalid ones are refused with RabbitMQ's texts.
"""

import re
from functools import lru_cache
from typing import NamedTuple

from headrace.model.errors import Malformed
from headrace.queue_stores.queue_settings import Published
from headrace.queues.field_values import kind_of
from headrace.queues.model.argument_checks import MS_MAX
from headrace.queues.model.exchanges import Headers
from headrace.queues.refusals import malformed_message, precondition_failed
from headrace.wire.amqp.content import Message
from headrace.wire.amqp.field_table import decode_table
from headrace.wire.amqp.properties import header_value, read_essentials, without_header

KEPT_BYTES_MAX = 256
"""Bytes of properties up to which decoded ones are cached for messages with equal ones."""
KEPT_MAX = 1024
_PROPERTIES_FROM = 12
_HEAD = bytes(_PROPERTIES_FROM)
_INTEGER = re.compile(r"[+-]?[0-9]+")


class Traits(NamedTuple):
    """The properties of a published message that the broker uses."""

    priority: int
    expiration_ms: int | None
    persistent: bool
    reply_to: bytes | None
    user_id: str | None
    headers: bytes | None
    """The entries of the headers table, not decoded; None: no headers."""
    plain: bool
    """Whether priority, expiration and persistence are the only properties to regard."""


def traits_of(header: bytes) -> Traits:
    """Decode a content header; raise Refused if it is malformed or its expiration is invalid."""
    properties = header[_PROPERTIES_FROM:]
    if len(properties) <= KEPT_BYTES_MAX:
        return _kept_traits(properties)
    return _traits(properties)


def published(message: Message, traits: Traits) -> Published:
    """Return a message with the properties that queues need: priority, expiration, persistence."""
    return Published(message, traits.priority, traits.expiration_ms, traits.persistent)


def decoded_headers(headers: bytes | None) -> Headers:
    """Decode the entries of a headers table; raise Refused if they are malformed."""
    try:
        return decode_table(headers) if headers else {}
    except Malformed as malformed:
        raise malformed_message(malformed) from None


def further_keys(message: Message, headers: bytes) -> tuple[Message, tuple[str, ...]]:
    """Return the message without BCC, and the keys of CC and BCC; Refused if no list."""
    if b"CC" not in headers:
        return message, ()
    keys: list[str] = []
    header = message.header
    for name in ("CC", "BCC"):
        keys += routing_keys_of(header, name)
    without = without_header(header, "BCC")
    if without is not header:
        message = Message(message.exchange, message.routing_key, without, message.body)
    return message, tuple(keys)


def routing_keys_of(header: bytes, name: str) -> list[str]:
    """Return the routing keys of header CC or BCC; raise Refused if it is no list."""
    try:
        value = header_value(header, name)
    except Malformed as malformed:
        raise malformed_message(malformed) from None
    if value is None:
        return []
    if not isinstance(value, list):
        raise precondition_failed(
            f'invalid message: {{unacceptable_type_in_header,"{name}",{kind_of(value)}}}'
        )
    return [key for key in value if isinstance(key, str)]


def _traits(properties: bytes) -> Traits:
    try:
        found = read_essentials(_HEAD + properties)
    except Malformed as malformed:
        raise malformed_message(malformed) from None
    user_id = None if found.user_id is None else _text(found.user_id)
    return Traits(
        found.priority or 0,
        None if found.expiration is None else _expiration_ms(_text(found.expiration)),
        found.persistent,
        found.reply_to,
        user_id,
        found.headers,
        found.headers is None and user_id is None and found.reply_to is None,
    )


_kept_traits = lru_cache(maxsize=KEPT_MAX)(_traits)


def _expiration_ms(expiration: str) -> int:
    """Parse the property `expiration`; raise Refused with RabbitMQ's text if it is invalid."""
    integer = _INTEGER.match(expiration)
    if integer is None:
        reason = "no_integer"
    elif integer.end() < len(expiration):
        reason = f'{{leftover_string,"{expiration[integer.end() :]}"}}'
    else:
        expiration_ms = int(integer[0])
        if 0 <= expiration_ms <= MS_MAX:
            return expiration_ms
        problem = "value_negative" if expiration_ms < 0 else "value_too_large"
        reason = f"{{{problem},{expiration_ms}}}"
    raise precondition_failed(f"invalid expiration '{expiration}': {reason}")


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")
