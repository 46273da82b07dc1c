"""Assembly of the management listener; `server.frontends` imports this file by name."""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from headrace.frontends.http.endpoint import Endpoint
from headrace.frontends.http.router import Found, HttpReply

if TYPE_CHECKING:
    from headrace.broker.broker import Broker
    from headrace.frontends.http.router import Router
    from headrace.frontends.http.session import HttpSession
    from headrace.net.connection import Connection
    from headrace.operations.registry import Operations
    from headrace.vhosts.users.accounts import Accounts

log = logging.getLogger(__name__)


class Parts(Protocol):
    """The objects that the frontend is made of. Implemented by `server.frontends.Parts`."""

    @property
    def broker(self) -> "Broker":
        """The broker that answers."""

    @property
    def operations(self) -> "Operations":
        """The operations of the broker's protocols."""

    @property
    def fatal(self) -> Callable[[Exception], None]:
        """Called with a broken invariant to stop the process."""


class HasAccounts(Protocol):
    """The AMQP frontend of the same broker."""

    @property
    def accounts(self) -> "Accounts":
        """The broker's users."""


class ManagementFrontend:
    """The management listeners of one broker. Implements `server.frontends.OtherFrontend`."""

    def __init__(self, parts: Parts, accounts: "Accounts") -> None:
        self._accounts = accounts
        self.endpoint = Endpoint(_LateRouter(parts, accounts), parts.fatal)
        self.endpoint.call_later = parts.broker.clock.call_later

    def open(self, connection: "Connection") -> "HttpSession":
        """Return a session for a new connection."""
        return self.endpoint.open(connection)

    async def start(self) -> None:
        """Log the users who may do everything: their tag had no effect without this listener."""
        log.info(
            "administrators of the management API: %s",
            ", ".join(map(repr, self._accounts.administrators())) or "none",
        )

    async def stop(self) -> None:
        """End all connections, after the answers under way."""
        await self.endpoint.close()


class _LateRouter:
    """The router, which is imported with the first request. Implements `router.Router`."""

    def __init__(self, parts: Parts, accounts: "Accounts") -> None:
        self._parts = parts
        self._accounts = accounts
        self._router: Router | None = None

    def find(self, method: str, path: str) -> Found | HttpReply:
        """Return the route of a request, or a reply instead."""
        if self._router is None:
            from headrace.frontends.management.requests import ManagementRouter

            self._router = ManagementRouter(
                self._parts.broker, self._accounts, self._parts.operations
            )
        return self._router.find(method, path)


def frontend(parts: Parts, amqp: HasAccounts) -> ManagementFrontend:
    """Return the frontend of the management listeners; `amqp` has the broker's users."""
    return ManagementFrontend(parts, amqp.accounts)
