"""Hand-written AMQP codecs of the hot path: publishes, deliveries, acknowledgements.

A decoder takes a run: consecutive frames of the same kind on one channel, complete and in their
plain form. It stops at any other bytes and returns where; those are decoded by `frames` and
`methods`, which also find errors in them.
"""

import struct
from typing import NamedTuple

from headrace.wire.amqp.content import Message
from headrace.wire.amqp.frames import (
    FRAME_BODY,
    FRAME_END,
    FRAME_HEADER,
    FRAME_HEADER_BYTES,
    FRAME_METHOD,
)
from headrace.wire.amqp.frames import FRAME_OVERHEAD_BYTES as OVERHEAD
from headrace.wire.amqp.properties import BASIC_CLASS

_PUBLISH, _RETURN, _DELIVER, _GET_OK = 40, 50, 60, 71
_ACK, _REJECT, _NACK = 80, 90, 120
MANDATORY = 1
IMMEDIATE = 2
_FLAGS = MANDATORY | IMMEDIATE

# Layout: frame type, channel, size; class, method, ticket, length of the exchange's name.
_PUBLISH_HEAD = struct.Struct(">BHIHHHB")
# Layout: frame type, channel, size; class, weight, body size.
_CONTENT_HEAD = struct.Struct(">BHIHHQ")
_FRAME_HEAD = struct.Struct(">BHI")
_SETTLE = struct.Struct(">BHIHHQBB")
_METHOD_HEAD = struct.Struct(">BHIHH")
_TAG = struct.Struct(">QB")
_COUNT = struct.Struct(">I")
_CODE = struct.Struct(">H")
_BETWEEN = struct.Struct(">BBHI")
"""The end marker of a frame, followed by the header of the next."""
_unpack_publish = _PUBLISH_HEAD.unpack_from
_unpack_content = _CONTENT_HEAD.unpack_from
_unpack_frame = _FRAME_HEAD.unpack_from
_unpack_settle = _SETTLE.unpack_from
_pack_between = _BETWEEN.pack
_pack_tag = _TAG.pack
_pack_settle = _SETTLE.pack
_END = b"\xce"
_SETTLE_BYTES = _SETTLE.size
_SETTLE_PAYLOAD = _SETTLE_BYTES - OVERHEAD
_CONTENT_PAYLOAD_MIN = 14


class PublishRun(NamedTuple):
    """Publishes on one channel with equal `flags` (MANDATORY, IMMEDIATE).

    Consecutive messages with the same exchange and routing key share the string objects, so `is`
    compares them.
    """

    channel: int
    flags: int
    messages: list[Message]


class Settlement(NamedTuple):
    """An ack (`requeue` None), nack or reject. `delivery_tag` 0 with `multiple`: all deliveries."""

    method_id: int
    delivery_tag: int
    multiple: bool
    requeue: bool | None


def decode_publishes(
    data: bytes, at: int, end: int, frame_bytes_max: int
) -> tuple[int, PublishRun | None]:
    """Decode consecutive publishes from `at` on; return where the run ends, and the run.

    Each is three frames (two without a body) on one channel, within the negotiated size. A body of
    several frames ends the run: content assembly handles it.
    """
    messages: list[Message] = []
    payload_max = frame_bytes_max - OVERHEAD
    channel = run_flags = -1
    method: bytes | None = None
    exchange = routing_key = ""
    try:
        while True:
            if method is not None and data.startswith(method, at):
                # Compare the whole method frame: a publisher rarely changes exchange or routing
                # key.
                content_at = at + len(method)
            else:
                head = _publish_head(data, at, end, payload_max)
                if head is None or (messages and head[:2] != (channel, run_flags)):
                    break
                channel, run_flags, exchange, routing_key, content_at = head
                method = data[at:content_at]
            kind, this, size, class_id, weight, body_size = _unpack_content(data, content_at)
            header_end = content_at + 7 + size
            if (
                kind != FRAME_HEADER
                or this != channel
                or class_id != BASIC_CLASS
                or weight
                or not _CONTENT_PAYLOAD_MIN <= size <= payload_max
                or data[header_end] != FRAME_END
            ):
                break
            after, body = header_end + 1, b""
            if body_size:
                kind, this, body_bytes = _unpack_frame(data, after)
                body_at = after + FRAME_HEADER_BYTES
                after = body_at + body_bytes + 1
                if (
                    kind != FRAME_BODY
                    or this != channel
                    or body_bytes != body_size
                    or body_bytes > payload_max
                    or data[after - 1] != FRAME_END
                ):
                    break
                body = data[body_at : after - 1]
            if after > end:
                break
            header = data[content_at + FRAME_HEADER_BYTES : header_end]
            messages.append(Message(exchange, routing_key, header, body))
            at = after
    except (struct.error, IndexError):
        pass  # The last publish is incomplete.
    return at, PublishRun(channel, run_flags, messages) if messages else None


def _publish_head(
    data: bytes, at: int, end: int, payload_max: int
) -> tuple[int, int, str, str, int] | None:
    """Decode a Basic.Publish frame: channel, flags, exchange, routing key, end of the frame.

    None if it is another frame, or invalid.
    """
    kind, channel, size, class_id, method_id, _, length = _unpack_publish(data, at)
    if kind != FRAME_METHOD or class_id != BASIC_CLASS or method_id != _PUBLISH:
        return None
    after = at + size + OVERHEAD
    name_end = at + _PUBLISH_HEAD.size + length
    flags_at = after - 2
    # The inner lengths must fill the frame exactly, and the end marker must be in place.
    if (
        size > payload_max
        or after > end
        or name_end + 1 + data[name_end] != flags_at
        or data[flags_at + 1] != FRAME_END
    ):
        return None
    exchange = data[at + _PUBLISH_HEAD.size : name_end].decode("utf-8", "surrogateescape")
    routing_key = data[name_end + 1 : flags_at].decode("utf-8", "surrogateescape")
    return channel, data[flags_at] & _FLAGS, exchange, routing_key, after


def decode_settlements(data: bytes, at: int, end: int) -> tuple[int, int, list[Settlement]]:
    """Decode consecutive acks, nacks and rejects on one channel, from `at` on.

    Returns where the run ends, its channel, and the settlements.
    """
    channel = -1
    settled: list[Settlement] = []
    append = settled.append
    new = tuple.__new__
    while end - at >= _SETTLE_BYTES:
        kind, this, size, class_id, method_id, tag, bits, last = _unpack_settle(data, at)
        if (
            kind != FRAME_METHOD
            or class_id != BASIC_CLASS
            or size != _SETTLE_PAYLOAD
            or last != FRAME_END
            or (settled and this != channel)
        ):
            break
        if method_id == _ACK:
            append(new(Settlement, (_ACK, tag, bits & 1 == 1, None)))
        elif method_id == _NACK:
            append(new(Settlement, (_NACK, tag, bits & 1 == 1, bits & 2 == 2)))
        elif method_id == _REJECT:
            append(new(Settlement, (_REJECT, tag, False, bits & 1 == 1)))
        else:
            break
        channel = this
        at += _SETTLE_BYTES
    return at, channel, settled


class DeliverEncoder:
    """Encodes deliveries to one consumer; the bytes that they share are cached."""

    __slots__ = ("_channel", "_exchange", "_head", "_key", "_payload_max", "_tag", "_tail")

    def __init__(self, channel: int, consumer_tag: str, frame_bytes_max: int) -> None:
        self._channel = channel
        self._tag = _short_string(consumer_tag)
        self._payload_max = frame_bytes_max - OVERHEAD
        self._exchange = self._key = ""
        self._head = self._tail = b""
        self._address("", "")

    def encode(self, delivery_tag: int, redelivered: bool, message: Message) -> bytes:
        """Encode the frames of one delivery."""
        if message.routing_key != self._key or message.exchange != self._exchange:
            self._address(message.exchange, message.routing_key)
        header, body = message.header, message.body
        channel = self._channel
        size = len(body)
        if 0 < size <= self._payload_max:
            return b"".join(
                (
                    self._head,
                    _pack_tag(delivery_tag, redelivered),
                    self._tail,
                    _pack_between(FRAME_END, FRAME_HEADER, channel, len(header)),
                    header,
                    _pack_between(FRAME_END, FRAME_BODY, channel, size),
                    body,
                    _END,
                )
            )
        method = b"".join((self._head, _pack_tag(delivery_tag, redelivered), self._tail))
        return _with_content(method, channel, message, self._payload_max)

    def _address(self, exchange: str, routing_key: str) -> None:
        """Cache the bytes before and after the delivery tag, for this exchange and routing key."""
        self._exchange, self._key = exchange, routing_key
        self._tail = _short_string(exchange) + _short_string(routing_key)
        size = 4 + len(self._tag) + _TAG.size + len(self._tail)
        head = _METHOD_HEAD.pack(FRAME_METHOD, self._channel, size, BASIC_CLASS, _DELIVER)
        self._head = head + self._tag


def encode_ack(channel: int, delivery_tag: int, multiple: bool) -> bytes:
    """Encode a Basic.Ack frame that confirms publishes."""
    return _pack_settle(
        FRAME_METHOD, channel, _SETTLE_PAYLOAD, BASIC_CLASS, _ACK, delivery_tag, multiple, FRAME_END
    )


def encode_nack(channel: int, delivery_tag: int, multiple: bool) -> bytes:
    """Encode a Basic.Nack frame that refuses publishes; its requeue bit is meaningless here."""
    return _pack_settle(
        FRAME_METHOD,
        channel,
        _SETTLE_PAYLOAD,
        BASIC_CLASS,
        _NACK,
        delivery_tag,
        multiple,
        FRAME_END,
    )


def encode_get_ok(
    channel: int,
    delivery_tag: int,
    redelivered: bool,
    message: Message,
    message_count: int,
    frame_bytes_max: int,
) -> bytes:
    """Encode the frames of a Basic.GetOk; `message_count`: messages left in the queue."""
    exchange, key = _short_string(message.exchange), _short_string(message.routing_key)
    size = 4 + _TAG.size + len(exchange) + len(key) + _COUNT.size
    method = b"".join(
        (
            _METHOD_HEAD.pack(FRAME_METHOD, channel, size, BASIC_CLASS, _GET_OK),
            _pack_tag(delivery_tag, redelivered),
            exchange,
            key,
            _COUNT.pack(message_count),
        )
    )
    return _with_content(method, channel, message, frame_bytes_max - OVERHEAD)


def encode_return(
    channel: int, reply_code: int, reply_text: str, message: Message, frame_bytes_max: int
) -> bytes:
    """Encode the frames of a Basic.Return with its message."""
    rest = b"".join(map(_short_string, (reply_text, message.exchange, message.routing_key)))
    size = 4 + _CODE.size + len(rest)
    head = _METHOD_HEAD.pack(FRAME_METHOD, channel, size, BASIC_CLASS, _RETURN)
    method = head + _CODE.pack(reply_code) + rest
    return _with_content(method, channel, message, frame_bytes_max - OVERHEAD)


def _short_string(text: str) -> bytes:
    raw = text.encode("utf-8", "surrogateescape")
    return len(raw).to_bytes() + raw


def _with_content(method: bytes, channel: int, message: Message, payload_max: int) -> bytes:
    """Return a method frame, given without end marker, followed by the frames of a message."""
    header, body = message.header, message.body
    parts = [method, _pack_between(FRAME_END, FRAME_HEADER, channel, len(header)), header]
    for at in range(0, len(body), payload_max):
        piece = body[at : at + payload_max]
        parts.append(_pack_between(FRAME_END, FRAME_BODY, channel, len(piece)))
        parts.append(piece)
    parts.append(_END)
    return b"".join(parts)
