"""The HTTP listener: its address and connections, served by `net`.

h11 and the session are imported with the first connection: a broker that is not scraped does not
load them.
"""

import asyncio
import logging
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from headrace.config.listeners import METRICS_LISTENER
from headrace.frontends.http.router import (
    BodyRefused,
    Handler,
    HttpReply,
    HttpRequest,
    Router,
    text,
)
from headrace.model.errors import ConfigError
from headrace.model.invariant import InvariantError
from headrace.net.connection import Connection
from headrace.net.listener import Address, Listener, Under

if TYPE_CHECKING:
    from headrace.frontends.http.bodies import RequestBody
    from headrace.frontends.http.session import HttpSession
    from headrace.net.table import ConnectionTable
    from headrace.ports.clock import Timer
    from headrace.ports.network import Network

log = logging.getLogger(__name__)

ANSWER_SECONDS_MAX = 10.0
"""Seconds that a handler may take, its wait for the body aside; then the client gets 503."""
STOP_SECONDS_MAX = 4.0
"""Seconds that answers under way have at the stop: less than `server` waits for this listener."""


class Endpoint:
    """The open HTTP listener and its sessions. Used on the event loop."""

    def __init__(self, router: Router, fatal: Callable[[Exception], None]) -> None:
        """Create the endpoint, not listening yet.

        `fatal` is called with a broken invariant: the process must stop.
        """
        self.router = router
        self.address = ("", 0)
        """Host and port of the listener; ("", 0) before `start`."""
        self.scheme = "http"
        """`https` if the listener has certificates, else `http`."""
        self.call_later: Callable[[float, Callable[[], None]], Timer]
        """Timers of the connection table's clock; set by `start`, or by the owner of a listener."""
        self.body_bytes = 0
        """Bytes of the bodies of all requests in memory."""
        self._fatal = fatal
        self._listener: Listener | None = None
        self._sessions: dict[HttpSession, None] = {}

    @property
    def connections(self) -> int:
        """Number of open HTTP connections."""
        return len(self._sessions)

    @property
    def url(self) -> str:
        """The URL of the HTTP listener."""
        host, port = self.address
        return f"{self.scheme}://{f'[{host}]' if ':' in host else host}:{port}"

    async def start(
        self,
        host: str,
        port: int,
        table: "ConnectionTable",
        network: "Network",
        under: Under | None = None,
    ) -> tuple[str, int]:
        """Listen; return the host and the port in use. Raises ConfigError if that fails.

        `under` puts TLS under the connections; None: plain HTTP.
        """
        # Imported now, so that the first scrape is as quick as later ones.
        import headrace.frontends.http.exposition  # noqa: F401

        self.call_later = table.call_later
        self.scheme = "http" if under is None else "https"
        try:
            self._listener = Listener.bind(Address(METRICS_LISTENER, host, port), table, network)
            await self._listener.accept(under)
        except OSError as error:
            # A name that does not resolve has no positive errno.
            number = error.errno or 0
            reason = os.strerror(number) if number > 0 else str(error.strerror or error)
            raise ConfigError(f"metrics.listener={host}:{port}: {reason.lower()}") from None
        self.address = (host, self._listener.port)
        return self.address

    def open(self, connection: Connection) -> "HttpSession":
        """Return a session for a new HTTP connection."""
        from headrace.frontends.http.session import HttpSession

        session = HttpSession(self, connection)
        self._sessions[session] = None
        return session

    def forget(self, session: "HttpSession") -> None:
        """Forget the session of an HTTP connection that is closed."""
        self._sessions.pop(session, None)

    async def answered(
        self, handler: Handler, request: HttpRequest, body: "RequestBody | None"
    ) -> HttpReply:
        """Return the handler's reply; 500 if it fails, 503 if it takes too long."""
        try:
            async with asyncio.timeout(ANSWER_SECONDS_MAX) as timeout:
                if body is not None:
                    body.timeout = timeout
                reply = await handler(request)
                if reply.compresses or not isinstance(reply.body, bytes):
                    from headrace.frontends.http.streams import prepared

                    reply = await prepared(reply, request)
                return reply
        except TimeoutError:
            return text(503, f"no answer within {ANSWER_SECONDS_MAX:g} s")
        except BodyRefused as refused:
            return text(refused.status, refused.reason)
        except Exception as problem:  # noqa: BLE001 - a bug ends one request
            self.failed(request, problem)
        finally:
            if body is not None:
                body.timeout = None
        return text(500, "internal error")

    def failed(self, request: HttpRequest, problem: Exception) -> None:
        """Log a bug in a handler, or stop the process if an invariant is broken."""
        if isinstance(problem, InvariantError):
            self._fatal(problem)
            return
        log.error(
            "%s %s: the handler met a bug of Headrace: please report it with this trace",
            request.method, request.pattern or request.path, exc_info=problem,
        )  # fmt: skip

    async def close(self) -> None:
        """Stop accepting, send pending answers, and close all connections.

        Answers that are not sent within `STOP_SECONDS_MAX` are cut off.
        """
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        waiting: list[asyncio.Task[Any]] = []
        for session in list(self._sessions):
            waiting += session.shut_down()
        if not waiting:
            return
        _, late = await asyncio.wait(waiting, timeout=STOP_SECONDS_MAX)
        if late:
            for session in list(self._sessions):
                session.cut()
            await asyncio.wait(late)
