"""The broker that answers: names and versions."""

from typing import TYPE_CHECKING

from headrace import __version__
from headrace.management.lists.columns import columns_of, of_object
from headrace.management.requests.request import ManagementReply, ManagementRequest

if TYPE_CHECKING:
    from headrace.broker.broker import Broker

RABBITMQ_VERSION = "4.3.6"
"""The version of RabbitMQ whose management API is answered, which clients adapt to."""


def node_name(broker: "Broker") -> str:
    """Return the name of a broker as a node: `headrace-ID@HOST`, with the advertised host."""
    known = broker.image.brokers.get(broker.broker_id)
    host = known.endpoints[0].host if known is not None and known.endpoints else "localhost"
    return f"headrace-{broker.broker_id}@{host}"


async def overview(request: ManagementRequest) -> ManagementReply:
    """Answer the names and versions of the broker."""
    found = {
        "management_version": RABBITMQ_VERSION,
        "rabbitmq_version": RABBITMQ_VERSION,
        "product_name": "Headrace",
        "product_version": __version__,
        "node": node_name(request.services.broker),
    }
    return ManagementReply(200, of_object(found, columns_of(request.query)))


async def version(_: ManagementRequest) -> ManagementReply:
    """Answer the version of RabbitMQ whose API this is."""
    return ManagementReply(200, RABBITMQ_VERSION)


async def extensions(_: ManagementRequest) -> ManagementReply:
    """Answer RabbitMQ's list of extensions of its pages: that of the API itself."""
    return ManagementReply(200, [{"javascript": "dispatcher.js"}])
