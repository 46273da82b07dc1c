"""Migration: copy the metadata of a single broker from its own store into a shared one.

Both have Kafka's znodes, so these are copied unchanged: topics with ids, states with leader epochs,
the controller epoch, settings, the last block of producer ids. A marker node exists until the copy
is complete: no broker starts on an incomplete copy, and an interrupted one is continued (ADR 26).
"""

import asyncio
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from headrace.cluster.store import znodes
from headrace.cluster.store.znodes import BadPayload
from headrace.model.errors import ConfigError
from headrace.model.nouns import BrokerId
from headrace.ports.store import (
    Create,
    Delete,
    NodeExists,
    NoNode,
    Operation,
    Set,
    Store,
)

OPERATIONS_PER_MULTI = 500
BATCH_BYTES_MAX = 500_000
"""Bytes of paths and values in one transaction; ZooKeeper refuses more than 1 MiB."""

Nodes = Mapping[str, bytes]
"""Node values by path."""


class Migrant(NamedTuple):
    """The cluster and broker whose metadata are copied."""

    cluster_id: str
    broker: BrokerId


class Present(NamedTuple):
    """The content of the store that is to receive the metadata."""

    begun: Migrant | None
    """The migration into it that has begun and not ended; None: there was no such one."""
    cluster_id: str | None
    roots: tuple[str, ...]
    """Top-level nodes of Kafka that exist in it."""


async def read_tree(store: Store, roots: Collection[str] | None = None) -> dict[str, bytes]:
    """Return all persistent nodes at and below `roots`; None: of the whole store."""
    if roots is None:
        roots = [f"/{name}" for name in await store.children("/")]
    found: dict[str, bytes] = {}
    level = sorted(roots)
    while level:
        nodes = zip(level, await store.get_all(level), strict=True)
        here = {path: node.value for path, node in nodes if node is not None and not node.owner}
        found |= here
        names = await asyncio.gather(*(store.children(path) for path in here))
        level = [
            f"{path}/{name}" for path, below in zip(here, names, strict=True) for name in below
        ]
    return found


async def present(store: Store) -> Present:
    """Return the content of the store that is to receive the metadata. Raises BadPayload."""
    try:
        there = {f"/{name}" for name in await store.children("/")}
    except NoNode:  # its chroot is not made yet
        return Present(None, None, ())
    begun, cluster = await store.get_all([znodes.MIGRATION, znodes.CLUSTER_ID])
    return Present(
        None if begun is None else decode_migrant(begun.value),
        None if cluster is None else znodes.decode_cluster_id(cluster.value),
        tuple(sorted(there & _roots())),
    )


def check(found: Present, migrant: Migrant) -> None:
    """Raise ConfigError if the store has a cluster, or the migration of another broker."""
    if found.begun is not None and found.begun != migrant:
        raise ConfigError(
            f"zookeeper.connect: broker {found.begun.broker} of cluster {found.begun.cluster_id} is"
            " being brought there, and that has not ended: end it from its log directory, or name"
            " another chroot"
        )
    if found.begun is None and found.roots:
        whose = f"cluster {found.cluster_id}" if found.cluster_id else ", ".join(found.roots)
        raise ConfigError(
            f"zookeeper.connect: {whose} is there already: name a chroot that nobody uses, as"
            " host:port/name; a broker that is to join that cluster starts with a new directory"
        )


async def begin(store: Store, found: Present, migrant: Migrant) -> None:
    """Create the marker node. ConfigError: another migration was faster."""
    if found.begun is not None:
        return
    try:
        await store.multi(
            [
                Create(znodes.MIGRATION, encode_migrant(migrant)),
                Create(znodes.CLUSTER_ID.rpartition("/")[0], b""),
                Create(znodes.CLUSTER_ID, znodes.encode_cluster_id(migrant.cluster_id)),
            ]
        )
    except NodeExists:
        check(await present(store), migrant)
        raise


async def bring(store: Store, wanted: Nodes) -> list[Operation]:
    """Make the store hold exactly `wanted`; return the operations that this took."""
    operations = await differences(store, wanted)
    for batch in batches(operations):
        await store.multi(batch)
    return operations


async def differences(store: Store, wanted: Nodes) -> list[Operation]:
    """Return the operations after which the store holds exactly `wanted`."""
    there = await present(store)
    return plan(wanted, await read_tree(store, there.roots))


async def end(store: Store) -> None:
    """Delete the marker node, so that brokers can start."""
    await store.delete(znodes.MIGRATION)


def plan(wanted: Nodes, found: Nodes) -> list[Operation]:
    """Return operations from `found` to `wanted`: delete children first, create parents first."""
    operations: list[Operation] = [
        Delete(path) for path in sorted(found, reverse=True) if path not in wanted
    ]
    operations += [Create(path, wanted[path]) for path in sorted(wanted) if path not in found]
    operations += [
        Set(path, wanted[path])
        for path in sorted(wanted)
        if path in found and found[path] != wanted[path]
    ]
    return operations


def batches(operations: Sequence[Operation]) -> Iterator[list[Operation]]:
    """Yield the operations in order, in groups that fit into one transaction of the store."""
    batch: list[Operation] = []
    size = 0
    for operation in operations:
        value = operation.value if isinstance(operation, Create | Set) else b""
        added = len(operation.path.encode()) + len(value)
        if batch and (len(batch) == OPERATIONS_PER_MULTI or size + added > BATCH_BYTES_MAX):
            yield batch
            batch, size = [], 0
        batch.append(operation)
        size += added
    if batch:
        yield batch


def encode_migrant(migrant: Migrant) -> bytes:
    """Encode the content of the marker node."""
    fields = {"version": 1, "cluster_id": migrant.cluster_id, "broker": migrant.broker}
    return json.dumps(fields, separators=(",", ":")).encode()


def decode_migrant(value: bytes) -> Migrant:
    """Decode the content of the marker node. Raises BadPayload."""
    try:
        payload = json.loads(value)
        return Migrant(str(payload["cluster_id"]), BrokerId(int(payload["broker"])))
    except znodes.NONSENSE as error:
        raise BadPayload(f"{znodes.MIGRATION}: {error!r} in {value[:200]!r}") from error


def _roots() -> set[str]:
    """Return the top-level nodes of a cluster."""
    paths = (*znodes.ROOTS, znodes.CLUSTER_ID, znodes.CONTROLLER, znodes.CONTROLLER_EPOCH)
    return {"/" + path.split("/")[1] for path in (*paths, znodes.FEATURE, znodes.REASSIGNMENTS)}
