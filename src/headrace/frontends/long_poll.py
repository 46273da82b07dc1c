"""Waiting of requests for records (Fetch, ShareFetch, pulls): until enough exist, or a timeout.

The request itself looks for records; this wait tells it when to look again.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.broker.watchable import Watched
    from headrace.net.pending import Pending
    from headrace.ports.clock import Clock
    from headrace.ports.deadlines import Deadlines

GATHER_SECONDS = 0.002
"""Seconds for which records gather before a request with large `min_bytes` checks again."""


class LongPoll:
    """The wait of a request, from its creation to `end`, which the request calls."""

    __slots__ = (
        "_clock", "_expire", "_gather_seconds", "_look", "_on_end", "_over", "_pending",
        "_watched", "_woken",
    )  # fmt: skip

    def __init__(
        self,
        clock: "Clock",
        deadlines: "Deadlines",
        pending: "Pending",
        *,
        seconds: float,
        bytes_min: int,
        look: Callable[[], None],
        expire: Callable[[], None],
        on_end: Callable[[], None] | None = None,
    ) -> None:
        """Wait up to `seconds`, then call `expire`; call `look` when there may be more records.

        With `bytes_min` above 1, `look` is called after records had time to gather. `on_end` is
        called when the wait is answered, expired or abandoned.
        """
        self._clock = clock
        self._pending = pending
        self._gather_seconds = 0.0 if bytes_min <= 1 else GATHER_SECONDS
        self._look = look
        self._expire = expire
        self._on_end = on_end
        self._watched: dict[Watched, None] = {}
        self._woken = False
        self._over = False
        pending.on_abandon = self.end
        deadlines.add(pending, seconds, self.expire)

    @property
    def is_over(self) -> bool:
        """Whether the wait has ended."""
        return self._over

    def watch(self, sources: "Iterable[Watched]") -> None:
        """Watch more sources that wake the request, until the wait ends."""
        for source in sources:
            if source not in self._watched:
                self._watched[source] = None
                source.watch(self.wake)

    def wake(self) -> None:
        """Have `look` called in the loop's next turn, or after records had time to gather."""
        if not self._woken:
            self._woken = True
            self._clock.call_later(self._gather_seconds, self._look_again)

    def _look_again(self) -> None:
        self._woken = False
        if not self._over and not self._pending.done:
            self._look()

    def expire(self) -> None:
        """End the wait, and answer with the available records."""
        if not self._over:
            expire = self._expire
            self.end()
            expire()

    def end(self) -> None:
        """End the wait and unwatch its sources; may be called several times."""
        if self._over:
            return
        self._over = True
        for source in self._watched:
            source.unwatch(self.wake)
        self._watched.clear()
        if self._on_end is not None:
            self._on_end()
        # Callbacks form reference cycles, which would be left to the garbage collector.
        self._look = self._expire = self._on_end = _nothing


def _nothing() -> None:
    """Do nothing: the wait is over."""
