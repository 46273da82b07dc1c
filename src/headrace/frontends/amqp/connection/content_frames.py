"""Header and body frames of one channel put together to messages."""

import struct
from collections.abc import Callable

from headrace.wire.amqp.content import Message
from headrace.wire.amqp.frames import FRAME_BODY, FRAME_HEADER, FRAME_METHOD, Frame
from headrace.wire.amqp.hot import IMMEDIATE, MANDATORY, PublishRun
from headrace.wire.amqp.model_methods import BasicPublish
from headrace.wire.amqp.properties import BASIC_CLASS
from headrace.wire.amqp.reply_codes import ChannelClosing, ConnectionClosing, ReplyCode

_HEAD = struct.Struct(">HHQ")
_HEAD_BYTES_MIN = _HEAD.size + 2
_ANNOUNCED_BYTES_MAX = 512 << 20
"""Above this RabbitMQ closes the connection, and not the channel alone."""


class ContentAssembly:
    """What of a publish has come and what is still to come. One for each channel."""

    __slots__ = (
        "_body", "_bytes_left", "_header", "_kept", "_message_bytes_max", "_method", "_note",
        "waits",
    )  # fmt: skip

    def __init__(self, message_bytes_max: int, note: Callable[[int], None]) -> None:
        """`note` is told of each byte of a body kept, and of fewer when it is whole or dropped."""
        self._message_bytes_max = message_bytes_max
        self._note = note
        self.waits = False
        """Whether the next frame must be of a content."""
        self._method: BasicPublish | None = None
        self._header: bytes | None = None
        self._bytes_left = 0
        self._kept = False
        # Not its parts: a body may come in pieces of a byte, each of which would be an object.
        self._body: bytearray | None = None

    def begin(self, method: BasicPublish) -> None:
        """Take the method of which header and body are to come."""
        self._method, self.waits = method, True
        self._kept = True

    def drop(self) -> None:
        """Keep nothing of the body that is coming, which the sender must still finish."""
        self._kept = False
        body, self._body = self._body, None
        if body:
            self._note(-len(body))

    def frame(self, frame: Frame) -> PublishRun | None:
        """Take the next frame; returns the message once it is whole.

        ChannelClosing for a body too large to be kept: the rest of it is passed over.
        ConnectionClosing for a frame that is not what must come.
        """
        if self._header is None:
            return self._head(frame)
        if frame.kind != FRAME_BODY:
            raise _unexpected("expected content body, got non content body frame instead")
        if len(frame.payload) > self._bytes_left:
            raise ConnectionClosing(
                ReplyCode.FRAME_ERROR, "content body frame exceeds remaining content size"
            )
        self._bytes_left -= len(frame.payload)
        if self._body is not None and frame.payload:
            self._body += frame.payload
            self._note(len(frame.payload))
        return None if self._bytes_left else self._whole(frame.channel)

    def _head(self, frame: Frame) -> PublishRun | None:
        class_id, weight, body_bytes = 0, 1, 0
        if frame.kind == FRAME_HEADER:
            class_id, weight, body_bytes = _HEAD.unpack_from(frame.payload)
        if weight:  # only AMQP 0-8 has it
            raise _unexpected(
                f"expected content header for class {BASIC_CLASS},"
                " got non content header frame instead"
            )
        if class_id != BASIC_CLASS:
            raise _unexpected(
                f"expected content header for class {BASIC_CLASS},"
                f" got one for class {class_id} instead"
            )
        if body_bytes > _ANNOUNCED_BYTES_MAX:
            raise ConnectionClosing(
                ReplyCode.FRAME_ERROR,
                f"content body size {body_bytes} exceeds maximum allowed size"
                f" {_ANNOUNCED_BYTES_MAX}",
            )
        self._header, self._bytes_left = frame.payload, body_bytes
        if self._kept:
            self._body = bytearray()
        if self._kept and body_bytes > self._message_bytes_max:
            self.drop()
            raise ChannelClosing(
                ReplyCode.PRECONDITION_FAILED,
                f"message size {body_bytes} is larger than configured max size"
                f" {self._message_bytes_max}",
            )
        return None if body_bytes else self._whole(frame.channel)

    def _whole(self, channel: int) -> PublishRun | None:
        method, header, body = self._method, self._header, self._body
        self.drop()
        self._method = self._header = None
        self.waits = False
        if method is None or header is None or body is None:
            return None
        flags = MANDATORY * method.mandatory | IMMEDIATE * method.immediate
        message = Message(method.exchange, method.routing_key, header, bytes(body))
        return PublishRun(channel, flags, [message])


def is_known(frame: Frame) -> bool:
    """Tell whether a frame is of a kind there is: a header too short to be one is of none."""
    if frame.kind == FRAME_HEADER:
        return len(frame.payload) >= _HEAD_BYTES_MIN
    return frame.kind in (FRAME_METHOD, FRAME_BODY)


def no_content(frame: Frame) -> None:
    """Refuse a frame of a content that no method announced."""
    if frame.kind != FRAME_METHOD:
        raise _unexpected("expected method frame, got non method frame instead")


def _unexpected(text: str) -> ConnectionClosing:
    return ConnectionClosing(ReplyCode.UNEXPECTED_FRAME, text)
