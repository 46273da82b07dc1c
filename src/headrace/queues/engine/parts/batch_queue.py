"""A queue that also takes record batches, as their producers made them.

The producer is another broker, with the publishes of its clients (ADR 79). The log recognises a
batch that it has. Without room for a whole batch the queue takes nothing of it, and tells for how
many messages it has room: the producer makes a batch of these.
"""

from collections.abc import Callable, Sequence
from typing import cast

from headrace.queue_stores.message_store import BatchStore
from headrace.queue_stores.queue_settings import PublishedRun
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

    def _batch_level(self, runs: Sequence[PublishedRun]) -> MessageLevel:
        return self._level_of(min(runs[0].priority, self._width - 1))

    def takes_batch(self, runs: Sequence[PublishedRun]) -> bool:
        """Tell whether `publish_batch` may be called: all messages go to one open log."""
        store = self._batch_level(runs).store
        one_log = len({min(run.priority, self._width - 1) for run in runs}) == 1
        return one_log and isinstance(store, BatchStore)

    def publish_batch(self, runs: Sequence[PublishedRun], batch: bytes, now: float) -> int:
        """Accept the messages of a batch, unless the log has them; raise HeadraceError.

        Returns how many messages the queue has room for: with fewer than all it accepts none.
        """
        count = sum(len(run.messages) for run in runs)
        level = self._batch_level(runs)
        store = cast("BatchStore", level.store)
        if store.has_batch(batch):
            return count
        room = self._room_for(runs, count, now)
        if room == count:
            for run in runs:
                self._publish_run(run, level, store, now)
            store.write(batch)
        return room

    def _publish_run(
        self, run: PublishedRun, level: MessageLevel, store: BatchStore, now: float
    ) -> None:
        """Accept messages: those that no limit and no expiry concerns at once."""
        if self._limited or run.expiration_ms is not None or self.settings.ttl_ms is not None:
            for each in run.each():
                self.publish(each, now)
            return
        store.append_all(run.messages, persistent=run.persistent)
        count = len(run.messages)
        level.fresh += count
        self.ready += count
        self.traffic.published += count
        self.ready_bytes += sum([len(message.body) for message in run.messages])

    def _room_for(self, runs: Sequence[PublishedRun], count: int, now: float) -> int:
        """Return how many of the first messages of a batch of `count` the queue has room for.

        The others are refused, and dead-lettered if the queue does so.
        """
        settings = self.settings
        contents = [] if not self._limited else [each for run in runs for each in run.each()]
        if not contents or settings.never_refuses(contents[0]):
            return count
        self._run(now)
        size = self.ready_bytes
        for room, each in enumerate(contents):
            size += len(each.message.body)
            if settings.exceeds(self.ready + room + 1, size):
                for refused in contents[room:]:
                    self._refused(refused)
                return room
        return count
