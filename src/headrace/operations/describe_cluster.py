"""DescribeCluster from this broker's metadata image: cluster id, controller, brokers, addresses."""

from typing import TYPE_CHECKING, NamedTuple

from headrace.operations.permissions import AdminOperation, Caller, require

if TYPE_CHECKING:
    from headrace.broker.broker import Broker
    from headrace.broker.metadata_image import Endpoint
    from headrace.model.nouns import BrokerId


class BrokerDescription(NamedTuple):
    """A registered broker and its advertised addresses."""

    broker_id: "BrokerId"
    rack: str | None
    endpoints: "tuple[Endpoint, ...]"
    """The advertised addresses; only that of the listener, if the caller named one."""


class ClusterDescription(NamedTuple):
    """Cluster id, controller and registered brokers."""

    cluster_id: str
    controller_id: "BrokerId"
    """-1 while there is no controller."""
    brokers: tuple[BrokerDescription, ...]


def describe_cluster(
    broker: "Broker", caller: Caller, *, listener: str | None = None
) -> ClusterDescription:
    """Return the cluster's id, controller and brokers. ApiError: the caller is not authorized.

    `listener`: return only brokers with that listener, and only its address; None returns every
    broker with all of its addresses.
    """
    require(broker, caller, AdminOperation.DESCRIBE_CLUSTER)
    image = broker.image
    found = []
    for info in image.brokers.values():
        endpoints = info.endpoints
        if listener is not None:
            endpoint = image.endpoint(info, listener)
            if endpoint is None:
                continue
            endpoints = (endpoint,)
        found.append(BrokerDescription(info.broker_id, info.rack, endpoints))
    return ClusterDescription(image.cluster_id, image.controller_id, tuple(found))
