"""The controller as the other brokers ask it: found in the store, asked over one connection.

A broker that is asked and is not the controller answers so. Then, and when the connection is lost,
the controller is looked up in the store again.
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
    """Asks the controller. Every method may raise ApiError and ClientError."""

    def __init__(self, client: Client, catalog: Catalog, listener: str) -> None:
        """`client` is the channel's own; `listener` is the one for brokers."""
        self._peer = Peer(client, self._locate)
        self._catalog = catalog
        self._listener = listener
        self._address: Address | None = None
        """Of the controller, as long as its answers do not say otherwise."""

    async def ask_once(self, call: Call[T]) -> T:
        """Ask the present controller, once."""
        try:
            return await self._peer.ask(call)
        except BaseException:
            self._address = None
            raise

    async def reach(self) -> None:
        """Check that the controller of the store answers; raise the error that prevents it."""
        await self.ask_once(VersionsCall())

    async def retrying(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Try `attempt`, again after what may pass, NOT_CONTROLLER among it, for a while."""
        return await self._peer.retrying(attempt)

    def close(self) -> None:
        """Ask nothing any more."""
        self._peer.close()

    async def _locate(self) -> Address:
        if self._address is None:
            self._address = await self._find()
        return self._address

    async def _find(self) -> Address:
        try:
            controller = await self._catalog.controller()
            for broker in await self._catalog.brokers():
                address = listener_address(broker, self._listener)
                if broker.broker_id == controller and address is not None:
                    return address
        except StoreError as error:
            raise ApiError(ErrorCode.NOT_CONTROLLER, str(error)) from error
        raise ApiError(ErrorCode.NOT_CONTROLLER, "there is no controller")
