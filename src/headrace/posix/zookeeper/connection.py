"""kazoo's client and connection, on their own thread, and when ZooKeeper was last heard of.

The time that counts is the one at which something was *sent* that ZooKeeper answered: it has heard
of the session then or later, so the session outlives that time by the timeout at least. What counts
is what the ensemble's leader had a part in. A server that is cut off from it answers pings and
reads for a while (`syncLimit`), and the leader may end the session meanwhile.

Kazoo pings on its own thread, whatever the event loop does. A session must not outlive the mind of
its broker: while the loop stands still nothing is sent.
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
"""For which part of the session's timeout the event loop may stand still and be pinged for."""
RETRY_SECONDS = 0.05
RETRY_SECONDS_MAX = 1.0
_BY_THE_LEADER = (Sync, Transaction)
"""What no server answers by itself."""
_NOT_HEARD = (SessionExpiredError.code, SessionMovedError.code)
"""Answers that do not say that the session lives."""


class Pulse:
    """What the two threads tell each other about being alive. Each field has one writer."""

    __slots__ = ("beat", "heard", "session_seconds")

    def __init__(self, session_seconds: float) -> None:
        """`session_seconds`: what is asked for; what was agreed follows."""
        self.session_seconds = session_seconds
        self.heard = -inf
        """When the last thing that ZooKeeper answered was sent."""
        self.beat = inf
        """When the event loop was last seen running; infinity before it is first looked at."""

    def stands_still(self) -> bool:
        """Tell whether the event loop has not run for long."""
        return boot_seconds() - self.beat > self.session_seconds * STILL_SHARE

    def hear(self, sent: float) -> None:
        """Note that something sent at `sent` was answered."""
        self.heard = max(self.heard, sent)


class DirectHandler(SequentialThreadingHandler):  # type: ignore[misc]
    """Calls back on the connection's thread: one order for answers, watches and states.

    With kazoo's own two threads for them, an answer could overtake the watch it came after.
    """

    def __init__(self) -> None:
        super().__init__()
        self.session: int | None = None
        """The session that the deciding thread asks in; None: whichever there is."""

    def start(self) -> None:
        """Start no threads."""

    def stop(self) -> None:
        """End no threads."""

    def dispatch_callback(self, callback: Any) -> None:
        """Call back."""
        callback.func(*callback.args)

    def async_result(self) -> Any:
        """Return a place for an answer, marked with the session that the question is for."""
        answer = AsyncResult(self)
        answer.session = self.session
        return answer


class Sent(NamedTuple):
    """A question that is not answered yet."""

    at: float
    to_the_leader: bool


class HeardConnection(ConnectionHandler):  # type: ignore[misc]
    """Notes when what is answered was sent, and is silent while the event loop stands still."""

    def __init__(self, client: KazooClient, retry: KazooRetry, pulse: Pulse) -> None:
        super().__init__(client, retry, logger=client.logger)
        self._pulse = pulse
        self._sent: dict[int, Sent] = {}
        """What has no answer yet, by its number, the oldest first."""

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
        """Send the next request, unless it was meant for a session that is over.

        kazoo finds out that nobody answers when it has had nothing to send for a while. Who asks
        on and on must find out too.
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
    """kazoo's client on a `HeardConnection`. Connects again for ever, and begins new sessions."""

    def __init__(self, hosts: str, pulse: Pulse, auth_data: list[tuple[str, str]]) -> None:
        """`hosts` as in zookeeper.connect, chroot included. ValueError."""
        handler = DirectHandler()
        retry = KazooRetry(
            max_tries=-1,
            delay=RETRY_SECONDS,
            max_delay=RETRY_SECONDS_MAX,
            sleep_func=handler.sleep_func,
        )
        logger = logging.getLogger("headrace.kazoo")
        logger.setLevel(logging.ERROR)  # bugs; the rest is said where it is handled
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
        """Whether it does not connect again by itself: our credentials were refused, or worse."""
        return self._state in {KeeperState.AUTH_FAILED, KeeperState.CLOSED}
