"""Brokers of a simulated cluster with AMQP listeners, which serve one set of vhosts."""

from typing import TYPE_CHECKING

from headrace.frontends.amqp.connection.session import AmqpFrontend
from headrace.testing.sim.cluster import SimCluster

if TYPE_CHECKING:
    from headrace.server.assembly import Server
    from headrace.server.cluster.queue_cluster import QueueCluster

PORT = 5672


def serve_amqp(cluster: SimCluster) -> None:
    """Have all brokers that start from now on listen for clients of AMQP."""
    cluster.listeners = (f"AMQP://:{PORT}",)


def queue_cluster_of(server: "Server") -> "QueueCluster":
    """Return a broker's part in the queues of the cluster."""
    links = server.cluster_links
    assert links is not None
    assert links.queue_cluster is not None
    return links.queue_cluster


def frontend_of(server: "Server") -> AmqpFrontend:
    """Return a broker's frontend for AMQP."""
    (found,) = server.frontends._others
    assert isinstance(found, AmqpFrontend)
    return found
