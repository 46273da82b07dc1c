"""A request that waits until enough is there, its time is over, or its client has gone.

One mechanism for Fetch and ShareFetch. Whoever answers looks; this says when to look again.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.broker.watchable import Watched
    from headrace.net.pending import Pending
    from headrace.ports.clock import Clock
    from headrace.ports.deadlines import Deadlines

GATHER_SECONDS = 0.002
"""How long records gather before a request that wants many of them looks again."""


class LongPoll:
    """One request's wait: from its making to `end`, which whoever answers calls."""

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
        """Wait up to `seconds`, then call `expire`; until then `look` when more may be there.

        Who wants `bytes_min` bytes, more than one, is looked for when they had time to gather.
        `on_end`: called when the wait is over, answered, expired or abandoned.
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

    def watch(self, sources: "Iterable[Watched]") -> None:
        """Be woken by these as well, until the wait ends."""
        for source in sources:
            if source not in self._watched:
                self._watched[source] = None
                source.watch(self.wake)

    def wake(self) -> None:
        """Look for more when this turn is over, or when more has gathered."""
        if not self._woken:
            self._woken = True
            self._clock.call_later(self._gather_seconds, self._look_again)

    def _look_again(self) -> None:
        self._woken = False
        if not self._over and not self._pending.done:
            self._look()

    def expire(self) -> None:
        """Wait no longer: answer with what there is."""
        if not self._over:
            expire = self._expire
            self.end()
            expire()

    def end(self) -> None:
        """Look no more. More than once is fine."""
        if self._over:
            return
        self._over = True
        for source in self._watched:
            source.unwatch(self.wake)
        self._watched.clear()
        if self._on_end is not None:
            self._on_end()
        # What knows each other stays for the collector.
        self._look = self._expire = self._on_end = _nothing


def _nothing() -> None:
    """Do nothing: the wait is over."""
