"""The ids of a broker and of its cluster, determined before its log directories are claimed."""

import logging
from collections.abc import Callable

from headrace.cluster.store import znodes
from headrace.cluster.store.catalog import Catalog
from headrace.config.broker import BrokerConfig
from headrace.log import file_names
from headrace.log.directory.log_directory import read_identity
from headrace.log.text_files import encode_uuid, read_file, read_properties
from headrace.model.errors import ConfigError
from headrace.ports.disk import BrokerDisk
from headrace.ports.store import NodeExists, NoNode, Store
from headrace.ports.world import World

_logger = logging.getLogger(__name__)
ACCEPT = "accept.cluster.id"


def in_directories(config: BrokerConfig, disk: BrokerDisk) -> tuple[int, str]:
    """Return the broker id, configured or from meta.properties, and the cluster id from there.

    -1 and "" where neither has one. ConfigError: a directory is listed twice, has its metadata in
    another store than is configured, or cannot be read while no other directory has the ids. A
    directory that cannot be read is otherwise left to `log_directories.open_all`.
    """
    broker_id, cluster_id = config.broker_id, ""
    unreadable: list[tuple[str, OSError]] = []
    named: dict[str, str] = {}
    for path in config.log_dirs:
        other = named.setdefault(disk.real_path(path), path)
        if other != path:
            raise ConfigError(f"log.dirs={path}: the same directory as {other}, name it once")
        try:
            _check_store(config, disk, path)
            found = read_identity(disk, path)
        except FileNotFoundError:
            continue
        except OSError as problem:
            unreadable.append((path, problem))
            continue
        if found is not None:
            cluster_id = cluster_id or found.cluster_id
            broker_id = found.broker_id if broker_id < 0 else broker_id
    if unreadable and (broker_id < 0 or not cluster_id):
        raise unusable(*unreadable[0]) from unreadable[0][1]
    return broker_id, cluster_id


def _check_store(config: BrokerConfig, disk: BrokerDisk, path: str) -> None:
    """Raise ConfigError if the directory's metadata are in another store than is configured.

    With another store the broker would begin a second history of the same topics.
    """
    if config.zookeeper_connect is None:
        note = read_file(disk, f"{path}/{file_names.MIGRATED}")
        if note is not None:
            connect = zookeeper_of(note)
            raise ConfigError(
                f"log.dirs={path}: its metadata were migrated to the ZooKeeper at {connect} (see"
                f" {file_names.MIGRATED}): start it with --zookeeper {connect}. Without it the"
                " broker would create a second, empty set of metadata"
            )
    elif disk.exists(f"{path}/{file_names.METADATA}"):
        raise ConfigError(
            f"log.dirs={path}: has the metadata of a single broker ({file_names.METADATA}), and"
            " ZooKeeper does not: bring them there first, by headrace cluster migrate --log-dirs"
            f" {','.join(config.log_dirs)} --zookeeper {config.zookeeper_connect}"
        )


def zookeeper_of(note: bytes) -> str:
    """Return the ZooKeeper connection string in a directory's migration note."""
    return read_properties(note).get("zookeeper.connect", "?")


async def known_or_given(
    config: BrokerConfig, world: World, open_store: Callable[[], Store]
) -> tuple[int, str]:
    """Return the ids of the broker and its cluster, generated if they have none yet.

    A shared store is compared with the directories before either is written. ConfigError: they
    belong to different clusters, and `accept.cluster.id` does not say which one to use.
    """
    broker_id, cluster_id = in_directories(config, world.disk)
    if world.shares_store():
        store = open_store()
        if cluster_id:
            cluster_id = await agreed_cluster(store, config, cluster_id)
        else:
            cluster_id = await in_store(store, encode_uuid(world.random.uuid()))
        if broker_id < 0:
            broker_id = await new_broker_id(store, config)
    elif not cluster_id and world.store_exists():
        cluster_id = await in_store(open_store(), encode_uuid(world.random.uuid()))
    return max(broker_id, 0), cluster_id or encode_uuid(world.random.uuid())


async def agreed_cluster(store: Store, config: BrokerConfig, known: str) -> str:
    """Return the cluster id of directories that name `known`, once the store agrees.

    Raises ConfigError. A store with no cluster id, or another one, has none of the directories'
    topics: clients would create topics of the same names, and the records on disk would be out of
    reach.
    """
    found = await Catalog(store).known_cluster_id()
    accepted = config.accept_cluster_id
    if found == known:
        if accepted is not None:
            _logger.warning("%s=%s is no longer needed: remove it", ACCEPT, accepted)
        return known
    wanted = found or known
    if accepted == wanted:
        _logger.warning(
            "%s=%s: accepted, though log.dirs=%s belongs to cluster %s and %s; topics that the"
            " metadata store does not have are not served", ACCEPT, accepted,
            ",".join(config.log_dirs), known, _of_store(config, found),
        )  # fmt: skip
        return wanted if found else await in_store(store, known)
    raise ConfigError(
        f"log.dirs={','.join(config.log_dirs)} belongs to cluster {known} (meta.properties),"
        f" but {_of_store(config, found)}. The broker is trying to join the wrong cluster:"
        f" zookeeper.connect may be wrong, or ZooKeeper's data lost. Name the ZooKeeper and chroot"
        f" of cluster {known}, or restore ZooKeeper's data. To start in cluster {wanted} anyway,"
        f" without the topics that the metadata store does not have: --accept-cluster-id {wanted}"
    )


def _of_store(config: BrokerConfig, found: str | None) -> str:
    """Return the metadata store's address and cluster id as words for a message."""
    place = "the metadata store"
    if config.zookeeper_connect is not None:
        place = f"zookeeper.connect={config.zookeeper_connect}"
    return f"{place} has {f'cluster {found}' if found else 'no cluster'}"


async def new_broker_id(store: Store, config: BrokerConfig) -> int:
    """Generate a broker id above `reserved.broker.max.id` in the store; 0 if that is not shared."""
    if not store.shared:
        return 0
    while True:
        try:
            # As in Kafka: every write increases the node's version, so each number is used once.
            number = (await store.set(znodes.BROKER_SEQUENCE, b"")).version
        except NoNode:
            await Catalog(store).prepare()
        else:
            return config.reserved_broker_max_id + number


async def in_store(store: Store, new: str) -> str:
    """Return the store's cluster id; store `new` if it has none.

    Several brokers may call this at the same time: all get the same id.
    """
    catalog = Catalog(store)
    while (found := await catalog.known_cluster_id()) is None:
        try:
            await store.create(znodes.CLUSTER_ID, znodes.encode_cluster_id(new), parents=True)
        except NodeExists:
            continue  # another broker was faster
    return found


def unusable(path: str, problem: OSError) -> ConfigError:
    """Return the ConfigError for a log directory that cannot be used."""
    return ConfigError(f"log.dirs={path}: {(problem.strerror or str(problem)).lower()}")
