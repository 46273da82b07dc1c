"""The keys of all objects of one kind, read in slices of 1,000, once declarations are loaded."""

import asyncio
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING

from headrace.model.errors import ApiError, ErrorCode
from headrace.queues.queue_names import DECLARATIONS_TOPIC

if TYPE_CHECKING:
    from headrace.frontends.amqp.queue_broker import QueueBroker
    from headrace.operations.views import Named
    from headrace.queues.engine.queue_host import QueueHost

SLICE = 1000
"""Keys made between two turns of the loop, in 0.1 ms."""


def check_loaded(queues: "QueueBroker", vhost: str) -> None:
    """Raise ApiError if this broker does not know all objects of a vhost yet.

    A client that is told that there are none would make them again.
    """
    declarations = queues.declarations
    if declarations is not None and not declarations.has_loaded(vhost):
        text = (
            f"the declarations of vhost '{vhost}' are not loaded: try again later. Brokers that"
            f" have replicas of {DECLARATIONS_TOPIC} must run"
        )
        raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, text)


async def named(
    queues: "QueueBroker",
    vhosts: Collection[str],
    names_of: "Callable[[QueueHost], Iterable[str]]",
) -> "list[Named]":
    """Return virtual host and name of all objects of one kind, with pauses. Raises ApiError."""
    found: list[Named] = []
    for vhost in vhosts:
        check_loaded(queues, vhost)
        host = queues.virtual_hosts.hosts.get(vhost)
        names = [] if host is None else list(names_of(host))
        for begin in range(0, len(names), SLICE):
            found += [(vhost, name) for name in names[begin : begin + SLICE]]
            await asyncio.sleep(0)
    return found
