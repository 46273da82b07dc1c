"""A log of held messages on a simulated disk and clock: killed, its power cut, begun again."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from headrace.broker.partition import Partition
from headrace.config.log_config import LogConfig
from headrace.held.held_log import HeldLog
from headrace.held.held_records import HeldMessage
from headrace.held.topic_targets import HeldTopicMessage, TopicTargets
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import LeaderEpoch, TopicPartition
from headrace.ports.callbacks import Done, ignore_result
from headrace.testing.clock import SimClock, SimRandom
from headrace.testing.disk import SimDisk
from tests.support.log.log import World

T = TypeVar("T")

PLACE = TopicPartition("held", 0)
TARGET = TopicPartition("orders", 3)
CONFIG = LogConfig(segment_bytes=1 << 20, cleanup_policy=frozenset({"compact"}))
TURNS_MAX = 10_000


def message(body: str, target: TopicPartition = TARGET) -> HeldTopicMessage:
    """Return a message for a target."""
    return HeldMessage(target, body.encode(), (("facts", b"f:" + body.encode()),))


class Targets:
    """The topics that messages are delivered to: each append is stored, waits or fails."""

    def __init__(self) -> None:
        self.stored: list[str] = []
        """The bodies in the order of their appends."""
        self.refused: dict[TopicPartition, ErrorCode] = {}
        """By target: the error of each append."""
        self.waiting: list[tuple[HeldTopicMessage, Done[int | ApiError]]] | None = None
        """Appends that are not stored yet; None: they are stored at once."""
        self.delivers: Callable[[str], object] = ignore_result
        """Called with each body whose append begins."""

    def deliver(self, held: HeldTopicMessage, done: Done[int | ApiError]) -> None:
        """Append a message."""
        if held.target in self.refused:
            done(ApiError(self.refused[held.target]))
            return
        self.delivers(held.body.decode())
        if self.waiting is None:
            self._store(held, done)
        else:
            self.waiting.append((held, done))

    def _store(self, held: HeldTopicMessage, done: Done[int | ApiError]) -> None:
        assert held.headers == (("facts", b"f:" + held.body),)
        self.stored.append(held.body.decode())
        done(len(self.stored) - 1)

    def store_waiting(self, *, answered: bool = True) -> None:
        """Store the appends that wait; later ones wait, too."""
        waiting, self.waiting = self.waiting or [], []
        for held, done in waiting:
            self._store(held, done if answered else ignore_result)

    def hold(self, holds: bool) -> None:
        """Let appends wait from now on, or store all that wait and those that follow."""
        if holds:
            self.waiting = self.waiting or []
        elif self.waiting is not None:
            self.store_waiting()
            self.waiting = None

    def forget_waiting(self) -> None:
        """Store half of the appends that wait, and forget the others: the process ends."""
        waiting, self.waiting = self.waiting or [], None
        for held, _ in waiting[: len(waiting) // 2]:
            self._store(held, ignore_result)


class HeldRoom:
    """A broker process with one log of held messages."""

    def __init__(self, world: World | None = None, epoch: int = 1) -> None:
        self.world = world or World(config=CONFIG)
        self.epoch = epoch
        self.partition = Partition(
            self.world.log(PLACE), flusher=self.world.directory.flusher, flush_on_ack=True
        )
        self.partition.role.lead(LeaderEpoch(epoch))
        self.random = SimRandom(epoch)
        self.log = HeldLog(
            self.partition, self.world.disk, self.world.clock, self.random, TopicTargets()
        )

    @property
    def clock(self) -> SimClock:
        """The simulated clock."""
        return self.world.clock

    @property
    def now_ms(self) -> int:
        """The wall clock in ms."""
        return self.clock.wall_ms()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine while turns, flushes and reads are done, but no time passes."""

        async def run() -> T:
            task = asyncio.ensure_future(work)
            for _ in range(TURNS_MAX):
                self.world.settle()
                await asyncio.sleep(0)
                if task.done():
                    return task.result()
            raise TimeoutError("the work waits for something else")

        return asyncio.run(run())

    def append(self, *bodies: str, time_ms: int = 0) -> list[int]:
        """Append messages; return their offsets, on disk."""
        found: list[int | ApiError] = []
        for body in bodies:
            self.log.append(message(body), time_ms, found.append)
        self.world.settle()
        return [offset for offset in found if isinstance(offset, int)]

    def pass_ms(self, ms: int, step_ms: int = 10) -> None:
        """Let time pass in small steps; what is due in each is done."""
        for _ in range(0, ms, step_ms):
            self.clock.advance(step_ms / 1000)
            self.world.settle()

    def restarted(self, left: SimDisk | None = None) -> World:
        """End this process as kill -9 does and start the next one on its disk, or on `left`."""
        if left is None:
            self.world.restart(clean=False)
            return self.world
        world = self.world.after_power_cut(left)
        world.clock._started_ms = self.now_ms
        return world

    def killed(self) -> "HeldRoom":
        """Return the next life after a kill."""
        return HeldRoom(self.restarted(), self.epoch + 1)

    def jump_ms(self, ms: int) -> None:
        """Set the wall clock forward, or back; the monotonic one goes on."""
        self.clock._started_ms += ms
