"""What coordinators ask of other brokers: each kind's way is made when it is first needed."""

from functools import cached_property
from typing import TYPE_CHECKING

from headrace.broker.broker import Broker
from headrace.client.transport.peer_clients import PeerClients
from headrace.cluster.other_brokers.gathered_questions import Run

if TYPE_CHECKING:
    from headrace.cluster.other_brokers.log_ends import RemoteLogEnds
    from headrace.cluster.other_brokers.share_states import RemoteShareStates
    from headrace.cluster.other_brokers.transactions import RemoteTransactions


class AskingOthers:
    """`coordination.coordinators.Others`. On the deciding thread."""

    def __init__(self, broker: Broker, listener: str, clients: PeerClients, run: Run) -> None:
        """`listener`: by which brokers reach each other. `run` runs a conversation."""
        self._broker = broker
        self._listener = listener
        self._clients = clients
        self._run = run

    @cached_property
    def transactions(self) -> "RemoteTransactions":
        """Markers of those who lead partitions, and partitions of those who coordinate."""
        from headrace.cluster.other_brokers.transactions import RemoteTransactions

        return RemoteTransactions(self._broker, self._listener, self._clients, self._run)

    @cached_property
    def share_states(self) -> "RemoteShareStates":
        """Share groups' state that they keep."""
        from headrace.cluster.other_brokers.share_states import RemoteShareStates

        return RemoteShareStates(self._broker, self._listener, self._clients, self._run)

    @cached_property
    def log_ends(self) -> "RemoteLogEnds":
        """How far partitions are committed that they lead."""
        from headrace.cluster.other_brokers.log_ends import RemoteLogEnds

        return RemoteLogEnds(self._broker, self._listener, self._clients, self._run)

    def close(self) -> None:
        """Ask nothing more; who waits is told so."""
        made = vars(self)
        if "transactions" in made:
            self.transactions.close()
        if "share_states" in made:
            self.share_states.close()
        if "log_ends" in made:
            self.log_ends.close()
