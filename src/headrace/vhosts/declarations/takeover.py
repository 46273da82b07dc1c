"""Takeover of the declarations that earlier versions stored: nodes of the metadata store.

    1  the node `moved` is created, before the log's topic is
    2  each declaration of a node that the log lacks is appended and committed
    3  the nodes are deleted

Each step can be repeated, so a kill between two loses nothing. Earlier versions cannot decode
`moved`, so they delete no topic of a queue that is declared in the log alone. A node that such a
version wrote later is newer than the log, and is taken over again.
"""

import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from headrace.model.errors import Malformed
from headrace.model.protocols import AMQP
from headrace.ports.store import Delete, NodeExists, NoNode, Store
from headrace.queues.model.stored_model import Record
from headrace.queues.model.stored_records import decode_record, record_key
from headrace.vhosts.declarations.declaration_log import DeclarationLog
from headrace.vhosts.declarations.stored_changes import Change, Loaded

_logger = logging.getLogger(__name__)

DECLARATIONS = AMQP.former_nodes
"""The parent node of a node for each durable exchange, queue and binding of all vhosts."""
MOVED = "moved"
"""The name of the node that says that declarations are in the log."""
OPERATIONS_MAX = 500
"""Nodes that are deleted together at most."""


class Found(NamedTuple):
    """A declaration that was found in a node."""

    node: str
    vhost: str
    record: Record
    content: bytes


class DeclarationNodes:
    """The nodes of durable declarations. Every method may raise StoreError."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def mark_moved(self) -> None:
        """Create the node `moved` if it is missing."""
        with suppress(NodeExists):
            # Without content, so `headrace cluster migrate` does not count it as a declaration.
            await self._store.create(_path(MOVED), b"", parents=True)

    async def read(self) -> tuple[list[Found], bool]:
        """Return all declarations, and whether all nodes could be read; the others are logged."""
        try:
            names = await self._store.children(DECLARATIONS)
        except NoNode:
            return [], True
        names = [name for name in names if name != MOVED]
        nodes = await self._store.get_all([_path(name) for name in names])
        found: list[Found] = []
        all_read = True
        for name, node in zip(names, nodes, strict=True):
            if node is None:
                continue
            try:
                found.append(Found(name, *decode_record(node.value), node.value))
            except Malformed as error:
                all_read = False
                _logger.error(
                    "the AMQP declaration in node %s/%s is malformed and not restored: %s. Messages"
                    " of its queue stay on disk", DECLARATIONS, name, error,
                )  # fmt: skip
        return found, all_read

    async def delete(self, names: Sequence[str]) -> None:
        """Delete nodes, `OPERATIONS_MAX` in a transaction."""
        for at in range(0, len(names), OPERATIONS_MAX):
            some = names[at : at + OPERATIONS_MAX]
            await self._store.multi([Delete(_path(name)) for name in some])


async def take_over(nodes: DeclarationNodes, log: DeclarationLog, loaded: Loaded) -> Loaded:
    """Move the declarations of nodes to the log; return `loaded` with them.

    Raises StoreError and ApiError.
    """
    found, all_read = await nodes.read()
    if found:
        await nodes.mark_moved()
        new: dict[bytes, Change] = {}
        for _, vhost, record, content in found:
            key = record_key(vhost, record)
            if loaded.records.get(key) != (vhost, record):
                new[key] = Change(vhost, content)
                loaded.records[key] = vhost, record
        await log.append(new)
        await nodes.delete([each.node for each in found])
        _logger.info("%d AMQP declarations were moved from the metadata store", len(found))
    return loaded._replace(
        all_read=loaded.all_read and all_read, is_empty=loaded.is_empty and not found
    )


def _path(node: str) -> str:
    return f"{DECLARATIONS}/{node}"
