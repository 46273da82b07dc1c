"""A cluster that is disturbed: three brokers and three ZooKeepers on hosts of their own, and load.

`Ground` is what nemeses act on. It knows when the cluster is whole: all brokers registered, every
replica in sync, records of every partition and transactions acknowledged.
"""

import random
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from kazoo.exceptions import KazooException

from tests.chaos.load import ANY_BROKER, PLACES, SOURCE_PLACES, Load
from tests.chaos.namespaces import Network
from tests.chaos.replicas import Compared, compare
from tests.chaos.stored import StoredCluster, StoredPartition
from tests.support.cluster.broker_cluster import BrokerCluster
from tests.support.zookeeper import ZooKeeper

BROKERS = range(3)
ALL = set(BROKERS)
SMALL_DISK = 2
"""The broker that has a second log directory, on a small disk."""
SMALL_DISK_BYTES = 1 << 30
RATE = 300.0
"""Records a second: what three brokers on two cores bear beside everything else."""
AHEAD_MAX = 50_000
"""Copies wait while their partitions do, and the feeder goes on meanwhile."""
PRODUCE_SECONDS_MAX = 30.0
"""After a fault, until a record of every partition was acknowledged (G15)."""
CATCH_UP_SECONDS_MAX = 90.0
"""After that, until every replica is in sync and transactions commit."""
LOAD_PLACES = [*PLACES, *SOURCE_PLACES]
COMPACTED = ("__consumer_offsets", "__transaction_state")
SETTINGS: dict[str, Any] = ANY_BROKER | {
    "replica.lag.time.max.ms": 5000,
    "offsets.topic.num.partitions": 4,
    "transaction.state.log.num.partitions": 4,
    "leader.imbalance.check.interval.seconds": 3,
    "leader.imbalance.per.broker.percentage": 0,
}


FILL_TRIES_MAX = 100


class SmallDisk:
    """A file system of its own, to be full or not."""

    def __init__(self, place: Path) -> None:
        place.mkdir(parents=True)
        self.place = place
        self._mount("-t", "tmpfs", "-o", f"size={SMALL_DISK_BYTES}", "tmpfs")

    def fill(self) -> None:
        """Leave no space: it is as large as what is on it, which may grow while that is asked."""
        for _ in range(FILL_TRIES_MAX):
            used = shutil.disk_usage(self.place).used
            with suppress(subprocess.CalledProcessError):
                self._mount("-o", f"remount,size={used}")
                return
        raise RuntimeError(f"{self.place} grows faster than it can be made small")

    def empty(self) -> None:
        self._mount("-o", f"remount,size={SMALL_DISK_BYTES}")

    def close(self) -> None:
        """Take it away, and leave what was on it in its place."""
        left = self.place.with_name("left")
        shutil.copytree(self.place, left, ignore=shutil.ignore_patterns("*.sock"))
        subprocess.run(["umount", str(self.place)], check=True)
        self.place.rmdir()
        left.rename(self.place)

    def _mount(self, *arguments: str) -> None:
        subprocess.run(["mount", *arguments, str(self.place)], check=True)


class Ground:
    """The cluster and its load, with what nemeses ask of them. Made by `ground`."""

    def __init__(self, directory: Path, chance: random.Random, undo: ExitStack) -> None:
        self.directory = directory
        self.chance = chance
        names = [f"broker-{number}" for number in BROKERS]
        ensemble = [f"zookeeper-{number}" for number in range(1, 4)]
        self.network = Network([*names, *ensemble])
        hosts = self.network.hosts
        self.zookeeper = ZooKeeper(directory, hosts=[hosts[name] for name in ensemble])
        self.disk = SmallDisk(directory / "small")
        undo.callback(self.disk.close)
        self.brokers = BrokerCluster(
            directory,
            self.zookeeper.hosts,
            at=[hosts[name] for name in names],
            each=lambda number: {"log_dirs": ",".join(map(str, self.log_directories(number)))},
            **{name.replace(".", "_"): value for name, value in SETTINGS.items()},
        )
        self.zookeeper.start()
        undo.callback(self.zookeeper.kill)
        self.brokers.start()
        undo.callback(self.brokers.kill)
        self.stored = StoredCluster(self.brokers.connect)
        undo.callback(self.stored.close)
        self.load = Load(
            self.brokers.bootstrap, directory, replicas=3, rate=RATE, ahead_max=AHEAD_MAX
        )
        undo.callback(self.load.close)

    def log_directories(self, number: int) -> list[Path]:
        own = self.directory / f"broker-{number}" / "log"
        return [own, self.disk.place / "log"] if number == SMALL_DISK else [own]

    # what faults ask

    def draw_broker(self, but: int | None = None) -> int:
        return self.chance.choice([number for number in BROKERS if number != but])

    def controller(self) -> int:
        found = self.stored.controller()
        assert found is not None, "a whole cluster has a controller"
        return found

    def address(self, number: int) -> str:
        return self.network.hosts[f"broker-{number}"].address

    def peers(self, number: int) -> list[str]:
        """The addresses of the other brokers."""
        return [self.address(other) for other in BROKERS if other != number]

    def ensemble(self) -> list[str]:
        return [server.host.address for server in self.zookeeper.servers]

    def loaded(self) -> dict[tuple[str, int], StoredPartition]:
        """The partitions of the load."""
        partitions = self.stored.partitions()
        return {place: partitions[place] for place in LOAD_PLACES}

    def hold(self, seconds: float) -> None:
        """Let the load go on for so long."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self.load.tend()
            time.sleep(0.05)

    def roll(self) -> None:
        """Restart one broker after the other, each on a whole cluster."""
        for broker in self.brokers.brokers:
            assert broker.stop() == 0, f"a clean stop ends with status 0:\n{broker.output[-2000:]}"
            broker.start()
            self.until_in_sync()

    def until_assigned(self, wanted: Mapping[tuple[str, int], Sequence[int]]) -> None:
        """Return when partitions have moved to these brokers."""

        def unmoved() -> list[str]:
            found = self.loaded()
            return [
                f"{place} is at {found[place]}"
                for place, brokers in wanted.items()
                if found[place].assigned != tuple(brokers) or not found[place].whole()
            ]

        self._until(unmoved, CATCH_UP_SECONDS_MAX, "partitions have not moved")

    # when all is well

    def until_whole(self) -> None:
        """Return when nothing of the last fault is left. AssertionError names what is."""
        for number, broker in enumerate(self.brokers.brokers):
            assert broker.process is not None
            status = broker.process.poll()
            assert status is None, f"broker {number} ended by itself with status {status}"
        counts = {index: len(self.load.feeder.acknowledged[index]) for _, index in SOURCE_PLACES}
        commits = self.load.notes.commits
        self._until(
            lambda: [
                f"nothing acknowledged in partition {index} of the source"
                for index, count in counts.items()
                if len(self.load.feeder.acknowledged[index]) == count
            ],
            PRODUCE_SECONDS_MAX,
            "producing goes on",
        )
        self.until_in_sync()
        # Else one broker may lead all: a fault of its way to clients alone leaves them nothing.
        self._until(
            lambda: [
                f"{place} is led by {found.leader}, not by the first of {found.assigned}"
                for place, found in self.loaded().items()
                if found.leader != found.assigned[0]
            ],
            CATCH_UP_SECONDS_MAX,
            "leaders are the preferred ones",
        )
        self._until(
            lambda: ["no transaction"] if self.load.notes.commits == commits else [],
            CATCH_UP_SECONDS_MAX,
            "transactions are committed",
        )

    def until_in_sync(self) -> None:
        """Return when all brokers are registered and all replicas in sync."""
        self._until(lambda: self.stored.missing(ALL), CATCH_UP_SECONDS_MAX, "all are in sync")

    def _until(self, missing: Callable[[], list[str]], seconds_max: float, what: str) -> None:
        deadline = time.monotonic() + seconds_max
        while True:
            self.load.tend()
            try:
                told = missing()
            except KazooException as error:
                told = [f"ZooKeeper does not answer: {type(error).__name__}"]
            if not told:
                return
            assert time.monotonic() < deadline, (
                f"not within {seconds_max:g} s of a fault: {what}; " + "; ".join(told[:5])
            )
            time.sleep(0.2)

    def compare(self) -> Compared:
        """End all brokers and compare what they hold."""
        assigned = {place: found.assigned for place, found in self.stored.partitions().items()}
        self.brokers.stop()
        directories = {number: self.log_directories(number) for number in BROKERS}
        return compare(directories, assigned, COMPACTED)


@contextmanager
def ground(directory: Path, seed: int) -> Iterator[Ground]:
    """A whole cluster under load; all of it ended in the end."""
    with ExitStack() as undo:
        made = Ground(directory, random.Random(seed), undo)
        made.until_whole()
        yield made
