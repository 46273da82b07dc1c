"""Questions of coordinators to other brokers: each kind's conversations begin when first needed."""

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
    """Questions of coordinators to other brokers. On the deciding thread.

    Implements `coordination.coordinators.Others`.
    """

    def __init__(self, broker: Broker, listener: str, clients: PeerClients, run: Run) -> None:
        """`listener`: by which brokers reach each other. `run` runs a conversation."""
        self._broker = broker
        self._listener = listener
        self._clients = clients
        self._run = run

    @cached_property
    def transactions(self) -> "RemoteTransactions":
        """Markers for partitions led elsewhere, and transactions coordinated there."""
        from headrace.cluster.peers.remote_transactions import RemoteTransactions

        return RemoteTransactions(self._broker, self._listener, self._clients, self._run)

    @cached_property
    def share_states(self) -> "RemoteShareStates":
        """State of share groups that they store."""
        from headrace.cluster.peers.remote_share_states import RemoteShareStates

        return RemoteShareStates(self._broker, self._listener, self._clients, self._run)

    @cached_property
    def log_ends(self) -> "RemoteLogEnds":
        """High watermarks of partitions that they lead."""
        from headrace.cluster.peers.remote_log_ends import RemoteLogEnds

        return RemoteLogEnds(self._broker, self._listener, self._clients, self._run)

    def close(self) -> None:
        """Ask nothing more; each asker without an answer is told so."""
        made = vars(self)
        if "transactions" in made:
            self.transactions.close()
        if "share_states" in made:
            self.share_states.close()
        if "log_ends" in made:
            self.log_ends.close()
