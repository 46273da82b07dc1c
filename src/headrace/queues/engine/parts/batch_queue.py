"""A queue that also takes record batches, as their producers made them.

The producer is another broker, with the publishes of its clients (ADR 79). The log recognises a
batch that it has. Without room for a whole batch the queue takes nothing of it, and tells for how
many messages it has room: the producer makes a batch of these.
"""

from collections.abc import Callable, Sequence
from typing import cast

from headrace.queue_stores.message_store import BatchStore
from headrace.queue_stores.queue_settings import Published
from headrace.queue_stores.record_messages import record_bytes
from headrace.queues.engine.message_queue import MessageQueue
from headrace.queues.engine.priority_level import MessageLevel


class BatchQueue(MessageQueue):
    """A queue whose logs may take batches: each priority has one."""

    _opening: Sequence[Callable[[], None]] = ()

    def when_open(self, done: Callable[[], None]) -> None:
        """Call `done` once the log that is being loaded is open, or cannot be loaded.

        Messages that are published before wait one by one: no log recognises their batch.
        """
        self._opening = [*self._opening, done]

    def end_opening(self) -> None:
        """Call what waits for the logs."""
        opening, self._opening = self._opening, ()
        for done in opening:
            done()

    @property
    def batch_bytes_max(self) -> int:
        """Bytes of messages that the queue's logs take in one batch; 0: it has none open."""
        store = self._plain.store
        return store.batch_bytes_max if isinstance(store, BatchStore) else 0

    def _batch_level(self, contents: Sequence[Published]) -> MessageLevel:
        return self._level_of(min(contents[0].priority, self._width - 1))

    def takes_batch(self, contents: Sequence[Published]) -> bool:
        """Tell whether `publish_batch` may be called: all messages go to one open log."""
        width = self._width
        store = self._batch_level(contents).store
        one_log = width == 1 or len({min(each.priority, width - 1) for each in contents}) == 1
        return one_log and isinstance(store, BatchStore)

    def publish_batch(self, contents: Sequence[Published], batch: bytes, now: float) -> int:
        """Accept the messages of a batch, unless the log has them; raise HeadraceError.

        Returns how many messages the queue has room for: with fewer than all it accepts none.
        """
        store = cast("BatchStore", self._batch_level(contents).store)
        if store.has_batch(batch, sum(record_bytes(each.message) for each in contents)):
            return len(contents)
        room = self._room_for(contents, now)
        if room == len(contents):
            for each in contents:
                self.publish(each, now)
            store.write(batch)
        return room

    def _room_for(self, contents: Sequence[Published], now: float) -> int:
        """Return how many of the first messages of a batch the queue has room for.

        The others are refused, and dead-lettered if the queue does so.
        """
        settings = self.settings
        if not self._limited or settings.never_refuses(contents[0]):
            return len(contents)
        self._run(now)
        size = self.ready_bytes
        for room, each in enumerate(contents):
            size += len(each.message.body)
            if settings.exceeds(self.ready + room + 1, size):
                for refused in contents[room:]:
                    self._refused(refused)
                return room
        return len(contents)
