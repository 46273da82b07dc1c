"""Publisher confirms: publishes are numbered, and acknowledged in their order, many at once.

What one pass brought is a batch: it is confirmed once every store that keeps a persistent message
of it for good has done so. Returns are sent while publishing, so they come before.
"""

from collections import deque
from typing import TYPE_CHECKING

from headrace.frontends.amqp.connection.ports import Outlet
from headrace.wire.amqp.hot import encode_ack, encode_nack

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from headrace.queues.message_store import StoredDone
    from headrace.queues.port import Target

    WhenStored = Callable[[Collection[Target], StoredDone], None]


class _Batch:
    """Publishes `first` to `last`."""

    __slots__ = ("first", "last", "lost", "refused", "waits")

    def __init__(self, first: int, last: int, refused: list[int]) -> None:
        self.first = first
        self.last = last
        self.refused = refused
        """Those that a queue had no room for."""
        self.waits = True
        """A queue or topic has not stored it yet."""
        self.lost = False
        """One of them could not store it."""


class Confirms:
    """The confirms of one channel."""

    def __init__(self, outlet: Outlet, when_stored: "WhenStored") -> None:
        self._outlet = outlet
        self._when_stored = when_stored
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
        batch = _Batch(self._first, self.next - 1, self.refused)
        awaited = self.awaited
        self._first, self.refused, self.awaited = self.next, [], {}
        self._batches.append(batch)

        def stored(all_stored: bool) -> None:
            batch.waits = False
            batch.lost = not all_stored
            self._send_ready()

        self._when_stored(awaited, stored)

    def _send_ready(self) -> None:
        """Send the confirms of the oldest batches as far as they are kept."""
        frames: list[bytes] = []
        number = self._outlet.number
        batches = self._batches
        while batches and not batches[0].waits:
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
