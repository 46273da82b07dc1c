"""Another broker, or the controller, as a broker asks it: over one connection, once or until it
answers.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from headrace.client.calls.call import Call
from headrace.client.client import BACKOFF_SECONDS_MAX, BACKOFF_SECONDS_MIN, Client
from headrace.client.transport.port import Address, ClientError, Link
from headrace.model.errors import ApiError
from headrace.ports.backoff import backoff_seconds

T = TypeVar("T")

Locate = Callable[[], Awaitable[Address]]
"""Returns where the peer listens now; ClientError or ApiError where that is not known."""


def fixed(address: Address) -> Locate:
    """Return a `Locate` for a registration, whose address never changes."""

    async def locate() -> Address:
        return address

    return locate


class Peer:
    """A broker and the connection to it, made when it is first asked and after each loss."""

    def __init__(self, client: Client, locate: Locate) -> None:
        """Create an unconnected peer.

        `client` is this peer's own. `locate` is called before each request.
        """
        self._client = client
        self._locate = locate
        self._connecting = asyncio.Lock()
        """Requests that are sent at the same time share one connection, in their order."""

    async def ask(self, call: Call[T], *, wait_seconds: float = 0.0) -> T:
        """Send one request; `wait_seconds` is how long the peer itself may wait.

        ClientError and Malformed: the request may have been carried out or not. ApiError: refused.
        """
        return await self._client.ask(await self._link(), call, wait_seconds=wait_seconds)

    async def connect(self) -> None:
        """Connect where there is no connection: a request made afterwards is sent at once."""
        await self._link()

    async def ask_until_answered(
        self, call: Call[T], failed: Callable[[ClientError | ApiError], None]
    ) -> T:
        """Send one request again, with backoff, until it is answered. Raises Malformed.

        `failed` is called with each failure, and raises the ones that another attempt cannot mend.
        """
        failures = 0
        while True:
            try:
                return await self.ask(call)
            except (ClientError, ApiError) as error:
                failed(error)
            failures += 1
            await self._client.transport.sleep(
                backoff_seconds(failures, BACKOFF_SECONDS_MIN, BACKOFF_SECONDS_MAX)
            )

    async def retrying(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Call `attempt` again after failures that may pass, as `Client.retrying` does."""
        return await self._client.retrying(attempt)

    async def _link(self) -> Link:
        address = await self._locate()
        async with self._connecting:
            return await self._client.link_to(address)

    def close(self) -> None:
        """Close the connection; nothing is retried any more."""
        self._client.retry_seconds = 0.0
        self._client.close()
