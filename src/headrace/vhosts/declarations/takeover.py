"""Takeover of the declarations that earlier versions stored: nodes of the metadata store.

    1  the node `moved` is created, before the log's topic is
    2  each declaration of a node that the log lacks is appended and committed
    3  the nodes are deleted

Each step can be repeated, so a kill between two loses nothing. Earlier versions cannot decode
`moved`, so they delete no topic of a queue that is declared in the log alone. A node that such a
version wrote later is newer than the log, and is taken over again.

In a cluster each coordinator appends the declarations of its vhosts (`ClusterTakeover`).
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from headrace.model.errors import ApiError, Malformed
from headrace.model.protocols import AMQP
from headrace.ports.store import Delete, NodeExists, NoNode, Store, StoreError
from headrace.queues.model.stored_model import Record
from headrace.queues.model.stored_records import decode_record, record_key
from headrace.vhosts.declarations.declaration_log import DeclarationLog
from headrace.vhosts.declarations.stored_changes import Change, Loaded

if TYPE_CHECKING:
    from headrace.shards.journal import KeyValue
    from headrace.vhosts.declarations.followed_table import FollowedTable, Held

_logger = logging.getLogger(__name__)

DECLARATIONS = AMQP.former_nodes
"""The parent node of a node for each durable exchange, queue and binding of all vhosts."""
MOVED = "moved"
"""The name of the node that says that declarations are in the log."""
OPERATIONS_MAX = 500
"""Nodes that are deleted together at most."""
RETRY_SECONDS = 0.5
"""Seconds between two looks of a cluster's broker for nodes."""


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

    async def exist(self) -> bool:
        """Return whether there are nodes with declarations."""
        try:
            names = await self._store.children(DECLARATIONS)
        except NoNode:
            return False
        return any(name != MOVED for name in names)

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


AppendFound = Callable[[str, Sequence[Found]], Awaitable[bool]]
"""Appends declarations of a vhost as its coordinator; False: they are not committed."""


class ClusterTakeover:
    """The takeover of nodes by one broker of a cluster. On the event loop.

    Each broker takes over those of the vhosts that it coordinates, and waits until none is left.
    """

    def __init__(
        self, nodes: DeclarationNodes, create: Callable[[], Awaitable[object]], append: AppendFound
    ) -> None:
        """`create` creates the log's topic if it is missing; it raises ApiError or StoreError."""
        self._nodes = nodes
        self._create = create
        self._append = append
        self.is_done = False
        """Whether no node is left but those that are malformed."""

    async def run(self) -> None:
        """Take over until no node is left."""
        failed = ""
        while not self.is_done:
            try:
                self.is_done = await self._look()
            except (StoreError, ApiError) as error:
                if str(error) != failed:
                    failed = str(error)
                    _logger.warning(
                        "AMQP declarations in %s are not taken over, retrying: %s",
                        DECLARATIONS, error,
                    )  # fmt: skip
            if not self.is_done:
                await asyncio.sleep(RETRY_SECONDS)

    async def _look(self) -> bool:
        """Take over what this broker coordinates; return whether nothing was left to take."""
        if not await self._nodes.exist():
            return True
        found, _ = await self._nodes.read()
        if not found:
            return True
        await self._create()
        by_vhost: dict[str, list[Found]] = {}
        for each in found:
            by_vhost.setdefault(each.vhost, []).append(each)
        for vhost, of_vhost in by_vhost.items():
            for at in range(0, len(of_vhost), OPERATIONS_MAX):
                await self._take(vhost, of_vhost[at : at + OPERATIONS_MAX])
        return False

    async def _take(self, vhost: str, found: Sequence[Found]) -> None:
        if await self._append(vhost, found):
            await self._nodes.delete([each.node for each in found])
            _logger.info(
                "%d AMQP declarations of vhost %r were moved from the metadata store",
                len(found), vhost,
            )  # fmt: skip


def apply_found(table: "FollowedTable", held: "Held", found: Sequence[Found]) -> "list[KeyValue]":
    """Apply declarations of nodes to a coordinator's table, held until they are committed.

    Return the records that the log lacks. It gets those that are refused, too, as on a single
    broker: a node that stayed would keep all brokers from serving AMQP.
    """
    records: list[KeyValue] = []
    for node, vhost, record, content in found:
        key = record_key(vhost, record)
        if table.records.get(key) == (vhost, record):
            continue
        records.append((key, content))
        try:
            table.take_held(held, key, content)
        except Malformed as error:
            _logger.error(
                "the declaration in node %s of vhost %r is not restored: %s. Messages of a queue"
                " stay on disk", node, vhost, error,
            )  # fmt: skip
    return records


def _path(node: str) -> str:
    return f"{DECLARATIONS}/{node}"
