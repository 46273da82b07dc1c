"""Who a broker is, and in which cluster: known before its directories are claimed."""

from headrace.cluster.store import znodes
from headrace.cluster.store.catalog import Catalog
from headrace.config.broker import BrokerConfig
from headrace.log import file_names
from headrace.log.directory.log_directory import read_identity
from headrace.log.text_files import read_file, read_properties
from headrace.model.errors import ConfigError
from headrace.ports.disk import BrokerDisk
from headrace.ports.store import NodeExists, NoNode, Store


def in_directories(config: BrokerConfig, disk: BrokerDisk) -> tuple[int, str]:
    """Return the broker's id, as configured or in the directories, and the cluster's.

    -1 and "" where neither says. ConfigError: a directory is named twice, or cannot be read.
    """
    broker_id, cluster_id = config.broker_id, ""
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
            raise unusable(path, problem) from problem
        if found is not None:
            cluster_id = cluster_id or found.cluster_id
            broker_id = found.broker_id if broker_id < 0 else broker_id
    return broker_id, cluster_id


def _check_store(config: BrokerConfig, disk: BrokerDisk, path: str) -> None:
    """Raise ConfigError where the directory's metadata are in another store than is configured.

    With others than its own a broker would begin a second history of the same topics.
    """
    if config.zookeeper_connect is None:
        note = read_file(disk, f"{path}/{file_names.MIGRATED}")
        if note is not None:
            connect = zookeeper_of(note)
            raise ConfigError(
                f"log.dirs={path}: its metadata were brought into the ZooKeeper at {connect}"
                f" ({file_names.MIGRATED} says so): start it with --zookeeper {connect}. Without it"
                " another history of the same topics would begin"
            )
    elif disk.exists(f"{path}/{file_names.METADATA}"):
        raise ConfigError(
            f"log.dirs={path}: has the metadata of a single broker ({file_names.METADATA}), and"
            " ZooKeeper does not: bring them there first, by headrace cluster migrate --log-dirs"
            f" {','.join(config.log_dirs)} --zookeeper {config.zookeeper_connect}"
        )


def zookeeper_of(note: bytes) -> str:
    """Return the ZooKeeper that a directory's note of a migration names."""
    return read_properties(note).get("zookeeper.connect", "?")


async def new_broker_id(store: Store, config: BrokerConfig) -> int:
    """Return an id for a broker that has none: one that no other was given; 0 where it is alone."""
    if not store.shared:
        return 0
    while True:
        try:
            # Kafka's way: how often this node was written to is a number that nobody had before.
            number = (await store.set(znodes.BROKER_SEQUENCE, b"")).version
        except NoNode:
            await Catalog(store).prepare()
        else:
            return config.reserved_broker_max_id + number


async def in_store(store: Store, new: str) -> str:
    """Return the id of the cluster whose store this is; `new` where it has had none until now.

    Several brokers may ask at once: all are told the same.
    """
    catalog = Catalog(store)
    while (found := await catalog.known_cluster_id()) is None:
        try:
            await store.create(znodes.CLUSTER_ID, znodes.encode_cluster_id(new), parents=True)
        except NodeExists:
            continue  # another broker was faster
    return found


def unusable(path: str, problem: OSError) -> ConfigError:
    """Return the error for a log directory that cannot be used."""
    return ConfigError(f"log.dirs={path}: {(problem.strerror or str(problem)).lower()}")
