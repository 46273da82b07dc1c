"""`CoordinatorPeers`: the coordinators' requests to other brokers, created on first use."""

from functools import cached_property
from typing import TYPE_CHECKING

from headrace.broker.broker import Broker
from headrace.client.transport.peer_clients import PeerClients
from headrace.cluster.peers.conversation import Run

if TYPE_CHECKING:
    from headrace.cluster.peers.remote_log_ends import RemoteLogEnds
    from headrace.cluster.peers.remote_share_states import RemoteShareStates
    from headrace.cluster.peers.remote_transactions import RemoteTransactions


class CoordinatorPeers:
    """Requests of the coordinators to other brokers. On the deciding thread.

    Implements `coordination.coordinators.Others`.
    """

    def __init__(self, broker: Broker, listener: str, clients: PeerClients, run: Run) -> None:
        """Create without connections.

        `listener`: name of the inter-broker listener. `run` starts a task on the event loop.
        """
        self._broker = broker
        self._listener = listener
        self._clients = clients
        self._run = run

    @cached_property
    def transactions(self) -> "RemoteTransactions":
        """Requests to write markers, and requests to transaction coordinators, on other brokers."""
        from headrace.cluster.peers.remote_transactions import RemoteTransactions

        return RemoteTransactions(self._broker, self._listener, self._clients, self._run)

    @cached_property
    def share_states(self) -> "RemoteShareStates":
        """Requests for share-group state that other brokers store."""
        from headrace.cluster.peers.remote_share_states import RemoteShareStates

        return RemoteShareStates(self._broker, self._listener, self._clients, self._run)

    @cached_property
    def log_ends(self) -> "RemoteLogEnds":
        """Requests for high watermarks of partitions that other brokers lead."""
        from headrace.cluster.peers.remote_log_ends import RemoteLogEnds

        return RemoteLogEnds(self._broker, self._listener, self._clients, self._run)

    def close(self) -> None:
        """Close what was created; each request without an answer ends with an error."""
        made = vars(self)
        if "transactions" in made:
            self.transactions.close()
        if "share_states" in made:
            self.share_states.close()
        if "log_ends" in made:
            self.log_ends.close()
