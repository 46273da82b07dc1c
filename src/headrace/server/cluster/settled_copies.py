"""`SettledCopies`: a broker's copies of queues' settled positions, led here and followed here."""

from headrace.broker.broker import Broker
from headrace.client.transport.peer_clients import PeerClients
from headrace.cluster.peers.conversation import Run
from headrace.copies.copying import Copying
from headrace.copies.settled_follower import SettledFollower
from headrace.queue_stores.log.settled_files import SettledFiles
from headrace.server.cluster.remote_copies import RemoteCopies


class SettledCopies:
    """The files of settled positions of a broker in a cluster, and their copies (ADR 77)."""

    def __init__(self, broker: Broker, listener: str, clients: PeerClients, run: Run) -> None:
        """Create without queues.

        `listener`: name of the inter-broker listener. `run` starts a task on the event loop.
        """
        self.files = SettledFiles(broker.disk, broker.clock)
        self.followed = SettledFollower(
            self.files, lambda at: broker.partitions.get(at) or broker.followed.get(at)
        )
        """The files of queues that other brokers lead."""
        self._remote = RemoteCopies(broker, listener, clients, run)
        self.copying = Copying(
            broker.broker_id, self.files, broker.clock, self._remote, self.followed
        )
        """The copies of queues that this broker leads."""

    def close(self) -> None:
        """Send nothing more and close all connections."""
        self.copying.close()
        self._remote.close()
