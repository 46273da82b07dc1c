"""A connection of a RocketMQ client, and the frontend of all of them."""

import itertools
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from headrace.frontends.rocketmq.answers import RequestRefused
from headrace.frontends.rocketmq.call import RemotingCall, RemotingPeer
from headrace.frontends.rocketmq.dispatch import handle
from headrace.frontends.rocketmq.pulling.known_pulls import KnownPulls
from headrace.frontends.rocketmq.send_runs import SendRuns
from headrace.frontends.rocketmq.serving import ServedBroker
from headrace.frontends.rocketmq.topics import make_trace_topic
from headrace.ports.callbacks import Done
from headrace.ports.clock import Timer
from headrace.security.identity import Identity
from headrace.subscriptions.message_rates import SAMPLE_SECONDS
from headrace.wire.rocketmq.codes import RequestCode, ResponseCode
from headrace.wire.rocketmq.commands import (
    CommandFlag,
    RemotingCommand,
    decode_command,
    encode_command,
)
from headrace.wire.rocketmq.frames import (
    HEADER_AT,
    LENGTH_BYTES,
    RemotingFrame,
    Serialization,
    frame_at,
    frame_bytes,
)
from headrace.wire.rocketmq.hot.pull_forms import PLAIN as PLAIN_PULL
from headrace.wire.rocketmq.hot.send_forms import PLAIN
from headrace.wire.rocketmq.message_ids import HOST_V4_BYTES, host_bytes

if TYPE_CHECKING:
    from headrace.frontends.rocketmq.signed_requests import SignedRequests
    from headrace.net.connection import Connection
    from headrace.net.pending import Pending
    from headrace.net.write_pass import WritePass

REQUESTS_MAX = 4096
"""Requests of one connection that wait for their answers; above it nothing is read."""
EXPIRY_SECONDS = SAMPLE_SECONDS
"""Seconds between two looks for members without heartbeats and for full disks, and between two
samples of traffic."""


def _local_address(connection: "Connection") -> tuple[str, int]:
    """Return the address and the port that a client has connected to."""
    transport = connection.answers.transport
    local = None if transport is None else transport.get_extra_info("sockname")
    return (str(local[0]), int(local[1])) if isinstance(local, tuple) else ("", 0)


def _host_bytes(host: str, port: int) -> bytes:
    """Return an address as messages have it; zeros for a name, which they have no place for."""
    try:
        return host_bytes(host, port)
    except ValueError:
        return bytes(HOST_V4_BYTES)


class _Asked(NamedTuple):
    """A request to a client that waits for its answer."""

    code: RequestCode
    done: Done[RemotingCommand | BaseException]
    timer: Timer


class RemotingSession:
    """A client's connection. `net.stream.StreamSession`, `call.RemotingClientSide`."""

    def __init__(self, frontend: "RemotingFrontend", connection: "Connection") -> None:
        self._frontend = frontend
        self._stream = connection.stream(self)
        host, port = frontend.broker.settings.advertised or _local_address(connection)
        self.peer = RemotingPeer(
            Identity(connection.address, connection.listener, connection.principal),
            _host_bytes(connection.address, connection.port),
            f"{host}:{port}",
            _host_bytes(host, port),
        )
        self._sends = SendRuns(frontend.broker, self.peer, self._stream.push, self._go_on_if_room)
        self._pulls = KnownPulls(frontend.broker, self._new_call)
        self._calls: dict[RemotingCall, None] = {}
        """Requests without an answer yet, parked pulls among them."""
        self._for_room: list[Callable[[], None]] = []
        """Pulls that go on when the client has read more."""
        self._asked: dict[int, _Asked] = {}
        """By opaque: requests to the client that wait for its answers."""
        self.address = f"{connection.address}:{connection.port}"
        self.identity = self.peer.identity
        self.client_id = self.language = ""
        self.version = 0
        connection.authenticated = True

    # net.stream.StreamSession

    def frames(self, view: memoryview, at: int, filled: int) -> int:
        """Handle the whole frames in `view[at:filled]`; return the position of the first left."""
        sends, data, base = self._sends, b"", at
        while not self._stream.held:
            size = frame_bytes(view, at, filled)
            if not 0 < size <= filled - at:
                break
            if sends.has_forms and view[at + HEADER_AT : at + HEADER_AT + len(PLAIN)] == PLAIN:
                if not data:
                    data, base = bytes(view[at:filled]), at
                after = base + sends.take(data, at - base, REQUESTS_MAX - len(self._calls))
                if after > at:
                    at = after
                    continue
            self._handle_frame(frame_at(view, at))
            at += size
        return at

    def _handle_frame(self, frame: RemotingFrame) -> None:
        # The bytes are valid in this pass only, and answers may come later.
        header, body = bytes(frame.header), bytes(frame.body)
        may_have_form = frame.serialization is Serialization.JSON
        may_have_form = may_have_form and not self._frontend.signed.is_required
        is_plain_pull = may_have_form and not body and header.startswith(PLAIN_PULL)
        if is_plain_pull and self._pulls.take(header):
            return
        command = decode_command(frame.serialization, header, body)
        if is_plain_pull:
            self._pulls.learn(header, command)
        elif may_have_form and command.code == RequestCode.SEND_MESSAGE_V2:
            self._sends.learn(header, command)
        self._handle(command)

    def need(self, view: memoryview, at: int, filled: int) -> int:
        """Return the size of the frame at `at`, or of what says it."""
        size = frame_bytes(view, at, filled)
        return size or (LENGTH_BYTES if filled - at < LENGTH_BYTES else HEADER_AT)

    def room(self) -> None:
        """Go on with the pulls that wait for room; some may wait again."""
        waiting, self._for_room = self._for_room, []
        for again in waiting:
            again()

    def pass_done(self) -> "Pending | None":
        """Write the messages of this pass; its answers wait until that is done."""
        frontend = self._frontend
        sending = frontend.broker.sending
        self._sends.end_pass()
        if not sending.has_some:
            return None
        frontend.writes.begin()
        sending.write()
        frontend.writes.promise()
        return frontend.writes.end()

    def closed(self) -> None:
        """Leave all groups, and drop the requests that wait."""
        calls, self._calls = self._calls, {}
        self._for_room.clear()
        for call in calls:
            call.abandon()
        for opaque in list(self._asked):
            self._not_answered(opaque, ResponseCode.SYSTEM_ERROR, "closed its connection")
        clients = self._frontend.broker.clients
        if clients.get(self.client_id) is self:
            del clients[self.client_id]
        self._frontend.broker.members.closed(self)
        self._frontend.broker.producers.closed(self)
        self._frontend.forget(self)

    # call.RemotingClientSide

    def has_room(self, again: Callable[[], None]) -> bool:
        """Return whether the client reads its answers; if not, `again` is called when it has."""
        if self._stream.takes_more():
            return True
        self._for_room.append(again)
        return False

    def members_changed(self, group: str) -> None:
        """Send NOTIFY_CONSUMER_IDS_CHANGED (40), one-way: the client shares the queues again."""
        self.request(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, {"consumerGroup": group})

    def request(self, code: RequestCode, fields: Mapping[str, str], body: bytes = b"") -> None:
        """Send the client a one-way request."""
        opaque = next(self._frontend.opaques)
        self._send(RemotingCommand(code, opaque, CommandFlag.ONE_WAY, fields, body))

    def ask(
        self,
        code: RequestCode,
        fields: Mapping[str, str],
        body: bytes,
        seconds: float,
        done: Done[RemotingCommand | BaseException],
    ) -> None:
        """Send a request to the client; `done` gets its answer, or RequestRefused."""
        opaque = next(self._frontend.opaques)
        late = partial(
            self._not_answered, opaque, ResponseCode.CONSUME_MSG_TIMEOUT, "did not answer in time"
        )
        clock = self._frontend.broker.broker.clock
        self._asked[opaque] = _Asked(code, done, clock.call_later(seconds, late))
        self._send(RemotingCommand(code, opaque, 0, fields, body))

    def _not_answered(self, opaque: int, code: ResponseCode, what: str) -> None:
        asked = self._asked.pop(opaque)
        asked.timer.cancel()
        text = f"client {self.address} {what}: request {asked.code.name}"
        asked.done(RequestRefused(code, text))

    # requests

    def _handle(self, command: RemotingCommand) -> None:
        if command.is_response:
            asked = self._asked.pop(command.opaque, None)
            if asked is not None:  # else it comes too late, or to a one-way request
                asked.timer.cancel()
                asked.done(command)
            return
        handle(self._new_call(command), self._frontend.signed)

    def _new_call(self, command: RemotingCommand) -> RemotingCall:
        """Add a request to those that wait for answers; no frame follows one too many."""
        call = RemotingCall(
            self._frontend.broker, self, self.peer, command, self._stream.push, self._ended
        )
        self._calls[call] = None
        if len(self._calls) + self._sends.waiting >= REQUESTS_MAX:
            self._stream.hold()
        return call

    def _send(self, command: RemotingCommand) -> None:
        self._stream.push(list(encode_command(command)))

    def _ended(self, call: RemotingCall) -> None:
        self._calls.pop(call, None)
        self._go_on_if_room()

    def _go_on_if_room(self) -> None:
        if self._stream.held and len(self._calls) + self._sends.waiting < REQUESTS_MAX // 2:
            self._stream.go_on()

    def end(self) -> None:
        """Close the connection, because the broker stops."""
        self._stream.end()


class RemotingFrontend:
    """All connections of RocketMQ clients. `server.frontends.OtherFrontend`."""

    def __init__(self, broker: ServedBroker, writes: "WritePass", signed: "SignedRequests") -> None:
        self.broker = broker
        self.writes = writes
        self.signed = signed
        self.opaques = itertools.count(1)
        """Numbers of the requests that the broker sends."""
        self._sessions: dict[RemotingSession, None] = {}
        self._timer: Timer | None = None

    def open(self, connection: "Connection") -> RemotingSession:
        """Return a session for a new connection."""
        session = RemotingSession(self, connection)
        self._sessions[session] = None
        return session

    def forget(self, session: RemotingSession) -> None:
        """Forget a session whose connection is closed."""
        self._sessions.pop(session, None)

    async def start(self) -> None:
        """Make the topic of offsets, and begin to look for members without heartbeats."""
        await self.broker.ready()
        if self.broker.settings.trace_topic:
            self.broker.work(make_trace_topic(self.broker))
        self._expire()

    def _expire(self) -> None:
        clock = self.broker.broker.clock
        self.broker.members.expire(clock.monotonic())
        self.broker.producers.expire(clock.monotonic())
        self.broker.traffic.sample()
        self.broker.cleaner.look()
        self.broker.read_ahead.expire()
        self._timer = clock.call_later(EXPIRY_SECONDS, self._expire)

    async def stop(self) -> None:
        """Close all connections."""
        if self._timer is not None:
            self._timer.cancel()
        for session in list(self._sessions):
            session.end()
        self.broker.close()
