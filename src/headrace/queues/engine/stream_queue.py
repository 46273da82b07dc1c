"""A stream: a queue whose messages stay, and whose consumers each read them from where they want.

Consumers, their credit and their delivery tags are those of every queue; in place of the queue's
own order each consumer has a `MessageLevel` on a store of his own, his place in the stream. What he
acknowledges, rejects or gives back only makes room for more, as with RabbitMQ's streams, and
nothing is redelivered.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from headrace.ports.deadlines import Deadlines
from headrace.queues.engine.consumers import Consumer
from headrace.queues.engine.deliveries import Delivery, give
from headrace.queues.engine.hosted_queue import Getter, Hooks, HostedQueue, MakeStore
from headrace.queues.engine.message_queue import BATCH_BYTES_MAX, BATCH_MESSAGES_MAX
from headrace.queues.engine.priority_level import MessageLevel
from headrace.queues.message_store import MessageStore
from headrace.queues.model.declarations import Queue
from headrace.queues.queue_settings import Published
from headrace.queues.refusals import Refused, precondition_failed, unsupported
from headrace.queues.stores.stream.durable_stream import DurableStream

if TYPE_CHECKING:
    from headrace.queues.stores.stream.stream_reader import StreamReader

SHARE_MESSAGES_MAX = 100
"""What one reader is given before others have their turn."""


class StreamQueue(HostedQueue):
    """One stream. Limits, priorities, expiry and dead letters are none of its."""

    def __init__(
        self,
        queue: Queue,
        title: str,
        make_store: MakeStore,
        deadlines: Deadlines,
        hooks: Hooks,
        kept: Mapping[int, MessageStore] | None = None,
    ) -> None:
        """Refused PRECONDITION_FAILED: `make_store` makes none that streams can be in."""
        super().__init__(queue, title, make_store, deadlines, hooks, kept)
        store = self._plain.store
        if not isinstance(store, DurableStream):
            raise precondition_failed(
                f"{title} cannot be a stream: this broker keeps all queues in memory; declare it as"
                " a classic or a quorum queue"
            )
        self._stream = store
        self._places: dict[Consumer, tuple[MessageLevel, StreamReader]] = {}
        self._count()

    def _count(self) -> None:
        """Count what there is: others write to the log, and its retention takes from it."""
        self.ready = self._stream.ready

    def touch(self, now: float) -> None:
        """Count for who asks how many messages there are."""
        super().touch(now)
        self._count()

    def readable(self) -> None:
        """Let readers go on. `StoreOwner`."""
        self._count()
        super().readable()

    # Publishing

    def publish(self, published: Published, now: float) -> bool:
        """Take a message: a stream is never full. Raises what its log raises."""
        self._stream.append(published, None)
        self.traffic.published += 1
        return True

    # Consumers

    def consume(self, consumer: Consumer, now: float) -> None:
        """Add a reader. Refused: it does not say how much it takes, or is not acknowledging."""
        if not consumer.prefetch:
            raise precondition_failed(f"consumer prefetch count is not set for stream {self.title}")
        if consumer.no_ack:
            raise unsupported(f"automatic acknowledgement not supported by stream {self.title}")
        if consumer.channel.prefetch:
            raise unsupported(f"{self.title} does not support global qos")
        # As RabbitMQ: the flag is taken, and nobody has a stream for himself.
        consumer.exclusive = False
        super().consume(consumer, now)
        reader = self._stream.reader(consumer.wishes)
        self._places[consumer] = MessageLevel(0, reader), reader

    def cancel(self, consumer: Consumer, now: float) -> None:
        """Remove a reader, if he is there."""
        super().cancel(consumer, now)
        place = self._places.pop(consumer, None)
        if place is not None:
            self._stream.leave(place[1])

    def get_at_hand(self, getter: Getter, now: float) -> None:
        """Refuse: a stream is consumed. Refused."""
        raise self.unsupported("basic.get")

    def unsupported(self, method_name: str) -> Refused:
        """Return the error for a method that streams have not."""
        return unsupported(f"{method_name} not supported by stream queues {self.title}")

    # Handing out

    def deliver(self, now: float) -> list[Delivery]:
        """Hand out what is at hand to readers who have credit, a share to each in turn."""
        given: list[Delivery] = []
        count, size = BATCH_MESSAGES_MAX, BATCH_BYTES_MAX
        idle: list[Consumer] = []
        self.more = False
        while (ring := self.consumers.next_ring()) is not None:
            if count <= 0 or size <= 0:
                self.more = True
                break
            consumer = ring.popleft()
            level, _ = self._places[consumer]
            share = min(consumer.credit(), count, SHARE_MESSAGES_MAX)
            taken = level.take(share, size)
            if taken is None:
                idle.append(consumer)
                continue
            self.unacked += give(consumer, taken, given, now)
            self.traffic.delivered_of(taken)
            count -= len(taken.positions)
            size -= sum(taken.sizes)
            ring.append(consumer)
        for consumer in idle:
            self.consumers.enter(consumer)
        self._stream.end_turn(complete=not self.more)
        return given

    # What channels say

    def acknowledge(self, level: MessageLevel, positions: Sequence[int]) -> None:
        """Let the reader have more: for all others the messages are there as before."""
        self.unacked -= len(positions)
        self.traffic.acknowledged += len(positions)

    def requeue(self, level: MessageLevel, positions: Sequence[int], sizes: Sequence[int]) -> None:
        """Let the reader have more; what he gives back he is not given again."""
        self.unacked -= len(positions)

    def reject(self, level: MessageLevel, positions: Sequence[int]) -> None:
        """Let the reader have more: nothing dies."""
        self.unacked -= len(positions)

    # Ends

    def delete(self) -> int:
        """Delete the stream; returns 0: RabbitMQ does not say how many messages it had."""
        super().delete()
        return 0
