"""Checks that a request comes from a broker of the cluster."""

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
    """Return the listeners by which brokers and the controller reach each other."""
    names = (config.inter_broker_listener_name, config.control_plane_listener_name)
    return frozenset(filter(None, names))


def from_broker(context: "RequestContext") -> bool:
    """Tell whether a request comes by a listener for brokers, with CLUSTER_ACTION.

    A broker without others has no such listener: only the permission is checked.
    """
    listeners = context.shared.broker_listeners
    if listeners is not None and context.identity.listener not in listeners:
        return False
    return permits(context, CLUSTER_ACTION)


def require_broker(context: "RequestContext") -> None:
    """Raise ApiError CLUSTER_AUTHORIZATION_FAILED unless a broker may have sent the request."""
    if not from_broker(context):
        raise authorization_failed(CLUSTER_ACTION.kind)


def may_be_replica(context: "RequestContext", replica_id: int) -> bool:
    """Tell whether the client may fetch as broker `replica_id`, also uncommitted records.

    `replica_id` must be another registered broker, and the request must come from a broker
    (CVE-2018-1288: a follower's fetches move the high watermark).
    """
    broker = context.broker
    if replica_id == broker.broker_id or replica_id not in broker.image.brokers:
        return False
    return from_broker(context)
