"""The channels of a connection: each frame goes to its channel's state.

    (none) --channel.open--> open --channel.close, answered--> (none)
                              |
                              +--error: we send channel.close--> closing --close-ok--> (none)

While closing, frames are skipped and must only be well-formed and in order.
"""

import struct
from collections.abc import Callable

from headrace.frontends.amqp.connection import errors
from headrace.frontends.amqp.connection.content_frames import (
    ContentAssembly,
    is_known,
    no_content,
)
from headrace.frontends.amqp.connection.deferred_output import HeldOutput, Release
from headrace.frontends.amqp.connection.ports import Channel, VhostPort
from headrace.frontends.amqp.replies import reply_to
from headrace.model.errors import Malformed
from headrace.model.invariant import invariant
from headrace.queues.refusals import Refused
from headrace.wire.amqp import hot
from headrace.wire.amqp.control_methods import (
    AccessRequest,
    AccessRequestOk,
    ChannelClose,
    ChannelCloseOk,
    ChannelFlow,
    ChannelFlowOk,
    ChannelOpen,
    ChannelOpenOk,
)
from headrace.wire.amqp.field_kinds import IDS
from headrace.wire.amqp.frames import (
    FRAME_HEARTBEAT,
    FRAME_METHOD,
    Frame,
)
from headrace.wire.amqp.methods import (
    Method,
    MethodId,
    UnknownMethod,
    decode_method,
    encode_method,
)
from headrace.wire.amqp.model_methods import (
    BasicAck,
    BasicNack,
    BasicPublish,
    BasicReject,
)
from headrace.wire.amqp.reply_codes import (
    AmqpError,
    ChannelClosing,
    ConnectionClosing,
    ReplyCode,
)

_SETTLEMENTS = frozenset((BasicAck, BasicNack, BasicReject))
_HEAD = struct.Struct(">BHIHH").unpack_from
_BASIC = 60
_PUBLISH_ID = IDS[BasicPublish]
_SETTLEMENT_IDS = frozenset(IDS[method].method_id for method in _SETTLEMENTS)


class ChannelFailed(Exception):
    """An error that closes a channel or the connection, with the ids of the failed method."""

    def __init__(self, error: AmqpError, ids: MethodId) -> None:
        super().__init__(str(error))
        self.error = error
        self.ids = ids


class OpenChannel:
    """A channel of a connection: `ports.Outlet` for the model, and its incomplete content."""

    def __init__(self, number: int, channels: "Channels", message_bytes_max: int) -> None:
        self.number = number
        self.frame_bytes_max = channels.frame_bytes_max
        self.contents = ContentAssembly(message_bytes_max, channels.note_unfinished)
        self.port: Channel | None = None
        """The channel's model; None: not open yet, or closed for an error."""
        self.closing = False
        self._channels = channels
        self._held = HeldOutput(self._send)
        self._asked_for_room = False

    def answer(self, method: Method) -> None:
        """Send a method, behind held output. Implements `ports.Outlet`."""
        self.write(encode_method(self.number, method))

    def write(self, frames: bytes) -> None:
        """Send whole frames, behind held output. Implements `ports.Outlet`."""
        if self._held.parts:
            self._held.write(frames)
        else:
            self._send(frames)

    def hold(self) -> Release:
        """Hold back later output until the returned function is called.

        Implements `ports.Outlet`.
        """
        return self._held.hold()

    def hold_input(self) -> Callable[[], None]:
        """Hold the connection's input. Implements `ports.Outlet`."""
        return self._channels.hold_input()

    def takes_more(self) -> bool:
        """Tell whether the client reads fast enough for deliveries. Implements `ports.Outlet`."""
        if self._held.parts:
            self._asked_for_room = True
            return False
        return self._channels.takes_more()

    def _send(self, frames: bytes) -> None:
        if self.port is None:
            return
        self._channels.send(frames)
        if self._asked_for_room and not self._held.parts:
            self._asked_for_room = False
            self._channels.room()

    def fail(self, error: AmqpError, ids: MethodId) -> None:
        """Close the channel or the connection with an error. Implements `ports.Outlet`."""
        if self.port is not None:
            self._channels.failed(self, error, ids)

    def close(self, done: Callable[[], None] = lambda: None) -> None:
        """Close the channel's model, and drop an incomplete message; `done` as in `ports`."""
        self.contents.drop()
        port, self.port = self.port, None
        if port is not None:
            port.closed(done)


class Channels:
    """All channels of an open AMQP connection."""

    def __init__(
        self,
        virtual_host: VhostPort,
        channel_max: int,
        frame_bytes_max: int,
        message_bytes_max: int,
        send: Callable[[bytes], None],
        connection_failed: Callable[[AmqpError, MethodId], None],
        takes_more: Callable[[], bool],
        hold_input: Callable[[], Callable[[], None]],
    ) -> None:
        """Create an empty table of channels.

        `connection_failed` takes errors that close the connection, if they come later.
        `hold_input` stops the reading of frames until the function that it returns is called.
        """
        self.frame_bytes_max = frame_bytes_max
        self.send = send
        self.takes_more = takes_more
        self.hold_input = hold_input
        self.note_unfinished = virtual_host.note_unfinished
        self._virtual_host = virtual_host
        self._channel_max = channel_max
        self._message_bytes_max = message_bytes_max
        self._connection_failed = connection_failed
        self._channels: dict[int, OpenChannel] = {}

    def __len__(self) -> int:
        return len(self._channels)

    def run(self, data: bytes, at: int, end: int) -> int:
        """Handle a run of publishes or settlements at `at`; return its end, or `at` if none begins.

        Raises ChannelFailed for an error that closes the connection.
        """
        if end - at < 11:
            return at
        kind, number, _, class_id, method_id = _HEAD(data, at)
        if kind != FRAME_METHOD or class_id != _BASIC:
            return at
        channel = self._channels.get(number)
        if channel is None or channel.contents.waits or (port := channel.port) is None:
            return at
        ids = MethodId(class_id, method_id)
        if ids == _PUBLISH_ID:
            at, run = hot.decode_publishes(data, at, end, self._whole_bytes_max)
            if run is not None:
                self._guarded(channel, ids, lambda: port.publish(run))
        elif method_id in _SETTLEMENT_IDS:
            at, _, settled = hot.decode_settlements(data, at, end)
            if settled:
                self._guarded(channel, ids, lambda: port.settle(settled))
        return at

    @property
    def _whole_bytes_max(self) -> int:
        """Largest frame in bytes of a publish in a run; larger ones are read frame by frame."""
        return min(self.frame_bytes_max, self._message_bytes_max)

    def frame(self, frame: Frame) -> None:
        """Handle a frame of a channel other than 0; ChannelFailed closes the connection."""
        if not is_known(frame):
            if frame.kind == FRAME_HEARTBEAT:
                raise ChannelFailed(errors.unexpected_frame(frame), _NONE)
            raise ChannelFailed(errors.unknown_frame(frame), _NONE)
        channel = self._channels.get(frame.channel) or self._new(frame.channel)
        if channel.contents.waits:
            self._guarded(channel, _PUBLISH_ID, lambda: self._content(channel, frame))
            return
        try:
            no_content(frame)
        except ConnectionClosing as error:
            raise ChannelFailed(error, _NONE) from None
        method = read_method(frame)
        self._guarded(channel, IDS[type(method)], lambda: self._method(channel, method))

    def close(self, done: Callable[[], None]) -> None:
        """Close all channels and the connection's use of the vhost; `done` as in `ports`."""
        for channel in list(self._channels.values()):
            channel.close()
        self._channels.clear()
        self._virtual_host.closed(done)

    def room(self) -> None:
        """Have the vhost deliver to the connection's channels again."""
        self._virtual_host.room()

    def failed(self, channel: OpenChannel, error: AmqpError, ids: MethodId) -> None:
        """Close a channel for an error, or pass on an error that closes the connection."""
        if not isinstance(error, ChannelClosing):
            self._connection_failed(error, ids)
            return
        channel.close()
        channel.closing = True
        close = ChannelClose(error.code, errors.reply_text(error), ids.class_id, ids.method_id)
        self.send(encode_method(channel.number, close))

    def _new(self, number: int) -> OpenChannel:
        if self._channel_max and len(self._channels) >= self._channel_max:
            raise ChannelFailed(
                ConnectionClosing(
                    ReplyCode.NOT_ALLOWED,
                    f"number of channels opened ({len(self._channels)}) has reached the negotiated"
                    f" channel_max ({self._channel_max})",
                ),
                _NONE,
            )
        channel = self._channels[number] = OpenChannel(number, self, self._message_bytes_max)
        return channel

    def _guarded(self, channel: OpenChannel, ids: MethodId, act: Callable[[], None]) -> None:
        """Run `act`; on an error close the channel, or raise ChannelFailed for the connection."""
        try:
            act()
        except Refused as refused:
            error = reply_to(refused)
        except AmqpError as refused:
            error = refused
        else:
            return
        if not isinstance(error, ChannelClosing):
            raise ChannelFailed(error, ids) from error
        self.failed(channel, error, ids)

    def _content(self, channel: OpenChannel, frame: Frame) -> None:
        run = channel.contents.frame(frame)
        if run is not None and channel.port is not None:
            channel.port.publish(run)

    def _method(self, channel: OpenChannel, method: Method) -> None:
        if channel.closing:
            self._while_closing(channel, method)
            return
        match method:
            case ChannelOpen():
                self._open(channel)
                return
            case _ if channel.port is None:
                raise ConnectionClosing(ReplyCode.CHANNEL_ERROR, "expected 'channel.open'")
            case ChannelClose():
                del self._channels[channel.number]
                close_ok = encode_method(channel.number, ChannelCloseOk())
                channel.close(lambda: self.send(close_ok))
            case ChannelFlow(active=True):
                channel.answer(ChannelFlowOk(True))
            case ChannelFlow():
                raise ConnectionClosing(ReplyCode.NOT_IMPLEMENTED, "active=false")
            case AccessRequest():
                channel.answer(AccessRequestOk(1))
            case BasicPublish():
                channel.contents.begin(method)
            case _ if type(method) in self._virtual_host.methods:
                channel.port.method(method)
            case BasicAck() | BasicNack() | BasicReject():
                channel.port.settle(_settlements(method))
            case _:
                raise ConnectionClosing(ReplyCode.COMMAND_INVALID, "unimplemented method")

    def _while_closing(self, channel: OpenChannel, method: Method) -> None:
        match method:
            case ChannelOpen():
                raise ConnectionClosing(ReplyCode.CHANNEL_ERROR, "second 'channel.open' seen")
            case ChannelCloseOk():
                del self._channels[channel.number]
            case ChannelClose():
                # Both sides closed at once: the close-ok for ours is still to come.
                self.send(encode_method(channel.number, ChannelCloseOk()))
            case BasicPublish():
                channel.contents.begin(method)
                channel.contents.drop()

    def _open(self, channel: OpenChannel) -> None:
        if channel.port is not None:
            raise ConnectionClosing(ReplyCode.CHANNEL_ERROR, "second 'channel.open' seen")
        channel.port = self._virtual_host.open_channel(channel)
        channel.answer(ChannelOpenOk())


_NONE = MethodId(0, 0)


def read_method(frame: Frame) -> Method:
    """Decode the method of a frame; raise ChannelFailed if it is unknown or malformed."""
    try:
        return decode_method(frame.payload)
    except UnknownMethod as unknown:
        error = ConnectionClosing(
            ReplyCode.COMMAND_INVALID,
            f"unknown method {{{unknown.ids.class_id},{unknown.ids.method_id}}}",
        )
        raise ChannelFailed(error, unknown.ids) from None
    except Malformed:
        if len(frame.payload) < 4:
            raise ChannelFailed(errors.unknown_frame(frame), _NONE) from None
        ids = MethodId(*struct.unpack_from(">HH", frame.payload))
        raise ChannelFailed(errors.undecodable_method(frame.payload[4:]), ids) from None


def _settlements(method: BasicAck | BasicNack | BasicReject) -> list[hot.Settlement]:
    """Return the settlements of a method that was not encoded in its plain form."""
    frame = encode_method(0, method)
    _, _, settled = hot.decode_settlements(frame, 0, len(frame))
    invariant(len(settled) == 1, "a settlement that was read is a settlement when written")
    return settled
