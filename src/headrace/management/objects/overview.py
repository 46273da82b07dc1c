"""The broker that answers: names and versions."""

from typing import TYPE_CHECKING

from headrace import __version__
from headrace.management.lists.columns import columns_of, of_object
from headrace.management.requests.request import ManagementReply, ManagementRequest
from headrace.model.nouns import BrokerId

if TYPE_CHECKING:
    from headrace.broker.broker import Broker

RABBITMQ_VERSION = "4.3.6"
"""The version of RabbitMQ whose management API is answered, which clients adapt to."""


def node_name(broker: "Broker", number: int | None = None) -> str:
    """Return a broker's name as a node: `headrace-ID@HOST`, with the advertised host.

    `number`: the id of another broker of the cluster; None: this one.
    """
    number = broker.broker_id if number is None else number
    known = broker.image.brokers.get(BrokerId(number))
    host = known.endpoints[0].host if known is not None and known.endpoints else "localhost"
    return f"headrace-{number}@{host}"


def is_node(broker: "Broker", name: object) -> bool:
    """Return whether a broker of the cluster has this name as a node."""
    return any(name == node_name(broker, number) for number in broker.image.brokers)


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
