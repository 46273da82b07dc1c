"""A queue's messages as records of its topic, and records as messages.

    record key              routing key
    record value            body
    header amqp.header      content header, unchanged
    header amqp.exchange    name of the exchange

A record of a Kafka producer has neither header: it becomes a persistent message of the default
exchange, with the record's key as routing key if it is short enough, and the record's own headers.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from headrace.delivery.batches import Aborted, stretches
from headrace.model.errors import ApiError, Malformed
from headrace.ports.disk import Buffer
from headrace.queue_stores.like_records import LikeRecords
from headrace.queue_stores.queue_settings import TtlAt
from headrace.record.batch import (
    CODEC_MASK,
    LOG_APPEND_TIME,
    BatchHeader,
    CorruptBatch,
    Record,
    iterate,
    parse_header,
    records,
)
from headrace.record.batch_layout import ATTRIBUTES, HEADER_BYTES, RECORD_COUNT
from headrace.record.record import Header, encoded_headers, read_into, sized
from headrace.record.record_parts import NO_PRODUCER, Parts, ProducerBatch, build_of_parts
from headrace.wire.amqp.content import Message
from headrace.wire.amqp.field_table import SHORT_STRING_BYTES_MAX, FieldTable
from headrace.wire.amqp.properties import (
    FLAGS_AT,
    PERSISTENT,
    Properties,
    body_size_of,
    make_header,
    read_essentials,
)
from headrace.wire.amqp.record_headers import EXCHANGE, HEADER, ROUTING_KEY

ROUTING_KEY_BYTES_MAX = 255
RECORDS_AT_ONCE = 4000
"""Records above which a read is decoded on a thread: this many take some 10 ms."""
HEADERS_BYTES_MAX = 3584
"""Bytes of a Kafka record's headers that become a message's headers; with more it has none.

They must fit into one frame, which is of 4096 bytes for some clients.
"""
RECORD_BYTES = 64
"""Bytes of a record without key, value and the two headers' values, at most."""

KEPT_BYTES_MAX = 256
"""Bytes of properties up to which decoded ones are cached for messages with equal ones."""
KEPT_MAX = 1024

_OURS = frozenset((HEADER, EXCHANGE, ROUTING_KEY))
_ENTRY_BYTES = 6
"""Bytes of a header in a table without its name and value."""
_logger = logging.getLogger(__name__)


class Found(NamedTuple):
    """The messages of a part of a log; the first three lists are equally long."""

    positions: list[int]
    messages: list[Message]
    expiries_ms: list[int | None]
    """The expiry of each message in milliseconds since 1970; None: none."""
    transient: list[int]
    """Positions of messages that are not persistent."""

    def without(self, positions: Collection[int]) -> "Found":
        """Return the messages that are not at the given positions."""
        left = [at for at, position in enumerate(self.positions) if position not in positions]
        return Found(
            [self.positions[at] for at in left],
            [self.messages[at] for at in left],
            [self.expiries_ms[at] for at in left],
            [position for position in self.transient if position not in positions],
        )


def record_bytes(message: Message) -> int:
    """Return an upper bound of the bytes of a message's record."""
    names = len(message.exchange) + len(message.routing_key)
    return len(message.body) + len(message.header) + 4 * names + RECORD_BYTES


def batch_of_messages(
    messages: Sequence[Message], now_ms: int, producer: ProducerBatch = NO_PRODUCER
) -> bytes:
    """Return a batch of messages, with the record timestamp `now_ms`."""
    return build_of_parts(list(_parts(messages)), now_ms, producer=producer)


def _parts(messages: Sequence[Message]) -> Iterator[Parts]:
    """Yield records' parts; neighbours mostly differ only in the body, so others are reused."""
    exchange = routing_key = header = None
    key = headers = b""
    for message in messages:
        if message.routing_key != routing_key:
            routing_key = message.routing_key
            key = sized(routing_key.encode("utf-8", "surrogateescape"))
        if message.header != header or message.exchange != exchange:
            exchange, header = message.exchange, message.header
            source = exchange.encode("utf-8", "surrogateescape")
            headers = encoded_headers(((HEADER, header), (EXCHANGE, source)))
        yield key, message.body, headers


def takes_long(data: Buffer) -> bool:
    """Tell whether batches take too long to decode for the deciding thread.

    They are compressed, or have very many small records.
    """
    count = 0
    for _, header in iterate(data):
        count += header[RECORD_COUNT]
        if header[ATTRIBUTES] & CODEC_MASK or count > RECORDS_AT_ONCE:
            return True
    return False


def messages_in(
    data: Buffer,
    at: int,
    *,
    aborted: Sequence[Aborted] = (),
    ttl_ms_at: TtlAt | None = None,
    arrived_ms: int = 0,
    is_settled: Callable[[int], bool] | None = None,
) -> Found:
    """Return the committed, unsettled messages of whole batches from position `at` on.

    `ttl_ms_at`: the queue's; None: without a TTL. `arrived_ms` is the time for records without a
    timestamp. A batch that cannot be decoded is logged and skipped.
    """
    found = Found([], [], [], [])
    view = memoryview(data)
    for stretch in stretches(data, at, aborted):
        if not stretch.wanted:
            continue
        try:
            runs = _runs(view[stretch.begin : stretch.end])
        except ApiError as error:
            _logger.error(
                "offsets %d to %d are skipped, as their batch cannot be decoded: %s. The producer"
                " must send these records again", stretch.first, stretch.last, error,
            )  # fmt: skip
            continue
        for run in runs:
            _add(found, run.unsettled(at, is_settled), ttl_ms_at, arrived_ms)
    return found


class _Kind(NamedTuple):
    """The properties of a message from which its expiry follows, and its persistence."""

    timestamp: int
    life_ms: int | None
    """Milliseconds after which it expires, by its own property."""
    persistent: bool


_NO_KIND = _Kind(-1, None, True)


class _Run(NamedTuple):
    """Messages of neighbouring records of one kind; the lists are equally long."""

    kind: _Kind
    positions: list[int]
    messages: list[Message]

    def unsettled(self, at: int, is_settled: Callable[[int], bool] | None) -> "_Run":
        """Return the part of the run from position `at` on that is not settled."""
        kind, positions, messages = self
        if is_settled is None and positions[0] >= at:
            return self
        left = [
            number
            for number, position in enumerate(positions)
            if position >= at and (is_settled is None or not is_settled(position))
        ]
        if len(left) == len(positions):
            return self
        return _Run(
            kind, [positions[number] for number in left], [messages[number] for number in left]
        )


def _add(found: Found, run: _Run, ttl_ms_at: TtlAt | None, arrived_ms: int) -> None:
    (timestamp, life_ms, persistent), positions, messages = run
    published_ms = timestamp if timestamp >= 0 else arrived_ms
    ttl_ms = None if ttl_ms_at is None else ttl_ms_at(published_ms)
    if not persistent:
        found.transient.extend(positions)
    if ttl_ms is not None:
        life_ms = ttl_ms if life_ms is None else min(life_ms, ttl_ms)
    if life_ms is not None:
        life_ms += published_ms
    found.positions.extend(positions)
    found.messages.extend(messages)
    found.expiries_ms.extend([life_ms] * len(messages))


def _runs(batch: memoryview) -> list[_Run]:
    """Decode the messages of a batch; raise ApiError if it is malformed."""
    header = parse_header(batch)
    if not header.attributes & (CODEC_MASK | LOG_APPEND_TIME):
        try:
            return _plain_runs(bytes(batch[HEADER_BYTES:]), header)
        except (CorruptBatch, IndexError, UnicodeDecodeError):
            pass  # `records` raises with the reason
    reading = _Reading()
    reading.read(records(batch))
    return reading.runs


def _plain_runs(data: bytes, header: BatchHeader) -> list[_Run]:
    """Decode records that are not compressed: one in full, and those like it by their bodies."""
    reading, like = _Reading(), LikeRecords()
    base, time, count = header.base_offset, header.base_timestamp, header.record_count
    at = number = 0
    some = 1
    while number < count:
        decoded: list[Record] = []
        if some > 1:
            at = read_into(decoded, some - 1, data, at, base, time, None)
        begin = at
        at = read_into(decoded, 1, data, at, base, time, None)
        reading.read(decoded)
        number += some
        more = 0
        of_one_length = data[begin : begin + 2] == data[at : at + 2]
        if of_one_length and like.learn(data, begin, at, decoded[-1], number - 1):
            _, positions, messages = reading.runs[-1]
            before = len(messages)
            at = like.read(data, at, range(number, count), messages)
            more = len(messages) - before
            positions.extend(range(base + number, base + number + more))
            number += more
        # Where records differ, ever more are decoded before one is compared with the next.
        some = 1 if more else min(4 * some, count - number)
    if at != len(data):
        raise CorruptBatch(f"{len(data) - at} bytes after the last record")
    return reading.runs


class _Reading:
    """Decodes records to messages; values that neighbours share are decoded once."""

    __slots__ = (
        "_body_size", "_encoded", "_exchange", "_header", "_headers", "_key", "_life_ms", "_made",
        "_persistent", "_source", "runs",
    )  # fmt: skip

    def __init__(self) -> None:
        self.runs: list[_Run] = []
        """The messages decoded so far."""
        self._encoded: Sequence[Header] = ()
        """The headers of the record before: neighbours with equal ones have the same object."""
        self._headers: Mapping[str, bytes | None] = {}
        self._header: bytes | None = None
        self._made: tuple[int, bytes] = (-1, b"")
        """Size of a body, and the content header made last for a body of that size."""
        self._body_size = 0
        self._life_ms: int | None = None
        self._persistent = True
        self._source: bytes | None = None
        self._exchange = ""
        self._key: tuple[bytes | None, str] = (None, "")

    def read(self, decoded: Iterable[Record]) -> None:
        """Add the messages of records to the runs."""
        kind, positions, messages = self.runs[-1] if self.runs else _Run(_NO_KIND, [], [])
        for record in decoded:
            message = self._message(record)
            at, life_ms, persistent = kind
            if (
                record.timestamp != at
                or self._life_ms != life_ms
                or self._persistent is not persistent
                or not positions
            ):
                kind = _Kind(record.timestamp, self._life_ms, self._persistent)
                positions, messages = [], []
                self.runs.append(_Run(kind, positions, messages))
            positions.append(record.offset)
            messages.append(message)

    def _message(self, record: Record) -> Message:
        body = record.value or b""
        headers = self._headers
        if record.headers is not self._encoded:
            self._encoded = record.headers
            headers = self._headers = dict(record.headers)
        header, source = headers.get(HEADER), headers.get(EXCHANGE)
        if header is None or header != self._header or len(body) != self._body_size:
            header = self._look_into(header, body, headers)
        if source != self._source:
            self._source = source
            self._exchange = (source or b"").decode("utf-8", "surrogateescape")
        found = headers.get(ROUTING_KEY, record.key)
        key, routing_key = self._key
        if found != key:
            key = found or b""
            short = key if len(key) <= ROUTING_KEY_BYTES_MAX else b""
            routing_key = short.decode("utf-8", "surrogateescape")
            self._key = found, routing_key
        return Message(self._exchange, routing_key, header, body)

    def _look_into(
        self, header: bytes | None, body: bytes, headers: Mapping[str, bytes | None]
    ) -> bytes:
        """Return a record's content header, or a made one if it has none that fits its body."""
        self._header, self._body_size = header, len(body)
        if header is not None:
            try:
                if body_size_of(header) == len(body):
                    self._life_ms, self._persistent = _life_of(header[FLAGS_AT:])
                    return header
            except Malformed:
                pass  # a Kafka producer wrote a header of that name
        self._header = None
        self._life_ms, self._persistent = None, True
        table = _own_headers(headers)
        if table:
            return make_header(len(body), Properties(headers=table, delivery_mode=PERSISTENT))
        if self._made[0] != len(body):
            made = make_header(len(body), Properties(delivery_mode=PERSISTENT))
            self._made = len(body), made
        return self._made[1]


def _life_of(properties: bytes) -> tuple[int | None, bool]:
    """Return the lifetime in ms (None: none) and the persistence; raise Malformed.

    `properties`: a content header from its flags on.
    """
    if len(properties) > KEPT_BYTES_MAX:
        return _read_life(properties)
    return _kept_life(properties)


def _read_life(properties: bytes) -> tuple[int | None, bool]:
    essentials = read_essentials(bytes(FLAGS_AT) + properties)
    expiration = essentials.expiration
    lives = expiration is not None and expiration.isdigit()
    return int(expiration or b"") if lives else None, essentials.persistent


_kept_life = lru_cache(maxsize=KEPT_MAX)(_read_life)


def _own_headers(headers: Mapping[str, bytes | None]) -> FieldTable:
    """Return a Kafka record's headers as a table, empty if they are too large."""
    table: FieldTable = {}
    size = 0
    for name, value in headers.items():
        name_bytes = len(name.encode("utf-8", "surrogateescape"))
        if name not in _OURS and 0 < name_bytes <= SHORT_STRING_BYTES_MAX:
            table[name] = None if value is None else value.decode("utf-8", "surrogateescape")
            size += name_bytes + len(value or b"") + _ENTRY_BYTES
    return table if size <= HEADERS_BYTES_MAX else {}
