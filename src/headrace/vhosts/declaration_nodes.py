"""The home of durable declarations: a node of the metadata store for each of them.

A node's name is a hash of the declaration's identity (`queues.model.stored_records`).
"""

import logging
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from headrace.model.errors import Malformed
from headrace.ports.store import Create, Delete, NodeExists, NoNode, Operation, Store
from headrace.queues.model.stored_model import Record
from headrace.queues.model.stored_records import decode_record

_logger = logging.getLogger(__name__)

ROOT = "/headrace-amqp"
DECLARATIONS = f"{ROOT}/declarations"
"""The parent node of a node for each durable exchange, queue and binding of all vhosts."""
OPERATIONS_MAX = 500
"""Nodes that are written together at most."""


class Stored(NamedTuple):
    """The durable declarations as they were read."""

    nodes: list[str]
    records: dict[str, list[Record]]
    """The records of each vhost."""
    all_read: bool
    """False: some nodes could not be read, so their queues are unknown."""


class DeclarationNodes:
    """The nodes of durable declarations. Every method may raise StoreError."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def read(self) -> Stored:
        """Return all stored declarations; an unreadable node is logged and left unchanged."""
        for path in (ROOT, DECLARATIONS):
            with suppress(NodeExists):
                await self._store.create(path, b"")
        names = await self._store.children(DECLARATIONS)
        nodes = await self._store.get_all([_path(name) for name in names])
        found = Stored([], {}, True)
        for name, node in zip(names, nodes, strict=True):
            if node is None:
                continue
            found.nodes.append(name)
            try:
                vhost, record = decode_record(node.value)
            except Malformed as error:
                found = found._replace(all_read=False)
                _logger.error(
                    "the AMQP declaration in node %s/%s is malformed and not restored: %s. Messages"
                    " of its queue stay on disk", DECLARATIONS, name, error,
                )  # fmt: skip
                continue
            found.records.setdefault(vhost, []).append(record)
        return found

    async def add(self, nodes: dict[str, bytes]) -> None:
        """Create nodes with their contents; nodes that were created leave `nodes`."""
        await self._write(nodes, lambda node: Create(_path(node), nodes[node]))

    async def remove(self, nodes: dict[str, None]) -> None:
        """Delete nodes; nodes that were deleted leave `nodes`."""
        await self._write(nodes, lambda node: Delete(_path(node)))

    async def _write(
        self, nodes: dict[str, None] | dict[str, bytes], operation: Callable[[str], Operation]
    ) -> None:
        """Write nodes, `OPERATIONS_MAX` in a transaction."""
        while nodes:
            some = list(nodes)[:OPERATIONS_MAX]
            try:
                await self._store.multi([operation(node) for node in some])
            except (NoNode, NodeExists):
                # Written by a round that failed after this step.
                for node in some:
                    with suppress(NoNode, NodeExists):
                        await self._store.multi([operation(node)])
            for node in some:
                del nodes[node]


def _path(node: str) -> str:
    return f"{DECLARATIONS}/{node}"
