"""A stream on a log of a simulated disk, with readers on channels of their own."""

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from headrace.broker.partition import Partition
from headrace.config.log_config import LogConfig
from headrace.log.retention import apply_retention
from headrace.model.nouns import LeaderEpoch
from headrace.ports.callbacks import ignore_result
from headrace.queue_stores.log.queue_logs import QueueLogs
from headrace.queue_stores.log.settled_files import SettledFiles
from headrace.queue_stores.memory.memory_use import MemoryUse
from headrace.queue_stores.message_store import MessageStore
from headrace.queue_stores.queue_settings import (
    ConsumerSettings,
    Published,
    QueueSettings,
    QueueType,
    StreamOffset,
    StreamStart,
)
from headrace.queue_stores.stream.durable_stream import DurableStream
from headrace.queue_stores.stream.stream_log import StreamLog
from headrace.queues.engine.hosted_queue import Hooks, stores_in_memory
from headrace.queues.engine.stream_queue import StreamQueue
from headrace.queues.model.declarations import DeclaredQueue
from headrace.queues.port import Consumer
from headrace.record.batch import BatchHeader, check_produced
from headrace.wire.amqp.properties import Properties, property_of
from tests.support.amqp.deliveries import ChannelKit, Delivery, delivered, raised
from tests.support.log.log import NOW_MS, World, batch_of
from tests.support.queues.log import CONFIG, PLACE, message

if TYPE_CHECKING:
    from headrace.model.errors import HeadraceError
    from headrace.queue_stores.log.durable_messages import DurableMessages

FIRST = StreamOffset(StreamStart.FIRST)
LAST = StreamOffset(StreamStart.LAST)
NEXT = StreamOffset(StreamStart.NEXT)
STREAM = QueueSettings(queue_type=QueueType.STREAM)


def offset(number: int) -> StreamOffset:
    """By number."""
    return StreamOffset(StreamStart.OFFSET, number)


class Reader:
    """A consumer of the stream, and what it was given."""

    def __init__(self, stream: "Stream", consumer: Consumer) -> None:
        self.stream = stream
        self.consumer = consumer
        self.channel = cast("ChannelKit", consumer.channel)
        self.given: list[Delivery] = []

    @property
    def bodies(self) -> list[str]:
        """What it was given."""
        return [delivery[2].body.decode() for delivery in self.given]

    @property
    def offsets(self) -> list[int]:
        """At which offsets, by the header."""
        return [offset_of(delivery) for delivery in self.given]

    def acknowledge(self) -> None:
        """Settle all that it has, and have it given more."""
        self.channel.ack(0, multiple=True)
        self.stream.run()

    def leave(self) -> None:
        """Cancel it."""
        self.stream.queue.cancel(self.consumer, self.stream.now)


class Stream:
    """One life of a broker with one stream."""

    def __init__(
        self,
        world: World | None = None,
        *,
        epoch: int = 1,
        config: LogConfig = CONFIG,
        make_log: bool = True,
    ) -> None:
        self.world = world or World(config=config)
        self.epoch = epoch
        self.asked: list[DurableMessages] = []
        self.logs = QueueLogs(
            SettledFiles(self.world.disk, self.world.clock), self.world.clock, self.asked.append
        )
        declared = DeclaredQueue("q", True, False, None, {}, STREAM)
        self.store = DurableStream(self.logs, "/", declared, 0)
        self.readers: list[Reader] = []
        self.confirmed: list[bool] = []
        self.asked_to_deliver = 0
        if make_log:
            self._open()
        self.queue = StreamQueue(
            declared,
            "stream queue 'q' in vhost '/'",
            self.store,
            Hooks(lambda queue: None, lambda queue: self._readable(), raised),
        )

    def _readable(self) -> None:
        self.asked_to_deliver += 1

    def _open(self) -> None:
        opened: list[HeadraceError | None] = []
        self.store.open(self.make_partition(), opened.append)
        assert opened == [None]
        self.world.settle()

    def make_partition(self) -> Partition:
        """Have the partition led."""
        self.partition = Partition(self.world.log(PLACE), flusher=self.world.directory.flusher)
        self.partition.role.lead(LeaderEpoch(self.epoch))
        return self.partition

    @property
    def now(self) -> float:
        return self.world.clock.monotonic()

    @property
    def log(self) -> StreamLog:
        """What has the messages."""
        assert self.store.log is not None
        return self.store.log

    # What is done

    def publish(self, *bodies: str, properties: Properties = Properties(delivery_mode=2)) -> None:  # noqa: B008
        """Publish in one pass, not flushed yet."""
        for body in bodies:
            self.queue.publish(Published(message(body, properties), 0, None, True), self.now)
        self.store.when_stored(self.confirmed.append)
        self.logs.write()

    def published(self, *bodies: str) -> None:
        """Publish in one pass, and have it delivered."""
        self.publish(*bodies)
        self.run()

    def produce(self, *values: str, producer: tuple[int, int, int] | None = None) -> None:
        """Write as a Kafka producer does; with `producer` in a transaction."""
        batch = batch_of(
            *(value.encode() for value in values),
            producer=producer,
            transactional=producer is not None,
        )
        if producer is not None:
            self.partition.append_internal(batch, now_ms=NOW_MS)
        else:
            header: BatchHeader = check_produced(memoryview(batch))
            self.partition.append(memoryview(batch), header, now_ms=NOW_MS)
        self.run()

    def abort(self, producer_id: int) -> None:
        """End a producer's transaction."""
        self.partition.append_marker(
            producer_id, 0, commit=False, coordinator_epoch=0, now_ms=NOW_MS
        )
        self.run()

    def consume(
        self,
        start: StreamOffset = FIRST,
        *,
        prefetch: int = 1000,
        wanted: frozenset[str] | None = None,
        channel: ChannelKit | None = None,
        no_ack: bool = False,
        exclusive: bool = False,
    ) -> Reader:
        """Add a reader."""
        consumer = Consumer(
            self.queue,
            channel or ChannelKit(len(self.readers) + 1),
            "c",
            no_ack=no_ack,
            exclusive=exclusive,
            prefetch=prefetch,
            wishes=ConsumerSettings(stream_offset=start, stream_filter=wanted),
        )
        self.queue.consume(consumer, self.now, ignore_result)
        reader = Reader(self, consumer)
        self.readers.append(reader)
        return reader

    def read(self, start: StreamOffset = FIRST, **wishes: object) -> Reader:
        """Add a reader, and give it what there is."""
        reader = self.consume(start, **wishes)  # type: ignore[arg-type]
        self.run()
        return reader

    def deliver(self) -> int:
        """Hand out one batch; returns how many messages that were."""
        found = delivered(self.queue, self.now)
        for reader in self.readers:
            reader.given += [each for each in found if each[0] is reader.consumer]
        return len(found)

    def run(self) -> None:
        """Deliver until nobody can be given anything more."""
        while True:
            self.world.settle()
            asked = self.asked_to_deliver
            count = self.deliver()
            if not count and not self.queue.more and asked == self.asked_to_deliver:
                self.world.settle()
                if asked == self.asked_to_deliver:
                    return

    def retain(self, from_offset: int) -> int:
        """Let retention take what lies below; returns where the log begins now."""
        self.partition.delete_records(from_offset)
        apply_retention(self.partition.log, NOW_MS)
        return self.partition.log.start_offset

    # Ends

    def killed(self) -> "Stream":
        """The next life after a kill: all that was written is there."""
        return self._again(self.world.after_power_cut(self.world.disk.left_by_a_kill()))

    def stopped(self) -> "Stream":
        """The next life after a clean stop."""
        done: list[bool] = []
        self.store.close(lambda: done.append(True))
        self.world.settle()
        assert done == [True]
        self.world.restart(clean=True)
        return self._again(self.world)

    def _again(self, world: World) -> "Stream":
        return Stream(world, epoch=self.epoch + 1)


def offset_of(delivery: Delivery) -> int:
    """What the header says."""
    headers = property_of(delivery[2].header, "headers")
    assert isinstance(headers, dict)
    found = headers["x-stream-offset"]
    assert isinstance(found, int)
    return found


def stores_for_streams() -> Callable[[DeclaredQueue, int], MessageStore]:
    """Makes stores in memory, and those of streams, whose logs are made never."""
    world, in_memory = World(), stores_in_memory(MemoryUse())
    logs = QueueLogs(SettledFiles(world.disk, world.clock), world.clock, lambda messages: None)

    def make(queue: DeclaredQueue, priority: int) -> MessageStore:
        if queue.settings.queue_type is QueueType.STREAM:
            return DurableStream(logs, "/", queue, priority)
        return in_memory(queue, priority)

    return make


def filled(count: int = 20) -> Stream:
    """A stream of that many batches of a message, none of which is in memory."""
    here = Stream()
    for number in range(count):
        here.published(f"{number:0400}")
    return here


def cold(count: int = 20) -> Stream:
    """The same on a disk that answers later, without room to keep what was read."""
    here = filled(count)
    here.logs.windows.bytes_max = 0
    here.world.disk.cold = True
    return here
