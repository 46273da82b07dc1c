"""`RemotePeers`: requests of one broker to others, with a conversation for each registration."""

from abc import ABC, abstractmethod
from functools import partial
from typing import Generic

from headrace.broker.broker import Broker
from headrace.client.transport.peer import Peer, fixed
from headrace.client.transport.peer_clients import PeerClients
from headrace.client.transport.port import Address
from headrace.cluster.peers.conversation import Run
from headrace.cluster.peers.registrations import C, RegisteredPeers
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import BrokerId
from headrace.ports.callbacks import Done


class RemotePeers(ABC, Generic[C]):
    """The conversations of one purpose with all other brokers. Called on the deciding thread."""

    def __init__(self, broker: Broker, listener: str, clients: PeerClients, run: Run) -> None:
        """Create without connections.

        `listener`: name of the inter-broker listener. `run` starts a task on the event loop.
        """
        self._broker = broker
        self._clients = clients
        self._run = run
        self._peers: RegisteredPeers[C] = RegisteredPeers(broker.image, listener, self._begin)

    def close(self) -> None:
        """Close all connections; each question without an answer ends with NETWORK_EXCEPTION."""
        self._peers.close()

    def _refuse(self, broker: BrokerId, done: Done[ApiError]) -> None:
        """Answer a question to a broker that is not registered with NETWORK_EXCEPTION.

        Later, as any other error: the caller may be about to note what it waits for.
        """
        error = ApiError(ErrorCode.NETWORK_EXCEPTION, f"broker {broker} is not registered")
        self._broker.clock.call_later(0, partial(done, error))

    @abstractmethod
    def _begin(self, address: Address) -> C:
        """Return a conversation with a registration of a broker, without a connection yet."""

    def _peer(self, address: Address, purpose: str, seconds: float | None = None) -> Peer:
        """Return a connection to be, whose requests fail after `seconds`; None: the default."""
        name = f"broker-{self._broker.broker_id}-{purpose}"
        if seconds is None:
            return Peer(self._clients.make(name), fixed(address))
        return Peer(self._clients.make(name, request_timeout_seconds=seconds), fixed(address))
