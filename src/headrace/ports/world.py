"""`World`: clock, random numbers, disk, network and store of one broker, as one object."""

from typing import Protocol

from headrace.ports.clock import Clock, Random
from headrace.ports.disk import BrokerDisk
from headrace.ports.network import Network
from headrace.ports.store import SessionEvents, Store


class World(Protocol):
    """The outside world of a broker: `server.real_world`, or the simulated `testing.sim.world`."""

    clock: Clock
    random: Random
    disk: BrokerDisk
    """The disk, which also runs blocking work (`run`) and flushes on its threads."""
    network: Network
    has_processes: bool
    """Whether long work may run in a separate process; otherwise `disk.run` runs it."""

    def boot_seconds(self) -> float:
        """Return seconds since an arbitrary start, including the machine's sleep: for leases.

        A lease must not look fresh after the machine wakes up.
        """

    def store_exists(self) -> bool:
        """Return whether the metadata store exists, so that it can identify the log directories.

        A cluster's store is outside of the log directories and always exists.
        """

    def shares_store(self) -> bool:
        """Return whether the metadata store is a cluster's, used by other brokers too."""

    def open_store(self, events: SessionEvents) -> Store:
        """Open a new session of the metadata store; blocks once, at the start. Raises
        ConfigError."""

    def close(self) -> None:
        """Finish submitted blocking work and end its threads. Blocking."""
