"""A queue that was closed because its state contradicts itself; it stands in the queue's place.

    InvariantError in a call of the port, a turn, a timer or its store
      -> QueueHost.broke: a log line, a count, the consumers' connections are told (541)
      -> HostedQueue.abandon: nothing more is written of it, its messages on disk stay
      -> ClosedQueue under its name: refuses all but deletion

Deleting and declaring it again makes a new queue. A restart restores a durable one from the disk.
"""

from typing import TYPE_CHECKING, Literal

from headrace.model.errors import HeadraceError
from headrace.queues.engine.consumers import Consumers
from headrace.queues.message_store import StoredDone
from headrace.queues.port import QueueInfo

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from headrace.queues.engine.dead_letters import DeadLetter
    from headrace.queues.engine.deliveries import Served
    from headrace.queues.engine.delivery_turns import AnyQueue
    from headrace.queues.engine.hosted_queue import Purged
    from headrace.queues.engine.ready_messages import QueueTraffic
    from headrace.queues.message_store import LateStore, MessageStore
    from headrace.queues.model.declarations import DeclaredQueue
    from headrace.queues.port import Consumer, Disposition, Getter
    from headrace.queues.queue_settings import Published, QueueSettings
    from headrace.queues.refusals import Refused


class ClosedQueue:
    """A closed queue. `port.Queue`."""

    is_stream: Literal[False] = False
    timed = takes_turns = more = deleted = is_left = False
    confirms_late = confirms_transient = False
    ready = ready_bytes = unacked = last_batch = 0

    def __init__(self, queue: "AnyQueue", refused: "Refused") -> None:
        """`refused`: what its clients are told."""
        self.declared: DeclaredQueue = queue.declared
        self.settings: QueueSettings = queue.settings
        self.name: str = queue.name
        self.title: str = queue.title
        self.consumer_timeout_ms: int | None = queue.consumer_timeout_ms
        self.traffic: QueueTraffic = queue.traffic
        self.consumers = Consumers(single_active=False)
        self.failure: str | None = None
        self.late_stores: list[LateStore] = []
        self.stores: list[MessageStore] = []
        self.refused: Refused | None = refused
        self._refused = refused
        self._queue = queue

    def info(self) -> QueueInfo:
        """Return that there is nothing. `port.Queue`."""
        return QueueInfo(0, 0, 0, 0)

    def publish(self, published: "Published", now: float) -> bool:
        """Refuse a message: the publisher is sent a nack, or its connection is closed."""
        raise HeadraceError(str(self._refused))

    def when_stored(self, done: StoredDone) -> None:
        """Call `done`: nothing was taken."""
        done(True)

    def consume(self, consumer: "Consumer", now: float) -> None:
        """Refuse. `port.Queue`."""
        raise self._refused

    def get(self, getter: "Getter", now: float) -> None:
        """Refuse. `port.Queue`."""
        raise self._refused

    def purge(self) -> int:
        """Refuse."""
        raise self._refused

    def purge_below(self, priority: int, below: int) -> "Purged":
        """Refuse."""
        raise self._refused

    def cancel(self, consumer: "Consumer", now: float) -> None:
        """Do nothing: it has no consumers. `port.Queue`."""

    def credit(self, consumer: "Consumer") -> None:
        """Do nothing. `port.Queue`."""

    def settle(
        self, disposition: "Disposition", positions: "Sequence[int]", sizes: "Sequence[int]" = ()
    ) -> None:
        """Do nothing. `port.Queue`."""

    def deliver(self, now: float) -> "Served":
        """Deliver nothing."""
        return {}

    def take_dead_letters(self) -> "list[DeadLetter]":
        """Return none."""
        return []

    def dead_letters_stored(self, letters: "Iterable[DeadLetter]") -> None:
        """Do nothing: they were published, and may be again after a restart."""

    def touch(self, now: float) -> None:
        """Do nothing."""

    def begin_answer(self) -> None:
        """Do nothing."""

    def end_answer(self) -> None:
        """Do nothing."""

    def arm(self) -> None:
        """Do nothing."""

    def disarm(self) -> None:
        """Do nothing."""

    def expire(self, now: float) -> bool:
        """Return False: it does not expire."""
        return False

    def abandon(self, refused: "Refused") -> None:
        """Do nothing: it is closed."""

    def drop_stores(self) -> None:
        """Do nothing: `delete` does."""

    def delete(self) -> int:
        """Delete its messages; returns 0."""
        self.deleted = True
        self._queue.drop_stores()
        return 0
