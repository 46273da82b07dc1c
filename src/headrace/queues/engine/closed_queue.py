"""The placeholder of a queue that was closed because its state contradicts itself.

A queue whose leader is another broker has it, too, until `QueueHost.host` runs the queue again.

    InvariantError in a call of the port, a turn, a timer or its store
      -> QueueHost.broke: log an error, count it, close the consumers' connections (541)
      -> HostedQueue.abandon: stop writing to its stores; its messages on disk stay
      -> ClosedQueue under its name: refuses all but deletion

Deleting and declaring the queue again makes a new queue. A restart restores a durable queue from
the disk.
"""

from typing import TYPE_CHECKING, Literal

from headrace.model.errors import HeadraceError
from headrace.queues.engine.consumers import Consumers
from headrace.queues.port import ALL_STORED, QueueInfo
from headrace.queues.refusals import RefusalKind, Refused

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from headrace.queue_stores.message_store import LateStore, MessageStore
    from headrace.queue_stores.queue_settings import Published, QueueSettings
    from headrace.queues.engine.dead_letters import DeadLetter
    from headrace.queues.engine.deliveries import Served
    from headrace.queues.engine.delivery_turns import AnyQueue
    from headrace.queues.engine.parts.purging_queue import Purged
    from headrace.queues.model.declarations import DeclaredQueue
    from headrace.queues.port import (
        ConsumeDone,
        Consumer,
        Disposition,
        Getter,
        PurgeDone,
        UnstoredDone,
    )
    from headrace.queues.queue_traffic import QueueTraffic


class ClosedQueue:
    """A queue closed by a broken invariant: refuses all but deletion. Implements `port.Queue`."""

    is_stream: Literal[False] = False
    timed = takes_turns = more = deleted = is_left = paused = False
    confirms_late = confirms_transient = False
    last_number = None
    ready = ready_bytes = unacked = last_batch = 0

    def __init__(self, queue: "AnyQueue", refused: "Refused") -> None:
        """Take the place of `queue`; `refused` is the error that its clients are sent."""
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
        self.led_elsewhere = refused.kind is RefusalKind.NOT_FOUND
        """Whether another broker leads the queue; else its state contradicts itself."""
        self._queue = queue

    def ask_info(self, done: "Callable[[QueueInfo], None]") -> None:
        """Report counts of 0: a closed queue delivers no message. Implements `port.Queue`."""
        done(QueueInfo(0, 0, 0, 0))

    def apply(self, settings: "QueueSettings") -> None:
        """Show other settings: a closed queue does nothing by them. Implements `port.Queue`."""
        self.settings = settings
        self.consumer_timeout_ms = settings.consumer_timeout_ms

    def publish(self, published: "Published", now: float) -> bool:
        """Raise HeadraceError: a closed queue accepts no message.

        The publisher is sent a nack, or its connection is closed.
        """
        raise HeadraceError(str(self._refused))

    def when_stored(self, done: "UnstoredDone") -> None:
        """Call `done` at once: a closed queue has accepted no message to wait for."""
        done(ALL_STORED)

    def consume(self, consumer: "Consumer", now: float, done: "ConsumeDone") -> None:
        """Raise Refused: a closed queue accepts no consumer. Implements `port.Queue`."""
        raise self._refused

    def get(self, getter: "Getter", now: float) -> None:
        """Raise Refused: a closed queue answers no basic.get. Implements `port.Queue`."""
        raise self._refused

    def ask_purge(self, done: "PurgeDone") -> None:
        """Raise Refused: the messages of a closed queue cannot be purged."""
        raise self._refused

    def purge_below(self, priority: int, below: int) -> "Purged":
        """Raise Refused: the messages of a closed queue cannot be purged."""
        raise self._refused

    def cancel(self, consumer: "Consumer", now: float) -> None:
        """Ignore the cancellation: a closed queue has no consumers. Implements `port.Queue`."""

    def credit(self, consumer: "Consumer") -> None:
        """Ignore the credit: a closed queue delivers nothing. Implements `port.Queue`."""

    def settle(
        self, disposition: "Disposition", positions: "Sequence[int]", sizes: "Sequence[int]" = ()
    ) -> None:
        """Ignore settlements of deliveries made before the queue was closed.

        Implements `port.Queue`.
        """

    def deliver(self, now: float) -> "Served":
        """Return an empty mapping: a closed queue delivers no message."""
        return {}

    def take_dead_letters(self) -> "list[DeadLetter]":
        """Return an empty list: a closed queue dead-letters no message."""
        return []

    def dead_letters_stored(self, letters: "Iterable[DeadLetter]") -> None:
        """Leave published dead letters unsettled: a restart may publish them once more."""

    def touch(self, now: float) -> None:
        """Ignore a use of the queue: a closed queue does not expire."""

    def begin_answer(self) -> None:
        """Ignore that a declaration is being stored: a closed queue does not expire."""

    def end_answer(self) -> None:
        """Ignore that a declaration was answered: a closed queue does not expire."""

    def arm(self) -> None:
        """Set no timer: a closed queue does not expire."""

    def disarm(self) -> None:
        """Cancel no timer: a closed queue has none."""

    def expire(self, now: float) -> bool:
        """Return False: a closed queue does not expire."""
        return False

    def abandon(self, refused: "Refused") -> None:
        """Ignore a second failure: the queue is closed already."""

    def resign(self, refused: "Refused") -> None:
        """Ignore that another broker leads the queue: its stores are abandoned already."""

    def drop_stores(self) -> None:
        """Leave the stores: `delete` drops those of the queue that was closed."""

    def delete(self) -> int:
        """Delete the queue and its stored messages; return 0, the number of ready messages."""
        self.deleted = True
        self._queue.drop_stores()
        return 0
