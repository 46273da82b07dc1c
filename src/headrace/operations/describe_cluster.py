"""The cluster as this broker's metadata image has it: id, controller, brokers, their addresses."""

from typing import TYPE_CHECKING, NamedTuple

from headrace.operations.permissions import AdminOperation, Caller, require

if TYPE_CHECKING:
    from headrace.broker.broker import Broker
    from headrace.broker.metadata_image import Endpoint
    from headrace.model.nouns import BrokerId


class BrokerDescription(NamedTuple):
    """A registered broker."""

    broker_id: "BrokerId"
    rack: str | None
    endpoints: "tuple[Endpoint, ...]"
    """Its advertised addresses; of one listener where the caller asked for that one."""


class ClusterDescription(NamedTuple):
    """The cluster."""

    cluster_id: str
    controller_id: "BrokerId"
    """-1 while there is no controller."""
    brokers: tuple[BrokerDescription, ...]


def describe_cluster(
    broker: "Broker", caller: Caller, *, listener: str | None = None
) -> ClusterDescription:
    """Return the cluster's description. ApiError: the caller may not.

    `listener`: only the brokers that are reached by it, with that address; None: all of both.
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
