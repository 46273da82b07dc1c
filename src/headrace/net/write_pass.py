"""What one pass appends, written together before what counts on it leaves: for every protocol.

A session that appends says `begin` first: from then on the disk holds the pass's writes back. What
it sends in the pass is one of two kinds:

* true as soon as the writes have gone through: it says `promise`, and if a write fails, nothing of
  the pass leaves;
* true later, once the high watermark has come far enough: it is sent then.

`end` has the writes done; a session returns from `pass_done` what `end` returns.
"""

from collections import deque
from typing import TYPE_CHECKING, Protocol

from headrace.net.pending import Pending
from headrace.net.session import CloseConnection

if TYPE_CHECKING:
    from collections.abc import Callable


class Writes(Protocol):
    """Holds writes back and does them. `broker.gathered_writes.GatheredWrites`."""

    begin: "Callable[[], None]"
    """Hold writes back from now on; again and again is fine."""

    def end(self, later: "Callable[[bool], None]", /) -> bool | None:
        """Do the writes; whether some failed. None: `later` is told, in the order of the passes."""


class WritePass:
    """The present pass of a frontend; the same object serves one pass after the other."""

    __slots__ = ("_promised", "_unwritten", "_writes", "begin")

    def __init__(self, writes: Writes | None) -> None:
        """Without `writes` each append is written when it is made, and none fails unnoticed."""
        self.begin: Callable[[], None] = _write_at_once if writes is None else writes.begin
        """A session is about to append."""
        self._writes = writes
        self._promised = False
        self._unwritten: deque[tuple[Pending, bool]] = deque()
        """Passes whose writes are being done, and whether what they send counts on them."""

    def promise(self) -> None:
        """Promise what is true only once the pass's writes have gone through."""
        self._promised = True

    def end(self) -> Pending | None:
        """Do the writes; CloseConnection where one failed and something was promised.

        What the pass sends must wait for what is returned, if anything is.
        """
        failed = False if self._writes is None else self._writes.end(self._written)
        promised, self._promised = self._promised, False
        if failed and promised:
            raise _not_written()
        if failed is not None:
            return None
        pending = Pending()
        self._unwritten.append((pending, promised))
        return pending

    def _written(self, failed: bool) -> None:
        """Note that the writes of the longest waiting pass are done, or some have failed."""
        pending, promised = self._unwritten.popleft()
        if failed and promised:
            pending.fail(_not_written())
        else:
            pending.resolve(None)


def _write_at_once() -> None:
    """Do nothing: no write is held back."""


def _not_written() -> CloseConnection:
    return CloseConnection(
        "its records could not be written, so none of them is acknowledged: the log directory has"
        " failed, and the log says why"
    )
