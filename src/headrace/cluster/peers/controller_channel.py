"""A broker's way to the controller, whoever that is: found in the store, asked through one client.

Whoever is asked and is not the controller says so; then, and when the way is lost, the store is
asked anew.
"""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from headrace.client.calls.call import Call
from headrace.client.client import Client
from headrace.client.transport.handshake import VersionsCall
from headrace.client.transport.port import Address
from headrace.cluster.store.catalog import Catalog
from headrace.model.errors import ApiError, ErrorCode
from headrace.ports.store import StoreError

T = TypeVar("T")


class ControllerChannel:
    """Asks the controller. Every method may raise ApiError and ClientError."""

    def __init__(self, client: Client, catalog: Catalog, listener: str) -> None:
        """`client` is the channel's own; `listener` is the one for brokers."""
        self._client = client
        self._catalog = catalog
        self._listener = listener
        self._address: Address | None = None

    async def ask_once(self, call: Call[T]) -> T:
        """Ask whoever is the controller now, once."""
        try:
            address = self._address = self._address or await self._find()
            link = await self._client.link_to(address)
            return await self._client.ask(link, call)
        except BaseException:
            self._address = None
            raise

    async def reach(self) -> None:
        """Check that the controller of the store answers; raises what keeps it from that."""
        await self.ask_once(VersionsCall())

    async def retrying(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Try `attempt`, again after what may pass, NOT_CONTROLLER among it, for a while."""
        return await self._client.retrying(attempt)

    def close(self) -> None:
        """Ask nothing any more."""
        self._client.retry_seconds = 0.0
        self._client.close()

    async def _find(self) -> Address:
        try:
            controller = await self._catalog.controller()
            for broker in await self._catalog.brokers():
                endpoint = broker.endpoint(self._listener)
                if broker.broker_id == controller and endpoint is not None:
                    return Address(endpoint.host, endpoint.port)
        except StoreError as error:
            raise ApiError(ErrorCode.NOT_CONTROLLER, str(error)) from error
        raise ApiError(ErrorCode.NOT_CONTROLLER, "nobody is the controller")
