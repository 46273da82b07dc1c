"""All that one broker stands on, handed to it as one thing."""

from typing import Protocol

from headrace.ports.clock import Clock, Random
from headrace.ports.disk import BrokerDisk
from headrace.ports.network import Network
from headrace.ports.store import SessionEvents, Store


class World(Protocol):
    """One broker's world. `server.real_world` is the real one, `testing.sim.world` a simulated."""

    clock: Clock
    random: Random
    disk: BrokerDisk
    """Blocking work (`disk.run`) and flushes are done where that world has its threads."""
    network: Network
    has_processes: bool
    """Whether long work may be given to a process of its own; else `disk.run` does it."""

    def boot_seconds(self) -> float:
        """Return seconds since some start, counted on while the machine sleeps: for leases.

        A machine that wakes up must not take its lease for a fresh one.
        """

    def store_exists(self) -> bool:
        """Tell whether the metadata store has been made: then it can say whose our directories are.

        One that other brokers use too lies in none of our directories, and always is.
        """

    def shares_store(self) -> bool:
        """Return whether the metadata store is that of a cluster, used by other brokers too."""

    def open_store(self, events: SessionEvents) -> Store:
        """Open a new session of the metadata store; blocks once, for the start. ConfigError."""

    def close(self) -> None:
        """Finish the blocking work that was handed over, and end its threads. Blocks."""
