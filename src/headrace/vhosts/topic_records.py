"""Messages as records of a Kafka topic that exchanges store in.

As records of a queue's topic (`record_messages`), with the message's own headers in front as record
headers, for consumers that do not know AMQP. A routing key that is not the record's key is a
header, too.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from headrace.queue_stores.record_messages import RECORD_BYTES
from headrace.record.record import Header, encoded_headers, sized
from headrace.record.record_parts import Parts
from headrace.wire.amqp.content import Message
from headrace.wire.amqp.field_table import decode_table
from headrace.wire.amqp.header_texts import clean, value_bytes
from headrace.wire.amqp.properties import header_value, headers_of
from headrace.wire.amqp.record_headers import EXCHANGE, HEADER, ROUTING_KEY

_OURS = frozenset((HEADER, EXCHANGE, ROUTING_KEY))
KEPT_BYTES_MAX = 256
"""Bytes of headers up to which decoded ones are cached for messages with equal ones."""
KEPT_MAX = 1024


class TopicRecord(NamedTuple):
    """A message as a record that has no partition yet."""

    key: bytes | None
    parts: Parts

    @property
    def size(self) -> int:
        """An upper bound of the record's bytes."""
        return sum(map(len, self.parts)) + RECORD_BYTES


class TopicRecords:
    """Encoder of messages as records; values that neighbours share are encoded once."""

    __slots__ = ("_headers", "_key", "_shared", "_sized_key")

    def __init__(self) -> None:
        self._shared: tuple[bytes, str, str | None] | None = None
        self._headers = b""
        self._key: bytes | None = None
        self._sized_key = sized(None)

    def record(self, message: Message, key_header: str | None) -> TopicRecord:
        """Return a message as a record; raise Malformed if its headers cannot be decoded."""
        key = _key_of(message, key_header)
        if key != self._key:
            self._key, self._sized_key = key, sized(key)
        routing_key = None if key_header is None else message.routing_key
        shared = message.header, message.exchange, routing_key
        if shared != self._shared:
            self._headers = encoded_headers(_headers_of(*shared))
            self._shared = shared
        return TopicRecord(key, (self._sized_key, message.body, self._headers))


def _key_of(message: Message, key_header: str | None) -> bytes | None:
    """Return a record's key: the routing key or a header's value; None: empty or missing."""
    if key_header is None:
        return message.routing_key.encode("utf-8", "surrogateescape") or None
    return value_bytes(header_value(message.header, key_header)) or None


def _headers_of(header: bytes, exchange: str, routing_key: str | None) -> Sequence[Header]:
    entries = headers_of(header)
    if not entries:
        own: tuple[Header, ...] = ()
    elif len(entries) <= KEPT_BYTES_MAX:
        own = _kept_user_headers(entries)
    else:
        own = _user_headers(entries)
    found = (*own, (HEADER, header), (EXCHANGE, exchange.encode("utf-8", "surrogateescape")))
    if routing_key is None:
        return found
    return (*found, (ROUTING_KEY, routing_key.encode("utf-8", "surrogateescape")))


def _user_headers(entries: bytes) -> tuple[Header, ...]:
    return tuple(
        (clean(name), value_bytes(value))
        for name, value in decode_table(entries).items()
        if name not in _OURS
    )


_kept_user_headers = lru_cache(maxsize=KEPT_MAX)(_user_headers)
