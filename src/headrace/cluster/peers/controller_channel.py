"""`ControllerChannel`: requests to the controller, which is found in the metadata store.

A broker that is not the controller answers NOT_CONTROLLER. After any failed request, the address of
the controller is read from the store again.
"""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from headrace.client.calls.call import Call
from headrace.client.client import Client
from headrace.client.transport.handshake import VersionsCall
from headrace.client.transport.peer import Peer
from headrace.client.transport.port import Address
from headrace.cluster.peers.registrations import listener_address
from headrace.cluster.store.catalog import Catalog
from headrace.model.errors import ApiError, ErrorCode
from headrace.ports.store import StoreError

T = TypeVar("T")


class ControllerChannel:
    """A connection to the broker that is the controller.

    Each method may raise ApiError, ClientError.
    """

    def __init__(self, client: Client, catalog: Catalog, listener: str) -> None:
        """Create a channel without a connection.

        `client` is owned by the channel, which closes it. `listener`: name of the inter-broker
        listener.
        """
        self._peer = Peer(client, self._locate)
        self._catalog = catalog
        self._listener = listener
        self._address: Address | None = None
        """Address of the controller; None: read it from the store before the next request."""

    async def ask_once(self, call: Call[T]) -> T:
        """Send one request to the controller, without a retry.

        Forget its address if the request fails.
        """
        try:
            return await self._peer.ask(call)
        except BaseException:
            self._address = None
            raise

    async def reach(self) -> None:
        """Check that the controller named in the store answers an ApiVersions request.

        Raise its error.
        """
        await self.ask_once(VersionsCall())

    async def retrying(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Call `attempt` until it succeeds, the error is not retriable, or the client gives up.

        NOT_CONTROLLER is retriable.
        """
        return await self._peer.retrying(attempt)

    def close(self) -> None:
        """Close the connection and stop retries."""
        self._peer.close()

    async def _locate(self) -> Address:
        """Return the controller's address, from the store if it is not known."""
        if self._address is None:
            self._address = await self._find()
        return self._address

    async def _find(self) -> Address:
        """Read the controller and its listener from the store.

        ApiError NOT_CONTROLLER: the store has no controller.
        """
        try:
            controller = await self._catalog.controller()
            for broker in await self._catalog.brokers():
                address = listener_address(broker, self._listener)
                if broker.broker_id == controller and address is not None:
                    return address
        except StoreError as error:
            raise ApiError(ErrorCode.NOT_CONTROLLER, str(error)) from error
        raise ApiError(ErrorCode.NOT_CONTROLLER, "there is no controller")
