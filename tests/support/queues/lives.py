"""Lives of a broker with durable queues of AMQP on a simulated disk, with their dead letters."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from hashlib import md5
from itertools import count
from typing import TYPE_CHECKING, cast

from headrace.broker.partition import Partition
from headrace.config.log_config import LogConfig
from headrace.model.errors import HeadraceError
from headrace.model.nouns import LeaderEpoch, TopicPartition
from headrace.ports.callbacks import ignore_result
from headrace.queue_stores.log.durable_messages import DurableMessages
from headrace.queue_stores.log.queue_logs import QueueLogs
from headrace.queue_stores.log.settled_files import SettledFiles
from headrace.queue_stores.memory.memory_use import MemoryUse
from headrace.queue_stores.message_store import TopicStore
from headrace.queue_stores.queue_settings import Published, QueueType, StoredQueue
from headrace.queue_stores.stream.durable_stream import DurableStream
from headrace.queues.engine.hosted_queue import HostedQueue, stores_in_memory
from headrace.queues.engine.virtual_hosts import VirtualHosts
from headrace.queues.model.bindings import Removed
from headrace.queues.model.declarations import DeclaredQueue, QueueFlags
from headrace.queues.model.durability import Declared, KeptDone, Model
from headrace.queues.model.exchange_topic import KafkaTopics, NoTopics
from headrace.queues.port import Consumer
from headrace.queues.queue_names import queue_topic
from headrace.testing.disk import SimDisk
from headrace.wire.amqp.content import Message
from headrace.wire.amqp.properties import Properties, make_header
from tests.support.amqp.deliveries import ChannelKit, Delivery, getter
from tests.support.log.log import World, values

if TYPE_CHECKING:
    from headrace.queues.awaited import Awaited

CONFIG = LogConfig(
    segment_bytes=1000,
    index_interval_bytes=400,
    segment_index_bytes=1024,
    retention_ms=-1,
    file_delete_delay_ms=100,
)
"""A handful of messages to a segment, so that segments go."""
VHOST = "/"
PRIORITIES = range(3)

Arguments = dict[str, object]


class BrokerLife:
    """One life of a broker with queues of these arguments; `killed` and its kin begin the next."""

    def __init__(
        self, queues: dict[str, Arguments], world: World | None = None, epoch: int = 1
    ) -> None:
        self.queues = queues
        self.world = world or World(config=CONFIG)
        self.epoch = epoch
        clock = self.world.clock
        self.given: list[tuple[Delivery, float]] = []
        """What consumers were sent, and when; nobody has looked at it yet."""
        self.channel = ChannelKit(1, sent=self._note)
        self.logs = QueueLogs(SettledFiles(self.world.disk, clock), clock, self._want_log)
        numbers = count()
        self.hosts = VirtualHosts(
            clock,
            lambda: next(numbers).to_bytes(16),
            stores_in_memory(MemoryUse()),
            self,
        )
        self.host = self.hosts.hosts[VHOST]
        for name, arguments in queues.items():
            self._declare(name, arguments)
        self.settle()

    def _declare(self, name: str, arguments: Arguments) -> None:
        flags = QueueFlags(durable=True)
        queue, _ = self.host.model.declare_queue(name, flags, arguments, None)
        stores: dict[int, DurableMessages] = {}
        for priority in PRIORITIES:
            place = TopicPartition(queue_topic(VHOST, name), priority)
            if place in self.world.directory.logs:
                stores[priority] = self.make_store(VHOST, queue, priority)
                loaded: list[HeadraceError | None] = []
                stores[priority].open(self._partition(place, queue), loaded.append)
                self.world.settle()
                assert loaded == [None]
        self.host.host(queue, stores)

    def _partition(self, place: TopicPartition, queue: StoredQueue) -> Partition:
        directory = self.world.directory
        log = directory.logs.get(place)
        if log is None:
            # Read bounds go by topic ids.
            topic_id = md5(place.topic.encode(), usedforsecurity=False).digest()
            log = directory.create_log(place, topic_id, CONFIG)
        if queue.settings.retention_ms is not None:
            log.config = replace(CONFIG, retention_ms=queue.settings.retention_ms)
        partition = Partition(log, flusher=self.world.directory.flusher)
        partition.role.lead(LeaderEpoch(self.epoch))
        return partition

    def _want_log(self, messages: DurableMessages) -> None:
        place = TopicPartition(queue_topic(VHOST, messages.queue.name), messages.priority)
        self.world.clock.call_later(
            0, lambda: messages.have_log(self._partition(place, messages.queue))
        )

    # `Durability`

    def make_store(self, vhost: str, queue: DeclaredQueue, priority: int) -> DurableMessages:
        """Make the store of a durable queue's priority."""
        stream = queue.settings.queue_type is QueueType.STREAM
        return (DurableStream if stream else DurableMessages)(self.logs, vhost, queue, priority)

    @property
    def topics(self) -> KafkaTopics:
        """None: its exchanges store in queues alone. `Declarations`."""
        return NoTopics()

    def topic_store(self, topic: str) -> TopicStore:
        """Refuse: there are no topics. `Durability`."""
        raise KeyError(topic)

    def added(self, host: Model, declared: Declared) -> None:
        """Keep nothing: each life declares the same."""

    def removed(self, host: Model, removed: Removed) -> None:
        """Keep nothing."""

    def when_kept(self, done: KeptDone) -> None:
        """Tell that all is kept."""
        done(None)

    def _note(self, deliveries: Sequence[Delivery]) -> None:
        """Note what consumers are sent."""
        self.given += ((delivery, self.now) for delivery in deliveries)

    # What is done

    @property
    def now(self) -> float:
        return self.world.clock.monotonic()

    def queue(self, name: str = "q") -> HostedQueue:
        return cast("HostedQueue", self.host.queues[name])

    def end_pass(self) -> None:
        """End a pass over a client's frames."""
        self.host.touched(self.channel.woken)
        self.channel.woken.clear()
        self.hosts.turns.run()
        self.logs.write()

    def publish(
        self,
        body: str,
        confirmed: Callable[[bool], None],
        *,
        priority: int = 0,
        expiration_ms: int | None = None,
        persistent: bool = True,
    ) -> bool:
        """Publish to the queue `q`; `confirmed` is told when it is kept. False: it is full."""
        content = body.encode()
        properties = Properties(
            delivery_mode=2 if persistent else 1,
            priority=priority,
            expiration=None if expiration_ms is None else str(expiration_ms),
        )
        message = Message("", "q", make_header(len(content), properties), content)
        published = Published(message, priority, expiration_ms, persistent)
        awaited: Awaited = {}
        if not self.host.publish(("q",), published, awaited):
            self.end_pass()
            return False
        if awaited:
            self.host.when_stored(awaited, lambda unstored: confirmed(not unstored))
        self.end_pass()
        return True

    def get(self, name: str = "q") -> Delivery | None:
        """Get a message, waiting for the disk at need."""
        got: list[Delivery | HeadraceError | None] = []
        asked = getter(self.queue(name), self.channel, got.append, self.now)
        self.queue(name).get(asked, self.now)
        self.host.touched((self.queue(name),))
        self.end_pass()
        if not got:
            self.settle()
        assert len(got) == 1, "a get was not answered"
        assert not isinstance(got[0], HeadraceError)
        return got[0]

    def consume(self, *, prefetch: int, no_ack: bool) -> Consumer:
        """Consume from `q`."""
        consumer = Consumer(self.queue(), self.channel, "c", prefetch=prefetch, no_ack=no_ack)
        self.host.consume(consumer, ignore_result)
        self.end_pass()
        return consumer

    def settle(self) -> None:
        """Let all that is due now be done: writes, flushes."""
        self.world.settle()

    def some_turns(self, steps: int) -> None:
        """Let some of what is due be done."""
        self.world.clock.turn()
        self.world.disk.settle(steps)

    def wait(self, seconds: float) -> None:
        """Let time pass on a disk that is quick, ten milliseconds at a time and at least."""
        until = self.now + seconds
        self.settle()
        while self.now < until:
            self.world.clock.advance(min(0.01, until - self.now))
            self.settle()

    def retain(self) -> None:
        """Let go what the logs' own retention does not keep."""
        self.world.directory.apply_retention()
        self.settle()

    def records(self, name: str = "q") -> set[bytes]:
        """What Kafka's readers find in a queue's topic."""
        logs = self.world.directory.logs
        places = [TopicPartition(queue_topic(VHOST, name), priority) for priority in PRIORITIES]
        return {value or b"" for at in places if at in logs for value in values(logs[at]).values()}

    # Ends

    def _next(self, world: World) -> "BrokerLife":
        world.clock.advance(self.now - world.clock.monotonic())
        return BrokerLife(self.queues, world, self.epoch + 1)

    def killed(self) -> "BrokerLife":
        """The next life after a kill: all that was written is there."""
        return self.after(self.world.disk.left_by_a_kill())

    def after(self, left: SimDisk) -> "BrokerLife":
        """The next life on what a power cut left."""
        return self._next(self.world.after_power_cut(left))

    def stopped(self) -> "BrokerLife":
        """The next life after a clean stop."""
        for consumer in list(self.queue().consumers):
            self.host.cancel(consumer)
        self.channel.close()
        self.end_pass()
        self.settle()
        self.hosts.close()
        stores = [store for queue in self.host.queues.values() for store in queue.late_stores]
        done: list[bool] = []
        for store in stores:
            store.close(lambda: done.append(True))
        self.settle()
        assert len(done) == len(stores)
        self.world.restart(clean=True)
        return BrokerLife(self.queues, self.world, self.epoch + 1)
