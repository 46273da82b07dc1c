"""Checks after each step of a simulation that two brokers do not deliver the same queue at once."""

from typing import TYPE_CHECKING

from headrace.queues.engine.hosted_queue import HostedQueue
from headrace.queues.engine.virtual_hosts import VirtualHosts
from headrace.testing.sim.cluster import SimCluster
from headrace.testing.sim.history import Broken

if TYPE_CHECKING:
    from headrace.queues.engine.delivery_turns import DeliveryTurns
    from headrace.server.assembly import Server

VHOST = "/"


class DeliveryWatch:
    """Notes the broker of each delivery of a durable queue, and asks the other brokers.

    A broker may deliver a queue that it hosts and that is not paused. Its rights are checked first,
    as by its next turn: its timers may be late. A process that stands still delivers nothing.
    """

    def __init__(self, cluster: SimCluster) -> None:
        """Watch all brokers from now on, in addition to what is called after each step already."""
        self.delivered = 0
        """Number of batches that were looked at."""
        self._cluster = cluster
        self._known: dict[Server, VirtualHosts] = {}
        """The vhosts of all processes so far."""
        self._batches: dict[DeliveryTurns, int] = {}
        """How many batches of each broker were looked at."""
        self._former = cluster.loop.after_step
        cluster.loop.after_step = self.look

    def look(self) -> None:
        """Check the queues that have delivered since the last call. Raises Broken."""
        if self._former is not None:
            self._former()
        for number, server in self._cluster._processes.items():
            hosts = self._known.get(server) or self._hosts_of(server)
            if hosts is None:
                continue
            turns, seen = hosts.turns, self._batches.get(hosts.turns, 0)
            if turns._batches == seen:
                continue
            self._batches[turns] = turns._batches
            for queue in tuple(hosts.hosts[VHOST].queues.values()):
                if isinstance(queue, HostedQueue) and queue.last_batch > seen and queue.late_stores:
                    self._delivered(number, queue.name)

    def _hosts_of(self, server: "Server") -> VirtualHosts | None:
        """Return the vhosts of a broker; None: it has not begun to serve them."""
        links = getattr(server, "cluster_links", None)
        cluster = None if links is None else links.queue_cluster
        hosts: VirtualHosts | None = getattr(cluster, "_hosts", None)
        if hosts is not None:
            self._known[server] = hosts
        return hosts

    def _delivered(self, number: int, name: str) -> None:
        self.delivered += 1
        others = [
            other
            for other, server in self._cluster._processes.items()
            if other != number
            and not self._cluster.world(other).paused
            and server in self._known
            and _may_deliver(self._known[server], name)
        ]
        if others:
            raise Broken(f"ADR 78: broker {number} delivers {name!r}, and {others} may, too")


def _may_deliver(hosts: VirtualHosts, name: str) -> bool:
    queue = hosts.hosts[VHOST].queues.get(name)
    if not isinstance(queue, HostedQueue) or queue.deleted or not queue.late_stores:
        return False
    if hosts.turns.leadership is not None:
        hosts.turns.leadership.check()
    return not queue.paused
