"""A vhost with one queue on simulated time, and what its channels were sent."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from headrace.broker.partition import Partition
from headrace.model.nouns import LeaderEpoch
from headrace.ports.callbacks import Done
from headrace.queue_stores.log.durable_messages import DurableMessages
from headrace.queue_stores.log.queue_logs import QueueLogs
from headrace.queue_stores.log.settled_files import SettledFiles
from headrace.queue_stores.memory.memory_use import MemoryUse
from headrace.queue_stores.queue_settings import (
    ConsumerSettings,
    Published,
    QueueType,
    StreamOffset,
    StreamStart,
)
from headrace.queue_stores.stream.durable_stream import DurableStream
from headrace.queues.engine.hosted_queue import stores_in_memory
from headrace.queues.engine.queue_host import QueueHost
from headrace.queues.engine.virtual_hosts import VirtualHosts
from headrace.queues.model.bindings import Removed
from headrace.queues.model.declarations import DeclaredQueue, QueueFlags
from headrace.queues.model.durability import Declared, KeptDone, Model, NothingKept
from headrace.queues.port import Consumer, Queue, QueueInfo
from headrace.queues.refusals import Refused
from headrace.wire.amqp.properties import Properties
from tests.support.amqp.deliveries import ChannelKit, Delivery, getter
from tests.support.log.log import World
from tests.support.queues.log import CONFIG, PLACE, message

if TYPE_CHECKING:
    from headrace.queues.awaited import Awaited

OWNER = "connection 1"
FIRST = ConsumerSettings(stream_offset=StreamOffset(StreamStart.FIRST))


class Logs(NothingKept):
    """The logs of durable queues on a simulated disk. Implements `durability.Durability`."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.logs = QueueLogs(SettledFiles(world.disk, world.clock), world.clock, self._make)

    def added(self, host: Model, declared: Declared) -> None:
        """Store nothing: the declaration is in memory."""

    def removed(self, host: Model, removed: Removed) -> None:
        """Delete nothing."""

    def when_kept(self, done: KeptDone) -> None:
        done(None)

    def make_store(self, vhost: str, queue: DeclaredQueue, priority: int) -> DurableMessages:
        stream = queue.settings.queue_type is QueueType.STREAM
        return (DurableStream if stream else DurableMessages)(self.logs, vhost, queue, priority)

    def topic_store(self, topic: str) -> Any:
        raise AssertionError("there is no topic")

    def _make(self, messages: DurableMessages) -> None:
        """Create the log in the loop's next turn."""
        partition = Partition(self._world.log(PLACE), flusher=self._world.directory.flusher)
        partition.role.lead(LeaderEpoch(1))
        self._world.clock.call_later(0, lambda: messages.have_log(partition))


class PortPlace:
    """A vhost with the queue `q`, and what its channels were sent."""

    def __init__(self, arguments: dict[str, object] | None = None, *, durable: bool) -> None:
        self.world = World(config=CONFIG)
        self._logs = Logs(self.world) if durable else None
        hosts = self._hosts = self.new_hosts(self._logs)
        self.leader: QueueHost = hosts.hosts["/"]
        """The host of the queue."""
        flags = QueueFlags(durable=durable)
        self.leader.declare_queue("q", flags, arguments or {}, OWNER)
        self._sent: list[Delivery] = []
        self.cancelled: list[str] = []
        self.channel = self.new_channel()

    def new_hosts(self, durability: Any) -> VirtualHosts:
        """Create the vhosts of a broker."""
        memory = stores_in_memory(MemoryUse())
        return VirtualHosts(self.world.clock, lambda: bytes(16), memory, durability)

    @property
    def now(self) -> float:
        """The monotonic seconds of the channels' broker."""
        return self.world.clock.monotonic()

    @property
    def host(self) -> QueueHost:
        """The host that the channels use."""
        return self.leader

    @property
    def queue(self) -> Queue:
        """The queue, as the channels see it."""
        return self.leader.queues["q"]

    @property
    def is_stream(self) -> bool:
        """Whether the queue is a stream."""
        return self.queue.settings.queue_type is QueueType.STREAM

    # The channels

    def new_channel(self, number: int = 1) -> ChannelKit:
        """Return a channel of a client."""

        def cancelled(consumer: Consumer, refused: Refused | None) -> None:
            self.cancelled.append(consumer.tag)

        return ChannelKit(number, sent=self._sent.extend, cancelled=cancelled)

    def consume(self, tag: str = "c", channel: ChannelKit | None = None, **flags: Any) -> Consumer:
        """Add a consumer; raise Refused. A stream's reader begins with the first message."""
        if self.is_stream:
            flags = {"prefetch": 100, "wishes": FIRST, **flags}
        consumer = Consumer(self.queue, channel or self.channel, tag, **flags)
        refused = self.told(lambda done: self.host.consume(consumer, done), until_told=True)
        if refused is not None:
            raise refused
        return consumer

    def cancel(self, consumer: Consumer) -> None:
        """Cancel a consumer."""
        self.host.cancel(consumer)

    def publish(self, *bodies: str) -> list[bool]:
        """Publish messages in one pass; return which of them are stored in the end."""
        taken: list[bool] = []
        awaited: Awaited = {}
        for body in bodies:
            accepted = self.host.publish(["q"], persistent(body), awaited, len(taken))
            taken.append(accepted)
        unstored = self.told(lambda done: self.host.when_stored(awaited, done))
        return [each and number not in unstored for number, each in enumerate(taken)]

    def published(self, *bodies: str) -> None:
        """Publish messages, and wait until they are stored."""
        assert all(self.publish(*bodies))

    def wake(self, channel: ChannelKit) -> None:
        """End a channel's method: queues may deliver because of it."""
        self.host.touched(channel.woken)
        channel.woken.clear()

    def run(self) -> None:
        """End a pass: writes, deliveries, flushes."""
        if self._logs is not None:
            self._logs.logs.write()
        self._hosts.turns.run()
        self.world.settle()

    def settle(self) -> None:
        """Let all that is due happen: writes, flushes, deliveries."""
        for _ in range(10):
            self.run()
        self.world.clock.advance(0.2)  # settlements are written
        self.world.settle()

    def sent(self) -> list[str]:
        """Let all happen; return the deliveries since, as `tag:consumer:body`, `*`: redelivered."""
        self.settle()
        found = [shown(each) for each in self._sent]
        self._sent.clear()
        return found

    def take_sent(self) -> list[Delivery]:
        """Return the deliveries since."""
        found = [*self._sent]
        self._sent.clear()
        return found

    def sent_now(self, deliveries: list[Delivery]) -> None:
        """Note deliveries of basic.get with those of the consumers."""
        self._sent += deliveries

    def get(self, channel: ChannelKit | None = None) -> Delivery | None:
        """Do a basic.get; return the delivery, or None if no message is ready. Raise Refused."""
        now = self.now

        def ask(done: Done[Any]) -> None:
            self.queue.get(getter(self.queue, channel or self.channel, done, now), now)

        found = self.told(ask)
        if isinstance(found, Refused):
            raise found
        return found  # type: ignore[no-any-return]

    def purge(self) -> int:
        """Purge the queue; return the number of messages. Raise Refused."""
        found = self.told(lambda done: self.host.purge(self.queue, done))
        if isinstance(found, Refused):
            raise found
        return found  # type: ignore[no-any-return]

    def counts(self) -> QueueInfo:
        """Return the queue's counts."""
        return self.told(self.queue.ask_info)  # type: ignore[no-any-return]

    def delete(self) -> None:
        """Delete the queue."""
        self.leader.delete_queue("q", OWNER, if_unused=False, if_empty=False)
        self.settle()

    def told(self, ask: Callable[[Done[Any]], object], *, until_told: bool = False) -> Any:
        """Call `ask` with a callback; return its argument, which must come once.

        `until_told`: let only happen what it needs.
        """
        given: list[Any] = []
        ask(given.append)
        if not (given and until_told):
            self.settle()
        (found,) = given
        return found


def persistent(body: str, priority: int = 0) -> Published:
    """Return a persistent message."""
    properties = Properties(delivery_mode=2, priority=priority)
    return Published(message(body, properties), priority, None, True)


def shown(delivery: Delivery) -> str:
    """Return a delivery as `tag:consumer:body`, with `*` if it is redelivered."""
    consumer, tag, found, redelivered, _ = delivery
    return f"{tag}:{consumer.tag}:{found.body.decode()}{'*' * redelivered}"
