"""The listener of HTTP: its address and its connections, which are `net`'s.

h11 and the session are imported with the first connection: a broker that is not scraped yet does
not hold them.
"""

import asyncio
import logging
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from headrace.config.listeners import METRICS_LISTENER
from headrace.frontends.http.router import Handler, HttpReply, HttpRequest, HttpRouter, text
from headrace.model.errors import ConfigError
from headrace.model.invariant import InvariantError
from headrace.net.connection import Connection
from headrace.net.listener import Address, Listener, Under

if TYPE_CHECKING:
    from headrace.frontends.http.session import HttpSession
    from headrace.net.table import ConnectionTable
    from headrace.ports.clock import Timer
    from headrace.ports.network import Network

log = logging.getLogger(__name__)

ANSWER_SECONDS_MAX = 10.0
"""How long a handler may take; 503 after that."""


class Endpoint:
    """The open endpoint, and all of its sessions. Used on the loop."""

    def __init__(self, router: HttpRouter, fatal: Callable[[Exception], None]) -> None:
        """`fatal` is called with a broken invariant: the process must stop."""
        self.router = router
        self.address = ("", 0)
        """Host and port that it listens on."""
        self.scheme = "http"
        """`https` where the listener has certificates."""
        self.call_later: Callable[[float, Callable[[], None]], Timer]
        """Of the table's clock."""
        self._fatal = fatal
        self._listener: Listener | None = None
        self._sessions: dict[HttpSession, None] = {}

    @property
    def connections(self) -> int:
        """How many are open."""
        return len(self._sessions)

    @property
    def url(self) -> str:
        """Where it is reached."""
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
        """Listen; returns host and port as they became. ConfigError where that is impossible.

        `under`: puts TLS under the connections.
        """
        # Imported now, so that the first scrape is as quick as the others.
        import headrace.frontends.http.exposition  # noqa: F401

        self.call_later = table.call_later
        self.scheme = "http" if under is None else "https"
        try:
            self._listener = Listener.bind(Address(METRICS_LISTENER, host, port), table, network)
            await self._listener.accept(under)
        except OSError as error:
            # A name that does not resolve has no positive number.
            number = error.errno or 0
            reason = os.strerror(number) if number > 0 else str(error.strerror or error)
            raise ConfigError(f"metrics.listener={host}:{port}: {reason.lower()}") from None
        self.address = (host, self._listener.port)
        return self.address

    def open(self, connection: Connection) -> "HttpSession":
        """Return a session for a new connection."""
        from headrace.frontends.http.session import HttpSession

        session = HttpSession(self, connection)
        self._sessions[session] = None
        return session

    def forget(self, session: "HttpSession") -> None:
        """Forget a session whose connection is closed."""
        self._sessions.pop(session, None)

    async def answered(self, handler: Handler, request: HttpRequest) -> HttpReply:
        """Return the handler's reply; 500 or 503 where it fails or takes too long."""
        try:
            async with asyncio.timeout(ANSWER_SECONDS_MAX):
                return await handler(request)
        except TimeoutError:
            return text(503, f"no answer within {ANSWER_SECONDS_MAX:g} s")
        except InvariantError as broken:
            self._fatal(broken)
        except Exception:
            log.exception(
                "%s %s: the handler met a bug of Headrace: please report it with this trace",
                request.method, request.path,
            )  # fmt: skip
        return text(500, "internal error")

    async def close(self) -> None:
        """Stop accepting, send the answers under way, and end all connections."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        waiting: list[asyncio.Task[Any]] = []
        for session in list(self._sessions):
            waiting += session.shut_down()
        if waiting:
            await asyncio.wait(waiting)
