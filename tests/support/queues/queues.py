"""A queue of AMQP on its own, with channels and consumers, on a clock that a test moves."""

from collections.abc import Mapping

from headrace.ports.callbacks import ignore_result
from headrace.queue_stores.memory.memory_messages import MemoryMessages
from headrace.queue_stores.memory.memory_use import MemoryUse
from headrace.queue_stores.message_store import MessageStore
from headrace.queue_stores.queue_settings import Overflow, Published, QueueSettings, QueueType
from headrace.queues.engine.message_queue import MessageQueue
from headrace.queues.port import Consumer
from headrace.wire.amqp.content import Message
from tests.support.amqp.deliveries import ChannelKit, Delivery, delivered, got


def settings(
    *,
    ttl_ms: int | None = None,
    expires_ms: int | None = None,
    length_max: int | None = None,
    length_bytes_max: int | None = None,
    overflow: Overflow = Overflow.DROP_HEAD,
    dead_letters: bool = False,
    priority_max: int | None = None,
    single_active_consumer: bool = False,
    delivery_limit: int | None = None,
    consumer_timeout_ms: int | None = None,
    queue_type: QueueType = QueueType.CLASSIC,
) -> QueueSettings:
    """The settings of a queue; what is dead goes to the exchange "dead"."""
    return QueueSettings(
        queue_type=queue_type,
        ttl_ms=ttl_ms,
        expires_ms=expires_ms,
        length_max=length_max,
        length_bytes_max=length_bytes_max,
        overflow=overflow,
        dead_letter_exchange="dead" if dead_letters else None,
        priority_max=priority_max,
        single_active_consumer=single_active_consumer,
        delivery_limit=delivery_limit,
        consumer_timeout_ms=consumer_timeout_ms,
    )


class QueueKit:
    """A queue, a channel, and the time."""

    def __init__(
        self,
        queue_settings: QueueSettings | None = None,
        kept: Mapping[int, MessageStore] | None = None,
    ) -> None:
        self.now = 100.0
        self.queue = MessageQueue(
            "queue 'q' in vhost '/'",
            queue_settings or settings(),
            lambda _: MemoryMessages(MemoryUse()),
            self.now,
            kept,
        )
        self.channel = ChannelKit(1)

    def publish(
        self, *bodies: str, priority: int = 0, expiration_ms: int | None = None
    ) -> list[bool]:
        """Publish messages of these bodies; tells which were taken."""
        return [
            self.queue.publish(Published(message_of(body), priority, expiration_ms), self.now)
            for body in bodies
        ]

    def consume(
        self,
        tag: str = "c",
        *,
        channel: ChannelKit | None = None,
        prefetch: int = 0,
        priority: int = 0,
        no_ack: bool = False,
        exclusive: bool = False,
    ) -> Consumer:
        """Add a consumer, on the first channel if none is given."""
        consumer = Consumer(
            self.queue,  # type: ignore[arg-type]  # it is on its own, without a name
            channel or self.channel,
            tag,
            no_ack=no_ack,
            exclusive=exclusive,
            prefetch=prefetch,
            priority=priority,
        )
        self.queue.consume(consumer, self.now, ignore_result)
        return consumer

    def deliver(self) -> list[str]:
        """What is handed out, as `consumer:body`, `again` after what is redelivered."""
        return [shown(delivery) for delivery in delivered(self.queue, self.now)]

    def get(self, *, no_ack: bool = False) -> str | None:
        """The next message for the first channel."""
        delivery = got(self.queue, self.channel, self.now, no_ack=no_ack)
        return None if delivery is None else shown(delivery)

    def woken(self) -> list[object]:
        """Queues that may deliver because of what the first channel did."""
        return list(self.channel.woken)

    def died(self) -> list[str]:
        """What died since this was asked last, as `body reason`; it is stored elsewhere then."""
        letters = self.queue.take_dead_letters()
        self.queue.dead_letters_stored(letters)
        return [
            f"{letter.message.body.decode()} {letter.reason.value}"
            for letter in letters
            if letter.message is not None
        ]


def memory_of(bytes_max: int) -> MemoryUse:
    """Memory in which messages may take so much, and no byte more."""
    use = MemoryUse()
    use.bytes_hard_max = use.spill_at = bytes_max
    return use


def message_of(body: str) -> Message:
    """A message without properties."""
    return Message("", "q", b"", body.encode())


def shown(delivery: Delivery) -> str:
    """A delivery in a few letters."""
    consumer, _, message, redelivered, _ = delivery
    again = " again" if redelivered else ""
    return f"{consumer.tag}:{message.body.decode()}{again}"


def positions_in(store: MessageStore) -> list[int]:
    """All positions that are not settled."""
    found: list[int] = []
    while positions := store.read(found[-1] + 1 if found else 0, 1 << 20)[0]:
        found += positions
    return found
