"""Migration of a stopped broker's own metadata store (SQLite) into ZooKeeper.

A crash between any two steps is harmless (ADR 26), and running the migration again completes it:

1 ZooKeeper notes that a migration has begun; brokers do not start on it
2 all nodes are written
3 each log directory notes where its metadata are now
4 the SQLite file is renamed
5 the note in ZooKeeper is removed; brokers may start
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

from headrace.cluster.store import znodes
from headrace.config.broker import BrokerConfig
from headrace.log import file_names
from headrace.log.directory.log_directory import read_identity
from headrace.log.text_files import read_file
from headrace.model.errors import ConfigError
from headrace.model.nouns import BrokerId
from headrace.model.protocols import ROWS
from headrace.ports.disk import BrokerDisk
from headrace.ports.store import Operation, SessionEvents
from headrace.posix.store.embedded_store import EmbeddedStore
from headrace.server.cluster import store_migration
from headrace.server.cluster.store_migration import Migrant
from headrace.server.identity import zookeeper_of
from headrace.server.real_world import open_zookeeper


class Migrated(NamedTuple):
    """The result of a migration, or of a dry run."""

    migrant: Migrant
    nodes: dict[str, bytes]
    """All nodes that ZooKeeper holds afterwards, by path."""
    operations: Sequence[Operation]
    """The writes that were needed; empty if all was migrated before."""


async def migrate(config: BrokerConfig, disk: BrokerDisk, *, dry_run: bool = False) -> Migrated:
    """Copy the metadata of the broker of `config.log_dirs` into `config.zookeeper_connect`.

    `dry_run`: write nothing, neither there nor in the directories. ConfigError: the broker runs,
    the directories do not belong to one broker, an earlier version's nodes are not taken over yet,
    or ZooKeeper has another cluster. Raises StoreError.
    """
    connect = config.zookeeper_connect
    if connect is None:
        raise ConfigError("zookeeper.connect: name the ZooKeeper to bring the metadata into")
    path = _store_path(config, disk)
    with _locked(config, disk):
        migrant = _whose(config, disk)
        nodes = await _content(path, migrant)
        target = open_zookeeper(config, connect, SessionEvents(), make_chroot=not dry_run)
        try:
            found = await store_migration.present(target)
            left = path.endswith(file_names.METADATA_LEFT)
            if left and found.begun is None:
                _check_done(config, disk, found.cluster_id, migrant)
                return Migrated(migrant, nodes, ())
            store_migration.check(found, migrant)
            if found.begun is None:
                _check_taken_over(config, nodes)
            if dry_run:
                return Migrated(migrant, nodes, await store_migration.differences(target, nodes))
            await store_migration.begin(target, found, migrant)
            done = await store_migration.bring(target, nodes)
            _leave(config, disk, connect)
            await store_migration.end(target)
        finally:
            await target.close()
    return Migrated(migrant, nodes, done)


def _store_path(config: BrokerConfig, disk: BrokerDisk) -> str:
    """Return the path of the broker's SQLite file, renamed or not. ConfigError: it has no file."""
    first = config.log_dirs[0]
    for name in (file_names.METADATA, file_names.METADATA_LEFT):
        if disk.exists(f"{first}/{name}"):
            return f"{first}/{name}"
    raise ConfigError(
        f"log.dirs={first}: no broker of headrace serve has kept its metadata there"
        f" ({file_names.METADATA}): name its log directory. A directory of a Kafka with ZooKeeper"
        " needs no migration: start headrace serve on it with that zookeeper.connect"
    )


@contextmanager
def _locked(config: BrokerConfig, disk: BrokerDisk) -> Iterator[None]:
    """Hold the locks of all log directories.

    ConfigError: the broker runs, or a directory is missing.
    """
    with ExitStack() as undo:
        for path in config.log_dirs:
            if not disk.is_directory(path):
                raise ConfigError(f"log.dirs={path}: not there; name the directories it has")
            try:
                undo.callback(disk.lock(f"{path}/{file_names.LOCK}"))
            except BlockingIOError:
                raise ConfigError(
                    f"log.dirs={path}: its broker runs: stop it first, by headrace stop"
                    f" --log-dirs {','.join(config.log_dirs)}"
                ) from None
        yield


def _whose(config: BrokerConfig, disk: BrokerDisk) -> Migrant:
    """Return the cluster and broker that own the directories. ConfigError: none, or several."""
    found = [read_identity(disk, path) for path in config.log_dirs]
    known = {
        (identity.cluster_id, identity.broker_id) for identity in found if identity is not None
    }
    if len(known) != 1:
        named = ",".join(config.log_dirs)
        told = "no broker has claimed them" if not known else "they are not of one broker"
        raise ConfigError(f"log.dirs={named}: {told} ({file_names.META_PROPERTIES})")
    ((cluster_id, broker_id),) = known
    if config.broker_id not in (-1, broker_id):
        raise ConfigError(
            f"broker.id={config.broker_id}: the log directories belong to broker {broker_id}; leave"
            " it out, or set it to that"
        )
    return Migrant(cluster_id, BrokerId(broker_id))


async def _content(path: str, migrant: Migrant) -> dict[str, bytes]:
    """Return the nodes of the broker's own store. ConfigError: it belongs to another cluster."""
    source = EmbeddedStore(path)
    try:
        nodes = await store_migration.read_tree(source)
    finally:
        await source.close()
    value = nodes.get(znodes.CLUSTER_ID)
    if value is None or znodes.decode_cluster_id(value) != migrant.cluster_id:
        raise ConfigError(
            f"metadata store {path}: not of cluster {migrant.cluster_id}, which the log directory"
            f" belongs to ({file_names.META_PROPERTIES}): has one of them been copied there?"
        )
    return nodes


def _check_taken_over(config: BrokerConfig, nodes: Mapping[str, bytes]) -> None:
    """Raise ConfigError if the store has nodes that a start would move to a protocol's topics."""
    for row in ROWS:
        parent = f"{row.former_nodes}/"
        if row.former_nodes and any(nodes[path] for path in nodes if path.startswith(parent)):
            raise ConfigError(
                f"log.dirs={config.log_dirs[0]}: its metadata store has nodes of {row.name} below"
                f" {row.former_nodes}, which an earlier version wrote: start headrace serve on it"
                f" once with a listener of {row.listeners[0].name}, which moves them to a topic,"
                " and stop it"
            )


def _leave(config: BrokerConfig, disk: BrokerDisk, connect: str) -> None:
    """Note the migration in each directory and rename the SQLite file, so no start uses it.

    Raises OSError.
    """
    for path in config.log_dirs:
        note = f"zookeeper.connect={connect}\n"
        disk.replace(f"{path}/{file_names.MIGRATED}", note.encode())
    first = config.log_dirs[0]
    if disk.exists(f"{first}/{file_names.METADATA}"):
        disk.rename(f"{first}/{file_names.METADATA}", f"{first}/{file_names.METADATA_LEFT}")
        disk.sync_directory(first)


def _check_done(
    config: BrokerConfig, disk: BrokerDisk, cluster_id: str | None, migrant: Migrant
) -> None:
    """Raise ConfigError if the metadata were migrated to another ZooKeeper."""
    if cluster_id == migrant.cluster_id:
        return
    first = config.log_dirs[0]
    note = read_file(disk, f"{first}/{file_names.MIGRATED}") or b""
    raise ConfigError(
        f"log.dirs={first}: its metadata were migrated to the ZooKeeper at {zookeeper_of(note)},"
        f" and {config.zookeeper_connect} does not have them: start it with the first"
    )
