"""The `World` of a real process: the machine's clock, disk, network, threads, metadata store."""

import asyncio
from typing import TYPE_CHECKING

from headrace.config.broker import BrokerConfig
from headrace.log import file_names
from headrace.model.errors import ConfigError
from headrace.posix.clock import RealClock, RealRandom, boot_seconds
from headrace.posix.disk import RealDisk
from headrace.posix.network import RealNetwork
from headrace.posix.open_files import raise_limit
from headrace.posix.store.embedded_store import EmbeddedStore, StoreFile
from headrace.posix.threads import Workers

if TYPE_CHECKING:
    from headrace.ports.clock import Clock, Random
    from headrace.ports.disk import BrokerDisk
    from headrace.ports.network import Network
    from headrace.ports.store import SessionEvents, Store


class RealWorld:
    """The `World` of a real process, implemented by the operating system.

    Created on the running loop.
    """

    has_processes = True

    def __init__(self, config: BrokerConfig, shared: StoreFile | None = None) -> None:
        """Open nothing yet but threads; flush strategy, open files and store come from `config`.

        `shared`: the metadata store file of several brokers in this process; its owner closes it.
        """
        loop = asyncio.get_running_loop()
        self.clock: Clock = RealClock(loop)
        self.random: Random = RealRandom()
        self.network: Network = RealNetwork()
        self.boot_seconds = boot_seconds
        self._workers = Workers(loop)
        self.disk: BrokerDisk = RealDisk(
            self._workers,
            config.log_flush_strategy,
            min(config.log_open_files_max, raise_limit() // 2),
        )
        self._config = config
        self._shared = shared
        self._store_path = f"{config.log_dirs[0]}/{file_names.METADATA}"

    def store_exists(self) -> bool:
        """Return whether the metadata store exists from an earlier start, or is a cluster's."""
        return self.shares_store() or self.disk.exists(self._store_path)

    def shares_store(self) -> bool:
        """Return whether the metadata store is ZooKeeper, or one file of several brokers here."""
        return self._shared is not None or self._config.zookeeper_connect is not None

    def open_store(self, events: "SessionEvents") -> "Store":
        """Begin a session with the shared store, or open the first log directory's SQLite file."""
        if self._shared is not None:
            return EmbeddedStore(self._shared)
        if self._config.zookeeper_connect is not None:
            return open_zookeeper(self._config, self._config.zookeeper_connect, events)
        return EmbeddedStore(self._store_path)

    def close(self) -> None:
        """End the threads that do blocking disk work."""
        self._workers.stop()


def open_zookeeper(
    config: BrokerConfig, connect: str, events: "SessionEvents", *, make_chroot: bool = True
) -> "Store":
    """Begin a session with the ZooKeeper at `connect`, and block until it is connected.

    `make_chroot` false: a missing chroot is not created and reads as a store without nodes.
    ConfigError: kazoo is not installed.
    """
    try:
        from headrace.posix.zookeeper.zookeeper_store import ZooKeeperSettings, ZooKeeperStore
    except ModuleNotFoundError as error:
        if error.name != "kazoo":
            raise
        from headrace.config.installing import install_command

        raise ConfigError(
            f"zookeeper.connect={connect}: kazoo is not installed: {install_command('kazoo')}"
        ) from None
    connection_ms = config.zookeeper_connection_timeout_ms or config.zookeeper_session_timeout_ms
    settings = ZooKeeperSettings(
        connect,
        config.zookeeper_session_timeout_ms / 1000,
        connection_ms / 1000,
        config.zookeeper_max_in_flight_requests,
        config.zookeeper_set_acl,
        config.zookeeper_digest_credentials or "",
        make_chroot,
    )
    return ZooKeeperStore(settings, events)
