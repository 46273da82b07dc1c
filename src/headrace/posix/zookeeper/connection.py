"""kazoo's client and connection on their own thread, with the time of the last sign of life.

`Pulse.heard` is the time at which a request was *sent* that the ensemble's leader answered: the
session lives at least its timeout longer. Answers of a single server do not count: if it is cut off
from the leader, it answers pings and reads for a while (`syncLimit`), while the leader may expire
the session.

kazoo pings on its own thread, whatever the event loop does. The session must not outlive a broker
whose loop hangs: nothing is sent while the loop stands still.
"""

import logging
from math import inf
from typing import Any, NamedTuple

from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionDropped, SessionExpiredError, SessionMovedError
from kazoo.handlers.threading import AsyncResult, SequentialThreadingHandler
from kazoo.protocol.connection import ConnectionHandler
from kazoo.protocol.serialization import Connect, Sync, Transaction
from kazoo.protocol.states import KeeperState
from kazoo.retry import KazooRetry

from headrace.posix.clock import boot_seconds

STILL_SHARE = 0.25
"""Part of the session timeout for which pings continue although the event loop stands still."""
RETRY_SECONDS = 0.05
RETRY_SECONDS_MAX = 1.0
_BY_THE_LEADER = (Sync, Transaction)
"""Requests that only the ensemble's leader can answer."""
_NOT_HEARD = (SessionExpiredError.code, SessionMovedError.code)
"""Error codes that do not prove that the session is alive."""


class Pulse:
    """Signs of life exchanged by the two threads. Each field has one writer."""

    __slots__ = ("beat", "heard", "session", "session_seconds")

    def __init__(self, session_seconds: float) -> None:
        """Make a pulse with the requested session timeout; the agreed one replaces it."""
        self.session_seconds = session_seconds
        self.session = 0
        """Session of the newest connection. Written before the first `heard` of a session, so it is
        to be read after `heard`."""
        self.heard = -inf
        """Sending time of the newest request that the ensemble's leader has answered."""
        self.beat = inf
        """When the event loop last ran; infinity before the first time."""

    def stands_still(self) -> bool:
        """Return whether the event loop has not run for a quarter of the session timeout."""
        return boot_seconds() - self.beat > self.session_seconds * STILL_SHARE

    def hear(self, sent: float) -> None:
        """Note that a request sent at time `sent` was answered."""
        self.heard = max(self.heard, sent)


class DirectHandler(SequentialThreadingHandler):  # type: ignore[misc]
    """kazoo's handler with callbacks on the connection's thread.

    So answers, watches and states have one order. With kazoo's two callback threads an answer could
    overtake the watch that precedes it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.session: int | None = None
        """The session that the deciding thread's requests are for; None: any."""

    def start(self) -> None:
        """Do nothing, as there are no threads to start."""

    def stop(self) -> None:
        """Do nothing, as there are no threads to stop."""

    def dispatch_callback(self, callback: Any) -> None:
        """Run kazoo's callback at once, in the calling thread."""
        callback.func(*callback.args)

    def async_result(self) -> Any:
        """Return a result object, marked with the session of its request."""
        answer = AsyncResult(self)
        answer.session = self.session
        return answer


class Sent(NamedTuple):
    """A request without an answer: its sending time, and whether the leader must answer it."""

    at: float
    to_the_leader: bool


class HeardConnection(ConnectionHandler):  # type: ignore[misc]
    """A connection that records when answered requests were sent, and pauses with the event
    loop."""

    def __init__(self, client: KazooClient, retry: KazooRetry, pulse: Pulse) -> None:
        super().__init__(client, retry, logger=client.logger)
        self._pulse = pulse
        self._sent: dict[int, Sent] = {}
        """Unanswered requests by number, oldest first."""

    def _connect(self, host: str, address: str, port: int) -> Any:
        if self._pulse.stands_still():
            raise ConnectionDropped("the event loop stands still")
        self._sent.clear()
        return super()._connect(host, address, port)

    def _invoke(self, timeout: float, request: Any, xid: int | None = None) -> Any:
        sent = boot_seconds()
        answer = super()._invoke(timeout, request, xid)
        if isinstance(request, Connect) and answer[0].time_out > 0:
            self._pulse.session_seconds = answer[0].time_out / 1000
            self._pulse.session = answer[0].session_id
            self._pulse.hear(sent)
        return answer

    def _submit(self, request: Any, timeout: float, xid: int | None = None) -> None:
        if xid is not None and xid > 0:
            self._sent[xid] = Sent(boot_seconds(), isinstance(request, _BY_THE_LEADER))
        super()._submit(request, timeout, xid)

    def _send_ping(self, timeout: float) -> None:
        if not self._pulse.stands_still():
            super()._send_ping(timeout)

    def _read_header(self, timeout: float) -> Any:
        header, buffer, offset = super()._read_header(timeout)
        sent = self._sent.pop(header.xid, None)
        if sent is not None and sent.to_the_leader and header.err not in _NOT_HEARD:
            self._pulse.hear(sent.at)
        return header, buffer, offset

    def _send_request(self, read_timeout: float, connect_timeout: float) -> None:
        """Send the next request, unless it is for an expired session.

        kazoo detects a silent server only when it had nothing to send for a while; a busy client
        must detect it too.
        """
        oldest = next(iter(self._sent.values()), None)
        if oldest is not None and boot_seconds() - oldest.at > read_timeout:
            raise ConnectionDropped("no answer")
        queue = self.client._queue
        if queue:
            answer = queue[0][1]
            wanted = None if answer is None else answer.session
            if wanted not in (None, self.client._session_id):
                queue.popleft()
                self._read_sock.recv(1)
                answer.set_exception(SessionExpiredError())
                return
        super()._send_request(read_timeout, connect_timeout)


class Client(KazooClient):  # type: ignore[misc]
    """kazoo's client on a `HeardConnection`: reconnects without limit and begins new sessions."""

    def __init__(self, hosts: str, pulse: Pulse, auth_data: list[tuple[str, str]]) -> None:
        """Make a client of `hosts`, as in zookeeper.connect with chroot. Raises ValueError."""
        handler = DirectHandler()
        retry = KazooRetry(
            max_tries=-1,
            delay=RETRY_SECONDS,
            max_delay=RETRY_SECONDS_MAX,
            sleep_func=handler.sleep_func,
        )
        logger = logging.getLogger("headrace.kazoo")
        logger.setLevel(logging.ERROR)  # only bugs; the rest is logged where it is handled
        super().__init__(
            hosts,
            timeout=pulse.session_seconds,
            handler=handler,
            connection_retry=retry,
            auth_data=auth_data,
            logger=logger,
        )
        self._connection = HeardConnection(self, self._conn_retry.copy(), pulse)

    @property
    def has_given_up(self) -> bool:
        """Whether the client has stopped reconnecting, such as after refused credentials."""
        return self._state in {KeeperState.AUTH_FAILED, KeeperState.CLOSED}
