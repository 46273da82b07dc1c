"""Assembly of a channel's header and body frames to messages.

basic.publish -> header frame (class, weight 0, body size) -> body frames up to the size
"""

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
"""Announced body size in bytes above which RabbitMQ closes the connection, not the channel."""


class ContentAssembly:
    """The incomplete publish of a channel: the received parts and the bytes to come."""

    __slots__ = (
        "_body", "_bytes_left", "_header", "_kept", "_message_bytes_max", "_method", "_note",
        "waits",
    )  # fmt: skip

    def __init__(self, message_bytes_max: int, note: Callable[[int], None]) -> None:
        """Create the assembly of a channel.

        `note` takes the bytes of each body frame, and minus their sum at the end.
        """
        self._message_bytes_max = message_bytes_max
        self._note = note
        self.waits = False
        """Whether the next frame must be a header or body frame."""
        self._method: BasicPublish | None = None
        self._header: bytes | None = None
        self._bytes_left = 0
        self._kept = False
        # One buffer, no list of parts: a body may come in frames of one byte.
        self._body: bytearray | None = None

    def begin(self, method: BasicPublish) -> None:
        """Begin the content of a basic.publish; its header and body frames follow."""
        self._method, self.waits = method, True
        self._kept = True

    def drop(self) -> None:
        """Drop the body received so far; the client must still send the rest, which is skipped."""
        self._kept = False
        body, self._body = self._body, None
        if body:
            self._note(-len(body))

    def frame(self, frame: Frame) -> PublishRun | None:
        """Add a header or body frame; return the message once it is complete.

        Raises ChannelClosing for a body over the size limit, whose rest is skipped, and
        ConnectionClosing for a frame of a wrong kind.
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
        if weight:  # only AMQP 0-8 has a weight
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
    """Tell whether a frame has a known kind; a header frame must have its full length."""
    if frame.kind == FRAME_HEADER:
        return len(frame.payload) >= _HEAD_BYTES_MIN
    return frame.kind in (FRAME_METHOD, FRAME_BODY)


def no_content(frame: Frame) -> None:
    """Raise ConnectionClosing for a header or body frame that no basic.publish announced."""
    if frame.kind != FRAME_METHOD:
        raise _unexpected("expected method frame, got non method frame instead")


def _unexpected(text: str) -> ConnectionClosing:
    return ConnectionClosing(ReplyCode.UNEXPECTED_FRAME, text)
