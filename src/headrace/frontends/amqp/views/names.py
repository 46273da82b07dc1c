"""Objects of one kind, once declarations are loaded: all keys in slices of 1,000, or one object."""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, TypeVar

from headrace.model.errors import ApiError, ErrorCode
from headrace.queues.queue_names import DECLARATIONS_TOPIC

if TYPE_CHECKING:
    from headrace.frontends.amqp.queue_broker import QueueBroker
    from headrace.operations.views import Named
    from headrace.queues.engine.queue_host import QueueHost

K = TypeVar("K")
T = TypeVar("T")

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


def existing(
    queues: "QueueBroker", vhost: str, objects_of: "Callable[[QueueHost], Mapping[K, T]]", key: K
) -> "tuple[QueueHost, T] | None":
    """Return a virtual host and an object of it; None: the object does not exist.

    Raises ApiError if there may be one that is not loaded yet.
    """
    host = queues.virtual_hosts.hosts.get(vhost)
    found = None if host is None else objects_of(host).get(key)
    if host is None or found is None:
        check_loaded(queues, vhost)
        return None
    return host, found


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
