"""One broker with two log directories on a simulated disk, between which its replica moves."""

import random
from collections.abc import Callable, Sequence
from typing import TypeVar

from headrace.broker.broker import Broker
from headrace.broker.partition import Partition
from headrace.broker.replica.in_sync_replicas import Replicas
from headrace.config.broker import load
from headrace.config.log_config import LogConfig
from headrace.log.directory.log_directory import LogDirectory
from headrace.log.directory.new_log import NewLog
from headrace.log.log import Log
from headrace.model.nouns import BrokerId, LeaderEpoch
from headrace.observe.metrics import Metrics
from headrace.record.batch import parse_header
from headrace.testing.clock import SimClock, SimRandom
from headrace.testing.disk import SimDisk
from tests.support.log.log import CONFIG, NOW_MS, PLACE, TOPIC_ID, batch_of, values

T = TypeVar("T")
PATHS = ("/a", "/b")


class SteppedDisk(SimDisk):
    """A disk whose threads' work is done in any order, and told of later than it is done."""

    def run(self, work: Callable[[], T], done: Callable[[T | BaseException], None]) -> None:
        def job() -> None:
            result: T | BaseException
            try:
                result = work()
            except Exception as problem:  # noqa: BLE001 - handed to who asked
                result = problem
            self._hand_over(lambda: done(result), flush=False)

        self._hand_over(job, flush=False)

    @property
    def queued(self) -> int:
        """How much of its work waits."""
        return len(self._queue)

    def step(self, number: int = 0) -> None:
        """Do one of what waits."""
        self._queue.pop(number)()


class MovingBroker:
    """A broker that holds one partition and is alone with it, or is told another role."""

    def __init__(
        self, disk: SimDisk | None = None, *, config: LogConfig = CONFIG, seed: int = 0
    ) -> None:
        self.clock = SimClock(NOW_MS)
        self.disk = SteppedDisk(self.clock.wall_ms) if disk is None else disk
        self.config = config
        self.directories = [self._open(path, seed) for path in PATHS]
        self.broker = Broker(
            load(flags={"log.dirs": ",".join(PATHS)})[0],
            broker_id=BrokerId(0),
            clock=self.clock,
            disk=self.disk,
            random=SimRandom(seed),
            directories=self.directories,
            metrics=Metrics(),
            cluster_id="c",
        )
        self.broker.settle_doubles()
        self.broker.start()

    def _open(self, path: str, seed: int) -> LogDirectory:
        random_numbers = SimRandom(f"{path} {seed}")
        directory = LogDirectory.open(
            self.disk, self.clock, random_numbers, path, broker_id=0, cluster_id="c"
        )
        directory.load_blocking(lambda _: self.config)
        return directory

    # --- the partition -------------------------------------------------------------------------

    def lead(self, epoch: int = 0, replicas: Sequence[int] = (0,), topic: bytes = TOPIC_ID) -> None:
        """Lead it, all of `replicas` being in sync."""
        all_of_them = tuple(map(BrokerId, replicas))
        new = NewLog(PLACE, topic, self.config)
        self.broker.lead_partition(
            new, LeaderEpoch(epoch), Replicas(BrokerId(0), all_of_them, all_of_them)
        )

    def follow(self, epoch: int, leader: int = 1) -> None:
        """Follow another broker."""
        new = NewLog(PLACE, TOPIC_ID, self.config)
        self.broker.follow_partition(new, BrokerId(leader), LeaderEpoch(epoch))

    @property
    def partition(self) -> Partition:
        """The partition, whatever its role."""
        at = (PLACE.topic, PLACE.partition)
        return self.broker.partitions.get(at) or self.broker.followed[at]

    @property
    def log(self) -> Log:
        """The log it goes on in."""
        return self.partition.log

    def append(self, *told: bytes, producer: tuple[int, int, int] | None = None) -> int:
        """Append one batch as a client does; where it ends."""
        view = memoryview(batch_of(*told, producer=producer))
        return self.partition.append(view, parse_header(view), now_ms=NOW_MS).commit_offset

    def held(self) -> dict[int, bytes | None]:
        """Every record of the log, by offset."""
        return values(self.log)

    # --- moving --------------------------------------------------------------------------------

    @property
    def source(self) -> LogDirectory:
        """The directory that holds the log."""
        (found,) = (each for each in self.directories if PLACE in each.logs)
        return found

    @property
    def target(self) -> LogDirectory:
        """The other one."""
        (found,) = (each for each in self.directories if PLACE not in each.logs)
        return found

    def move(self, target: LogDirectory | None = None) -> LogDirectory:
        """Ask for a move to `target`, else to the other directory; which that is."""
        directory = self.target if target is None else target
        self.broker.moves.ask(PLACE, directory.path)
        return directory

    def move_whole(self) -> None:
        """Move to the other directory, to the end."""
        target = self.move()
        self.settle()
        assert PLACE in target.logs

    def names(self) -> dict[str, list[str]]:
        """What lies in either directory of this partition."""
        return {
            path: [name for name in self.disk.list(path) if name.startswith("t-0")]
            for path in PATHS
        }

    # --- time, and ends ------------------------------------------------------------------------

    def settle(self) -> None:
        """Let all happen that is due."""
        while self.clock.turn() or self.disk.settle():
            pass

    def step_until(self, holds: Callable[[], object], steps: int = 10_000) -> None:
        """Let what is due happen one after the other until that is so."""
        for _ in range(steps):
            if holds():
                return
            if not self.clock.turn():
                self._stepped.step()
        raise AssertionError("it never is")

    @property
    def _stepped(self) -> SteppedDisk:
        assert isinstance(self.disk, SteppedDisk)
        return self.disk

    def step(self, draw: random.Random) -> bool:
        """Let one drawn thing happen, a turn of the loop or work of the disk; False: none waits."""
        if draw.random() < 0.5 and self.clock.turn():
            return True
        if self._stepped.queued:
            self._stepped.step(draw.randrange(self._stepped.queued))
            return True
        return bool(self.clock.turn())

    def killed(self) -> "MovingBroker":
        """The broker that is started where this one was killed."""
        left = self.disk.left_by_a_kill()
        self.disk.ops.clear()
        return started_on(left, self.config)

    def close(self) -> None:
        """End it, as a kill would."""
        for directory in self.directories:
            directory.close(clean=False)


def started_on(left: SimDisk, config: LogConfig = CONFIG) -> MovingBroker:
    """Return the broker that starts on what another has left."""
    disk = SteppedDisk(left.now_ms)
    disk.nodes, disk.base = left.nodes, left.base
    disk.ops, disk.unsaved, disk.boot = left.ops, left.unsaved, left.boot
    return MovingBroker(disk, config=config, seed=1)
