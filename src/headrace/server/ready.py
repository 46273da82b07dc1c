"""The conditions of `/ready`: whether the next broker of a rolling restart may be stopped."""

from typing import TYPE_CHECKING

from headrace.client.transport.port import ClientError
from headrace.frontends.http import readiness
from headrace.model.errors import ApiError

if TYPE_CHECKING:
    from headrace.broker.broker import Broker
    from headrace.cluster.controller.controller import Controller
    from headrace.server.cluster.cluster_links import ClusterLinks


async def awaited(
    broker: "Broker", controller: "Controller", links: "ClusterLinks | None"
) -> list[str]:
    """Return what this broker still waits for, one line each; empty: the next one may be stopped.

    Adds to `readiness.awaited` the session with the metadata store and an answer of the controller.
    `links`: None outside of a cluster.
    """
    lines = readiness.awaited(broker)
    if links is None:
        return lines
    if missing := controller.known.missing():
        return [*missing, *lines]
    try:
        await links.link.reach()
    except (ApiError, ClientError) as error:
        return [f"broker {controller.known.id}, the controller, does not answer: {error}", *lines]
    return lines
