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
    return f"headrace-{number}@{_host(broker, number)}"


def node_number(broker: "Broker", name: object) -> int | None:
    """Return the id of the cluster's broker that a node's name means; None: it means no broker.

    `rabbit@HOST` means the broker with that host, if there is one such broker.
    """
    numbers = [int(number) for number in broker.image.brokers]
    found = [each for each in numbers if name == node_name(broker, each)]
    found = found or [each for each in numbers if name == f"rabbit@{_host(broker, each)}"]
    return found[0] if len(found) == 1 else None


def _host(broker: "Broker", number: int) -> str:
    known = broker.image.brokers.get(BrokerId(number))
    return known.endpoints[0].host if known is not None and known.endpoints else "localhost"


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
