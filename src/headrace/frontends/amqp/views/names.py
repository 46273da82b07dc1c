"""The keys of all objects of one kind, read in slices of 1,000."""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.operations.views import Named
    from headrace.queues.engine.queue_host import QueueHost

SLICE = 1000
"""Keys made between two turns of the loop, in 0.1 ms."""


async def named(
    hosts: "Mapping[str, QueueHost]",
    vhosts: Collection[str],
    names_of: "Callable[[QueueHost], Iterable[str]]",
) -> "list[Named]":
    """Return virtual host and name of all objects of one kind, with pauses."""
    found: list[Named] = []
    for vhost in vhosts:
        host = hosts.get(vhost)
        names = [] if host is None else list(names_of(host))
        for begin in range(0, len(names), SLICE):
            found += [(vhost, name) for name in names[begin : begin + SLICE]]
            await asyncio.sleep(0)
    return found
