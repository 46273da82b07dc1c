"""Who is believed to be a broker of the cluster."""

from typing import TYPE_CHECKING

from headrace.frontends.kafka.authentication.authorisation import (
    CLUSTER_ACTION,
    authorization_failed,
    permits,
)

if TYPE_CHECKING:
    from headrace.config.broker import BrokerConfig
    from headrace.frontends.kafka.connection.handler import RequestContext


def listeners_for_brokers(config: "BrokerConfig") -> frozenset[str]:
    """Return the listeners by which brokers of a cluster, and its controller, reach each other."""
    names = (config.inter_broker_listener_name, config.control_plane_listener_name)
    return frozenset(filter(None, names))


def from_broker(context: "RequestContext") -> bool:
    """Tell whether who asks may be a broker: it came by a listener for brokers, and may act so.

    A broker without others has no such listener: there the permission alone is asked for.
    """
    listeners = context.shared.broker_listeners
    if listeners is not None and context.identity.listener not in listeners:
        return False
    return permits(context, CLUSTER_ACTION)


def require_broker(context: "RequestContext") -> None:
    """Raise CLUSTER_AUTHORIZATION_FAILED where who asks cannot be a broker. ApiError."""
    if not from_broker(context):
        raise authorization_failed(CLUSTER_ACTION.kind)


def may_be_replica(context: "RequestContext", replica_id: int) -> bool:
    """Tell whether who asks may be the broker `replica_id`, and read what is not committed yet.

    It is another registered broker, and who asks may act for the cluster (CVE-2018-1288: whoever
    says that he is a follower moves the high watermark).
    """
    broker = context.broker
    if replica_id == broker.broker_id or replica_id not in broker.image.brokers:
        return False
    return from_broker(context)
