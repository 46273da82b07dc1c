"""A durable queue of AMQP on a log: in memory, killed, or its power cut, and begun again."""

from typing import cast

from headrace.broker.partition import Partition
from headrace.config.log_config import LogConfig
from headrace.model.errors import HeadraceError
from headrace.model.invariant import InvariantError
from headrace.model.nouns import LeaderEpoch, TopicPartition
from headrace.ports.callbacks import ignore_result
from headrace.queue_stores.log.log_messages import LogMessages
from headrace.queue_stores.log.settled_files import SettledFiles
from headrace.queue_stores.queue_settings import Published, QueueSettings
from headrace.queues.engine.message_queue import MessageQueue
from headrace.queues.port import Consumer, Queue
from headrace.queues.queue_names import queue_topic
from headrace.record.batch import BatchHeader, check_produced
from headrace.testing.disk import SimDisk
from headrace.wire.amqp.content import Message
from headrace.wire.amqp.properties import Properties, make_header
from tests.support.amqp.deliveries import ChannelKit, Delivery, delivered, got
from tests.support.log.log import NOW_MS, World
from tests.support.queues.queues import settings

PLACE = TopicPartition(queue_topic("/", "q"), 0)
CONFIG = LogConfig(segment_bytes=4000, index_interval_bytes=400, segment_index_bytes=1024)


def message(body: str, properties: Properties = Properties(delivery_mode=2)) -> Message:  # noqa: B008
    """A persistent message to the queue."""
    content = body.encode()
    return Message("amq.direct", "q", make_header(len(content), properties), content)


class LogQueue:
    """One life of a broker with one queue; `killed` and `after` are the next one's beginning."""

    def __init__(
        self,
        world: World | None = None,
        *,
        epoch: int = 1,
        queue_settings: QueueSettings | None = None,
        flush_on_ack: bool = True,
        cache_bytes_max: int = 1 << 20,
        ahead: int = 100,
        config: LogConfig = CONFIG,
        load: bool = True,
        drops_transient: bool = False,
        keeps_settled: bool = False,
    ) -> None:
        self.world = world or World(config=config)
        self.epoch = epoch
        self.flush_on_ack = flush_on_ack
        self.cache_bytes_max = cache_bytes_max
        self.ahead = ahead
        self.settings = queue_settings or settings()
        self.drops_transient = drops_transient
        self.keeps_settled = keeps_settled
        self.confirmed_upto = 0
        self.failures: list[HeadraceError] = []
        self.readable_told = 0
        self.partition = Partition(
            self.world.log(PLACE),
            flusher=self.world.directory.flusher,
            flush_on_ack=flush_on_ack,
        )
        self.partition.role.lead(LeaderEpoch(epoch))
        self.channel = ChannelKit(1)
        self.files = SettledFiles(self.world.disk, self.world.clock)
        self.queue: MessageQueue | None = None
        self.store = self.make_store()
        if load:
            self.load()

    def make_store(self) -> LogMessages:
        return LogMessages(
            self.partition,
            self.files,
            self.world.clock,
            self,
            ttl_ms_at=self.ttl_ms_at,
            drops_transient=self.drops_transient,
            keeps_settled=self.keeps_settled,
            cache_bytes_max=self.cache_bytes_max,
            handed_out_ahead=self.ahead,
        )

    def ttl_ms_at(self, published_ms: int) -> int | None:
        return self.settings.ttl_ms

    def led_again(self) -> "LogQueue":
        """Load the queue again after its store has resigned, in the same process."""
        self.store, self.channel = self.make_store(), ChannelKit(1)
        self.load()
        return self

    def load(self) -> None:
        loaded: list[HeadraceError | None] = []
        self.store.load(loaded.append)
        self.world.settle()
        assert loaded == [None]
        self.make_queue()

    def make_queue(self) -> None:
        self.queue = MessageQueue(
            "queue 'q' in vhost '/'", self.settings, lambda _: self.store, self.now
        )

    @property
    def now(self) -> float:
        return self.world.clock.monotonic()

    @property
    def q(self) -> MessageQueue:
        assert self.queue is not None
        return self.queue

    # The listener of the store

    def appended(self) -> None:
        """Note nothing: the turn's end writes."""

    def broke(self, error: InvariantError) -> None:
        raise error

    def confirmed(self, upto: int) -> None:
        self.confirmed_upto = max(self.confirmed_upto, upto)

    def readable(self) -> None:
        self.readable_told += 1

    def arrived(self, count: int, size: int) -> None:
        self.q.note_arrived(0, count, size, self.now)

    def note_held(self, size: int) -> None:
        """Note nothing: no publisher is paused."""

    def failed(self, error: HeadraceError) -> None:
        self.failures.append(error)

    # What is done

    def publish(
        self, *bodies: str, expiration_ms: int | None = None, persistent: bool = True
    ) -> None:
        expiration = None if expiration_ms is None else str(expiration_ms)
        properties = Properties(delivery_mode=2 if persistent else 1, expiration=expiration)
        for body in bodies:
            published = Published(message(body, properties), 0, expiration_ms, persistent)
            self.q.publish(published, self.now)

    def settle(self) -> None:
        """Let what is due now be done: writes, flushes."""
        self.world.settle()

    def published(self, *bodies: str, expiration_ms: int | None = None) -> None:
        """Publish, and have it confirmed."""
        self.publish(*bodies, expiration_ms=expiration_ms)
        self.settle()

    def produce(self, batch: bytearray) -> None:
        """Append what a Kafka producer sends."""
        header: BatchHeader = check_produced(memoryview(batch))
        self.partition.append(memoryview(batch), header, now_ms=NOW_MS)

    def consume(self, *, prefetch: int = 0) -> Consumer:
        queue = cast("Queue", self.q)  # it is on its own, without a name
        consumer = Consumer(queue, self.channel, "c", prefetch=prefetch)
        self.q.consume(consumer, self.now, ignore_result)
        return consumer

    def deliveries(self) -> list[Delivery]:
        """All that is handed out, waiting for the disk at need."""
        found: list[Delivery] = []
        for _ in range(20):
            found += delivered(self.q, self.now)
            self.settle()
        return found

    def get(self) -> Delivery | None:
        for _ in range(5):
            delivery = got(self.q, self.channel, self.now)
            if delivery is not None:
                return delivery
            self.settle()
        return None

    def gets(self, count: int = 1000) -> list[str]:
        """Bodies of the next messages, with `*` where they are redelivered."""
        found: list[str] = []
        while len(found) < count and (delivery := self.get()) is not None:
            found.append(shown(delivery))
        return found

    def acknowledge(self, *tags: int) -> None:
        for tag in tags:
            self.channel.ack(tag)

    def wait(self, seconds: float = 0.2) -> None:
        """Let time pass: what is settled becomes durable."""
        self.world.clock.advance(seconds)
        self.settle()

    # Ends

    def _again(self, world: World) -> "LogQueue":
        return LogQueue(
            world,
            epoch=self.epoch + 1,
            queue_settings=self.settings,
            flush_on_ack=self.flush_on_ack,
            cache_bytes_max=self.cache_bytes_max,
            ahead=self.ahead,
            drops_transient=self.drops_transient,
            keeps_settled=self.keeps_settled,
        )

    def killed(self) -> "LogQueue":
        """The next life after a kill: all that was written is there."""
        return self._again(self.world.after_power_cut(self.world.disk.left_by_a_kill()))

    def after(self, left: SimDisk) -> "LogQueue":
        """The next life on what a power cut left."""
        return self._again(self.world.after_power_cut(left))

    def stopped(self) -> "LogQueue":
        """The next life after a clean stop."""
        done: list[bool] = []
        self.store.close(lambda: done.append(True))
        self.settle()
        assert done == [True]
        self.world.restart(clean=True)
        return self._again(self.world)


def shown(delivery: Delivery) -> str:
    """A delivery's body, with `*` where it is redelivered."""
    _, _, found, redelivered, _ = delivery
    return found.body.decode() + ("*" if redelivered else "")
