"""Queues in memory whose messages go to a simulated disk, on a clock that a test moves."""

import logging
from collections.abc import Callable
from typing import TypeVar

import pytest

from headrace.model.errors import HeadraceError
from headrace.ports.callbacks import ignore_result
from headrace.ports.deadlines import Deadlines
from headrace.queue_stores.memory.memory_messages import MemoryMessages
from headrace.queue_stores.memory.memory_use import MemoryUse
from headrace.queue_stores.memory.message_run import MESSAGE_BYTES
from headrace.queue_stores.memory.spill import LOW_SHARE, SPILL_SHARE, Spill
from headrace.queue_stores.memory.spill_files import FILE_BYTES, SpillFiles
from headrace.queue_stores.queue_settings import Published, QueueSettings
from headrace.queues.engine.delivery_turns import AnyQueue
from headrace.queues.engine.hosted_queue import Hooks, HostedQueue, stores_in_memory
from headrace.queues.model.declarations import DeclaredQueue
from headrace.queues.port import Consumer
from headrace.testing.clock import SimClock
from headrace.testing.disk import SimDisk
from headrace.wire.amqp.content import Message
from headrace.wire.amqp.properties import Properties, make_header
from tests.support.amqp.deliveries import ChannelKit, Delivery, delivered, getter, raised
from tests.support.queues.queues import settings

T = TypeVar("T")
DATA = "/data"
EXTENT = 6400
"""What an extent takes in memory in these tests; 100 are not written by themselves."""
BODY = 800
ONE = BODY + MESSAGE_BYTES + len(make_header(BODY, Properties()))
"""What a message takes in memory."""
MARK = 100 * ONE
"""At which publishers are stopped, of most tests."""
AT = int(SPILL_SHARE * MARK)
LOW = int(LOW_SHARE * MARK)


def logged(caplog: pytest.LogCaptureFixture, level: int = logging.WARNING) -> list[str]:
    """The lines of at least a level."""
    return [record.getMessage() for record in caplog.records if record.levelno >= level]


def message_of(number: int, size: int = BODY) -> Message:
    """A message that begins with its number."""
    body = b"%d." % number
    return Message("", "q", make_header(size, Properties()), body.ljust(size, b"x"))


def number_of(message: Message) -> int:
    """That number."""
    return int(message.body.split(b".")[0])


class InstantDisk(SimDisk):
    """A disk whose threads have done their work at once."""

    def run(self, work: Callable[[], T], done: Callable[[T | BaseException], None]) -> None:
        try:
            result: T | BaseException = work()
        except Exception as error:  # noqa: BLE001 - handed on, as the real one does
            result = error
        done(result)


class SpillRoom:
    """Queues of one broker, and what they were asked."""

    def __init__(
        self,
        mark: int,
        *,
        disk: SimDisk | None = None,
        file_bytes: int = FILE_BYTES,
        extent_bytes: int = EXTENT,
    ) -> None:
        """`mark`: publishers are stopped there; messages begin to be written at 0.75 of it."""
        self.clock = SimClock()
        self.disk = disk or SimDisk()
        self.disk.make_directory(DATA)
        self.use = MemoryUse(mark)
        self.deadlines = Deadlines(self.clock)
        self.files = SpillFiles(self.disk, DATA, file_bytes)
        self.all: list[HostedQueue] = []
        self.spill = Spill(self.use, self.files, self.deadlines, lambda: self.all, extent_bytes)
        self.use.on_sweep = self._sweep_soon
        self.channel = ChannelKit(1)
        self.given: list[Delivery] = []
        self.got: list[Delivery | HeadraceError | None] = []
        self.died: list[int] = []
        """The numbers of dead letters."""
        self.published = 0

    def _sweep_soon(self) -> None:
        self.clock.call_later(0, self._sweep)

    def _sweep(self) -> None:
        if self.use.sweep():
            self._sweep_soon()

    def queue(self, queue_settings: QueueSettings | None = None, name: str = "q") -> HostedQueue:
        """A new queue."""
        queue = HostedQueue(
            DeclaredQueue(name, False, False, None, {}, queue_settings or settings()),
            f"queue '{name}' in vhost '/'",
            stores_in_memory(self.use),
            self.deadlines,
            Hooks(self._time_up, self._readable, raised),
        )
        self.all.append(queue)
        return queue

    def _time_up(self, queue: AnyQueue) -> None:
        queue.expire(self.now)
        self.deliver(queue)
        queue.arm()

    def _readable(self, queue: AnyQueue) -> None:
        self.clock.call_later(0, lambda: self.deliver(queue))

    def deliver(self, queue: AnyQueue) -> None:
        """Let a queue hand out, and give out what died, as in a turn of `DeliveryTurns`."""
        more = True
        while more and not queue.deleted:
            self.given += delivered(queue, self.now)
            letters = queue.take_dead_letters()
            queue.dead_letters_stored(letters)
            self.died += [number_of(each.message) for each in letters if each.message is not None]
            more = queue.more

    @property
    def now(self) -> float:
        return self.clock.monotonic()

    @property
    def names(self) -> list[str]:
        """The files that there are."""
        return self.disk.list(DATA)

    def store(self, queue: HostedQueue, priority: int = 0) -> MemoryMessages:
        """The store of a priority."""
        store = queue._levels[priority].store
        assert isinstance(store, MemoryMessages)
        return store

    def publish(
        self,
        queue: HostedQueue,
        count: int = 1,
        size: int = BODY,
        *,
        priority: int = 0,
        expiration_ms: int | None = None,
    ) -> range:
        """Publish messages; returns their numbers."""
        first = self.published
        self.published += count
        for number in range(first, self.published):
            published = Published(message_of(number, size), priority, expiration_ms)
            assert queue.publish(published, self.now)
        return range(first, self.published)

    def fill(
        self,
        queue: HostedQueue,
        count: int,
        size: int = BODY,
        *,
        priority: int = 0,
        expiration_ms: int | None = None,
    ) -> range:
        """Publish as `publish` does, as fast as the disk takes it."""
        first = self.published
        while self.published < first + count:
            some = min(20, first + count - self.published)
            self.publish(queue, some, size, priority=priority, expiration_ms=expiration_ms)
            self.settle()
        return range(first, self.published)

    def settle(self) -> None:
        """Let all that is due now be done: turns, writes, reads."""
        while self.clock.turn() or self.disk.settle():
            pass

    def get(self, queue: HostedQueue, *, no_ack: bool = False) -> Delivery | None:
        """Get a message, waiting for the disk at need."""
        self.got.clear()
        queue.get(getter(queue, self.channel, self.got.append, self.now, no_ack=no_ack), self.now)
        self.settle()
        (got,) = self.got
        assert not isinstance(got, HeadraceError), got
        return got

    def consume(self, queue: HostedQueue, *, prefetch: int = 0, no_ack: bool = False) -> Consumer:
        """Consume from a queue; what it is given is in `given`."""
        consumer = Consumer(queue, self.channel, "c", prefetch=prefetch, no_ack=no_ack)
        queue.consume(consumer, self.now, ignore_result)
        self.deliver(queue)
        self.settle()
        return consumer

    def taken(self) -> list[int]:
        """The numbers of what was given since this was asked last."""
        given, self.given = self.given, []
        return [number_of(message) for _, _, message, _, _ in given]

    def wake(self) -> None:
        """Let queues hand out for whom a channel did something; then let all be done."""
        for queue in list(self.channel.woken):
            assert isinstance(queue, HostedQueue)
            self.deliver(queue)
        self.channel.woken.clear()
        self.settle()

    def all_of(self, queue: HostedQueue) -> list[int]:
        """The numbers of all messages that are ready, which are taken."""
        numbers = []
        while (delivery := self.get(queue, no_ack=True)) is not None:
            numbers.append(number_of(delivery[2]))
        return numbers


def flipped(room: SpillRoom) -> None:
    """Damage each file."""
    for name in room.names:
        size = room.disk.stat(f"{DATA}/{name}").size  # type: ignore[union-attr]
        for position in range(200, size, 500):
            room.disk.flip(f"{DATA}/{name}", position)
