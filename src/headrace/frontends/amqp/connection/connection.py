"""An AMQP 0-9-1 connection as a state machine: bytes in, bytes out, no I/O and no clock.

`take` reads received bytes at a given time, `tick` checks timeouts, `send` gets bytes to send. Once
`ended` is set, the socket may be closed after the bytes sent. States and errors are RabbitMQ 4.0's:

    HEADER -> STARTING -> SECURING -> TUNING -> OPENING -> RUNNING -> CLOSED
      error before login -> REFUSED: no reply, end after a delay   error later -> CLOSED
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.frontends.amqp.connection import connection_state, errors, negotiation
from headrace.frontends.amqp.connection.channels import ChannelFailed, Channels, read_method
from headrace.frontends.amqp.connection.connection_state import State
from headrace.frontends.amqp.connection.content_frames import is_known
from headrace.frontends.amqp.connection.input_holds import InputHolds
from headrace.frontends.amqp.connection.negotiation import Settings, Tuned
from headrace.frontends.amqp.connection.ports import Broker
from headrace.frontends.amqp.connection.publish_block import PublishHold
from headrace.model.secret import Secret
from headrace.net.answering import ConnectionTraffic
from headrace.security.identity import Principal
from headrace.vhosts.users.logins import Credentials, LoginRefused, Peer
from headrace.wire.amqp.control_methods import (
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStartOk,
    ConnectionTuneOk,
    ConnectionUnblocked,
    ConnectionUpdateSecret,
    ConnectionUpdateSecretOk,
)
from headrace.wire.amqp.field_kinds import IDS
from headrace.wire.amqp.frames import (
    FRAME_HEARTBEAT,
    FRAME_METHOD,
    FRAME_OVERHEAD_BYTES,
    HEARTBEAT,
    PROTOCOL_HEADER,
    Frame,
    FrameTooLarge,
    WrongFrameEnd,
    frame_at,
    frame_bytes,
)
from headrace.wire.amqp.methods import Method, MethodId, encode_method
from headrace.wire.amqp.reply_codes import AmqpError, ConnectionClosing, ReplyCode

if TYPE_CHECKING:
    from headrace.wire.amqp.field_table import FieldTable

_NO_METHOD = MethodId(0, 0)


class AmqpConnection:
    """An AMQP connection, without its socket. Used on the deciding thread only."""

    def __init__(
        self,
        settings: Settings,
        peer: Peer,
        broker: Broker,
        send: Callable[[bytes], None],
        now: float,
        takes_more: Callable[[], bool] = lambda: True,
        woken: Callable[[], float] | None = None,
        traffic: ConnectionTraffic | None = None,
    ) -> None:
        """Create a connection that has not been opened.

        `takes_more` tells whether there is room for deliveries; `room` is called when there is
        again. `woken` returns the time; called on changes of state outside of `take` and `tick`.
        `traffic`: the counters of its socket's bytes.
        """
        self.state = State.HEADER
        self.ended = False
        self.principal: Principal | None = None
        self.client_properties: FieldTable = {}
        self.reason: str | None = None
        """Why the connection was closed or refused, for the log; None: closed by its client."""
        self.refused_s: float | None = None
        """Seconds for which the answer to a failed login is delayed; None: no login failed."""
        self._hold = PublishHold()
        self.input_holds = InputHolds(self._input_released)
        self._settings = settings
        self._peer = peer
        self._broker = broker
        self._send_bytes = send
        self._takes_more = takes_more
        self._woken = woken
        self._traffic = traffic
        self._refusal: ConnectionClosing | None = None
        self._now = self._received_at = self._sent_at = now
        self._deadline: float | None = now + connection_state.HANDSHAKE_S_MAX
        self._tuned = Tuned(settings.channel_max, negotiation.FIRST_FRAMES_BYTES_MAX, 0)
        self._channels: Channels | None = None

    @property
    def frame_bytes_max(self) -> int:
        """Largest frame in bytes that the client may send now."""
        return self._tuned.frame_bytes_max

    @property
    def holds_publishes(self) -> bool:
        """Whether reading is stopped: the client publishes during a memory or disk alarm."""
        return self._hold.on and self.state is State.RUNNING

    @property
    def holds_input(self) -> bool:
        """Whether reading is stopped, by an alarm or by `input_holds`."""
        return self.input_holds.count > 0 or self.holds_publishes

    def take(self, data: bytes, now: float) -> int:
        """Handle the whole frames in `data`; return the number of bytes consumed."""
        self._now = self._received_at = now
        at, end = 0, len(data)
        while not self.ended and not self.input_holds.count:
            if self.state is State.REFUSED or at == end:
                return end
            if self.state is State.HEADER:
                if end - at < len(PROTOCOL_HEADER):
                    break
                self._header(data[at : at + len(PROTOCOL_HEADER)])
                at += len(PROTOCOL_HEADER)
                continue
            try:
                taken = self._next(data, at, end)
            except ChannelFailed as failed:
                self._fail(failed.error, failed.ids)
                return end
            except (FrameTooLarge, WrongFrameEnd) as unreadable:
                self._fail(errors.unreadable_frame(unreadable), _NO_METHOD)
                self._discard()
                return end
            if not taken:
                break
            at += taken
        return end if self.ended else at

    def need(self, data: bytes, at: int) -> int:
        """Return the size in bytes of the frame at `at`, or a lower bound while unknown."""
        if self.state is State.HEADER:
            return len(PROTOCOL_HEADER)
        return frame_bytes(data, at, len(data), self.frame_bytes_max) or FRAME_OVERHEAD_BYTES

    def _next(self, data: bytes, at: int, end: int) -> int:
        """Handle a run or a frame; return its bytes, or 0 if no whole frame has arrived."""
        if self._channels is not None and self.state is State.RUNNING:
            if self._hold.reason is not None and self._hold.begins_at(data, at):
                if (blocked := self._hold.tell(self.client_properties)) is not None:
                    self._answer(blocked)
                return 0
            after = self._channels.run(data, at, end)
            if after > at:
                return after - at
        size = frame_bytes(data, at, end, self.frame_bytes_max)
        if not 0 < size <= end - at:
            return 0
        self._frame(frame_at(data, at))
        return size

    def _header(self, header: bytes) -> None:
        if header not in (PROTOCOL_HEADER, negotiation.HEADER_0_9):
            self.reason = negotiation.wrong_header(header)
            self._send(PROTOCOL_HEADER)
            self.lost()
            return
        self._answer(negotiation.start(self._settings, self._peer))
        self.state = State.STARTING

    def _frame(self, frame: Frame) -> None:
        """Handle one frame; raise ChannelFailed for an error that closes the connection."""
        if self.state is State.CLOSED:
            if frame.channel == 0 and frame.kind == FRAME_METHOD:
                self._while_closed(read_method(frame))
        elif frame.channel == 0:
            self._control(frame)
        elif self._channels is None:
            raise ChannelFailed(errors.unexpected_frame(frame), _NO_METHOD)
        else:
            self._channels.frame(frame)

    def _control(self, frame: Frame) -> None:
        if frame.kind == FRAME_HEARTBEAT and not frame.payload:
            return
        if frame.kind != FRAME_METHOD:
            error = errors.unexpected_frame if is_known(frame) else errors.unknown_frame
            raise ChannelFailed(error(frame), _NO_METHOD)
        method = read_method(frame)
        try:
            self._method(method)
        except ConnectionClosing as closing:
            raise ChannelFailed(closing, IDS[type(method)]) from closing

    def _method(self, method: Method) -> None:
        match self.state, method:
            case State.STARTING, ConnectionStartOk(properties):
                self.client_properties = properties
                self._login(negotiation.credentials_of(self._settings, self._peer, method))
            case State.TUNING, ConnectionTuneOk():
                self._tuned = negotiation.tuned(self._settings, method)
                self.state = State.OPENING
            case State.OPENING, ConnectionOpen(name):
                self._open(name)
            case State.RUNNING, ConnectionClose():
                self._close_channels(lambda: self._answer(ConnectionCloseOk()))
                self._closed()
            case State.RUNNING, ConnectionUpdateSecret(secret) if self.principal is not None:
                self._broker.update_secret(
                    self.principal, Secret(secret.decode("utf-8", "replace"))
                )
                self._answer(ConnectionUpdateSecretOk())
            case _:
                raise ConnectionClosing(
                    ReplyCode.CHANNEL_ERROR,
                    f"unexpected method in connection state {self.state.value}",
                )

    def _while_closed(self, method: Method) -> None:
        match method:
            case ConnectionClose():
                self._answer(ConnectionCloseOk())
            case ConnectionCloseOk():
                self.lost()

    def room(self) -> None:
        """Have queues deliver to the client again, after `takes_more` returned False."""
        if self._channels is not None:
            self._channels.room()

    def _login(self, credentials: Credentials) -> None:
        self.state = State.SECURING

        def done(outcome: Principal | LoginRefused) -> None:
            if self.ended or self.state is not State.SECURING:
                return  # The handshake timed out, or the client closed its socket.
            self._wake()
            if isinstance(outcome, LoginRefused):
                self._refuse_later(credentials.mechanism, outcome)
            else:
                self.principal = outcome
                self.state = State.TUNING
                self._answer(negotiation.tune(self._settings))

        self._broker.authenticate(credentials, self._peer, done)

    def _refuse_later(self, mechanism: str, refused: LoginRefused) -> None:
        self.reason = f"{mechanism} login refused: {refused.reason}"
        self.refused_s = refused.seconds
        self._refusal = errors.login_refused(mechanism)
        self._end_later(refused.seconds)
        if not refused.seconds:
            self._refuse(self._refusal)

    def _refuse(self, refusal: ConnectionClosing) -> None:
        self._refusal = None
        if negotiation.capability(self.client_properties, "authentication_failure_close"):
            self._say_close(refusal, _NO_METHOD)
        self._discard()

    def _open(self, name: str) -> None:
        if self.principal is None:
            raise ConnectionClosing(ReplyCode.NOT_ALLOWED, "nobody has logged in")
        peer, properties = self._peer, self.client_properties
        self._channels = Channels(
            self._broker.open(self.principal, name, peer, properties, self.close, self._traffic),
            self._tuned.channel_max,
            self._tuned.frame_bytes_max,
            self._settings.message_bytes_max,
            self._send,
            self._fail,
            self._takes_more,
            self.input_holds.hold,
        )
        self._answer(ConnectionOpenOk())
        self.state = State.RUNNING
        self._deadline = None

    def _input_released(self) -> None:
        self._wake()
        self._received_at = self._now  # nothing was read: the heartbeat timeout begins now

    # Resource alarms

    def block(self, reason: str) -> None:
        """Block publishes because of an alarm; connection.blocked is sent at the next publish."""
        self._hold.reason = reason

    def unblock(self, now: float) -> None:
        """Accept publishes again; send connection.unblocked if connection.blocked was sent."""
        hold, self._hold = self._hold, PublishHold()
        if hold.on:
            # Nothing was read while blocked: the heartbeat timeout begins now.
            self._now = self._received_at = now
        if hold.told:
            self._answer(ConnectionUnblocked())

    @property
    def deadline(self) -> float | None:
        """Monotonic time at which `tick` must be called next; None: not needed."""
        if self.ended:
            return None
        interval = self._tuned.heartbeat_s
        times = [] if self._deadline is None else [self._deadline]
        if interval and self.state is State.RUNNING:
            times.append(self._sent_at + interval / 2)
            if not self.holds_input:
                times.append(self._received_at + 2 * interval)
        return min(times, default=None)

    def tick(self, now: float, received_at: float = 0.0) -> None:
        """Send a due heartbeat, close on a timeout; `received_at` is the last byte's time."""
        self._now = now
        self._received_at = max(self._received_at, received_at)
        if self.ended:
            return
        if self._deadline is not None and now >= self._deadline:
            if self._refusal is not None and self.state is State.SECURING:
                self._refuse(self._refusal)
                return
            if self.state not in (State.CLOSED, State.REFUSED):
                seconds = connection_state.HANDSHAKE_S_MAX
                self.reason = f"not open after {seconds:g} s, in state {self.state.value}"
            self.lost()
            return
        interval = self._tuned.heartbeat_s
        if not interval or self.state is not State.RUNNING:
            return
        if now >= self._received_at + 2 * interval and not self.holds_input:
            self.reason = f"missed heartbeats from client, timeout: {interval}s"
            self.lost()
        elif now >= self._sent_at + interval / 2:
            self._send(HEARTBEAT)

    def close(self, text: str) -> None:
        """Close the connection from the broker's side with CONNECTION_FORCED and `text`."""
        self._wake()
        if self.state is State.RUNNING:
            self._fail(ConnectionClosing(ReplyCode.CONNECTION_FORCED, text), _NO_METHOD)
        elif self.state is not State.CLOSED:
            self.lost()

    def lost(self) -> None:
        """Close all channels of the connection: its socket is closed."""
        self._close_channels()
        self.ended = True

    def _fail(self, error: AmqpError, ids: MethodId) -> None:
        """Close the connection for an error: with connection.close where its state allows it."""
        if self.ended or self.state in (State.CLOSED, State.REFUSED):
            return
        self.reason = str(error)
        self._wake()
        told = self.state in (State.OPENING, State.RUNNING) or (
            self.state is State.TUNING and error.code == ReplyCode.NOT_ALLOWED
        )
        self._close_channels()
        if told:
            self._say_close(error, ids)
            self._closed()
        else:
            self._discard()

    def _wake(self) -> None:
        if self._woken is not None:
            self._now = self._woken()

    def _say_close(self, error: AmqpError, ids: MethodId) -> None:
        method = ConnectionClose(error.code, errors.reply_text(error), ids.class_id, ids.method_id)
        self._answer(method)

    def _closed(self) -> None:
        self.state = State.CLOSED
        self._end_later(connection_state.close_seconds(self._tuned.heartbeat_s))

    def _discard(self) -> None:
        """Read nothing more from the client, and end after `connection_state.SILENT_CLOSE_S`."""
        self.state = State.REFUSED
        self._end_later(connection_state.SILENT_CLOSE_S)

    def _end_later(self, seconds: float) -> None:
        self._deadline = self._now + seconds

    def _close_channels(self, done: Callable[[], None] = lambda: None) -> None:
        channels, self._channels = self._channels, None
        if channels is not None:
            channels.close(done)

    def _answer(self, method: Method) -> None:
        self._send(encode_method(0, method))

    def _send(self, data: bytes) -> None:
        if not self.ended:
            self._sent_at = self._now
            self._send_bytes(data)
