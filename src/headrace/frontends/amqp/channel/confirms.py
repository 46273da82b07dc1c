"""Publisher confirms: publishes are numbered, and acknowledged in their order, many at once.

What one pass brought is a batch: it is confirmed once every store that keeps a persistent message
of it for good has done so. Returns are sent while publishing, so they come before.
"""

from collections import deque
from typing import TYPE_CHECKING

from headrace.frontends.amqp.connection.ports import Outlet
from headrace.wire.amqp.hot import encode_ack, encode_nack

if TYPE_CHECKING:
    from headrace.queues.engine.targets import Target


class _Batch:
    """Publishes `first` to `last`."""

    __slots__ = ("first", "last", "lost", "refused", "waits_for")

    def __init__(self, first: int, last: int, refused: list[int], waits_for: int) -> None:
        self.first = first
        self.last = last
        self.refused = refused
        """Those that a queue had no room for."""
        self.waits_for = waits_for
        """Stores that have not kept it yet."""
        self.lost = False
        """A store could not keep it."""


class Confirms:
    """The confirms of one channel."""

    def __init__(self, outlet: Outlet) -> None:
        self._outlet = outlet
        self.next = 1
        """The number of the next publish."""
        self.refused: list[int] = []
        """Publishes of this pass that a queue had no room for."""
        self.awaited: dict[Target, None] = {}
        """Queues and topics that keep messages of this pass later."""
        self._first = 1
        self._batches: deque[_Batch] = deque()

    def flush(self) -> None:
        """End the batch: confirm it, at once or when it is kept."""
        if self.next == self._first:
            return
        stores = [store for queue in self.awaited for store in queue.late_stores]
        batch = _Batch(self._first, self.next - 1, self.refused, len(stores))
        self._first, self.refused, self.awaited = self.next, [], {}
        self._batches.append(batch)

        def stored(kept: bool) -> None:
            batch.waits_for -= 1
            batch.lost = batch.lost or not kept
            self._send_ready()

        for store in stores:
            store.when_stored(stored)
        if not stores:
            self._send_ready()

    def _send_ready(self) -> None:
        """Send the confirms of the oldest batches as far as they are kept."""
        frames: list[bytes] = []
        number = self._outlet.number
        batches = self._batches
        while batches and not batches[0].waits_for:
            batch = batches.popleft()
            if batch.lost:
                frames.append(encode_nack(number, batch.last, batch.last > batch.first))
                continue
            first = batch.first
            for refused in batch.refused:
                if refused > first:
                    frames.append(encode_ack(number, refused - 1, refused - 1 > first))
                frames.append(encode_nack(number, refused, False))
                first = refused + 1
            if batch.last >= first:
                frames.append(encode_ack(number, batch.last, batch.last > first))
        if frames:
            self._outlet.write(b"".join(frames))
