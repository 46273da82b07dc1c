"""`WritePass`: the appends of one pass, written together before the answers that depend on them.

A session calls `begin` before it appends; from then on the disk delays the pass's writes. Its
answers in the pass are of two kinds:

* valid once the writes have succeeded: the session calls `promise`; if a write fails, no answer of
  the pass leaves;
* valid later, once the high watermark has advanced: sent at that time.

`end` performs the writes; the session's `pass_done` returns its result.
"""

from collections import deque
from typing import TYPE_CHECKING, Protocol

from headrace.net.pending import Pending
from headrace.net.session import CloseConnection

if TYPE_CHECKING:
    from collections.abc import Callable


class Writes(Protocol):
    """Delays writes and performs them: `broker.gathered_writes.GatheredWrites`."""

    begin: "Callable[[], None]"
    """Delay writes from now on; may be called repeatedly."""

    def end(self, later: "Callable[[bool], None]", /) -> bool | None:
        """Perform the writes; return whether some failed. None: `later` gets that, in pass
        order."""


class WritePass:
    """The current pass of a frontend; one object serves all passes in turn."""

    __slots__ = ("_promised", "_unwritten", "_writes", "begin")

    def __init__(self, writes: Writes | None) -> None:
        """Make a write pass; without `writes` each append is written at once and raises errors."""
        self.begin: Callable[[], None] = _write_at_once if writes is None else writes.begin
        """To be called before a session appends."""
        self._writes = writes
        self._promised = False
        self._unwritten: deque[tuple[Pending, bool]] = deque()
        """Passes whose writes a thread performs, and whether their answers depend on them."""

    def promise(self) -> None:
        """Mark the pass: its answers are valid only if its writes succeed."""
        self._promised = True

    def end(self) -> Pending | None:
        """Perform the writes; CloseConnection if one failed and something was promised.

        The pass's answers must wait for the returned Pending, if any.
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
        """Resolve the oldest waiting pass, as its writes have succeeded or failed."""
        pending, promised = self._unwritten.popleft()
        if failed and promised:
            pending.fail(_not_written())
        else:
            pending.resolve(None)


def _write_at_once() -> None:
    """Do nothing: writes are not delayed."""


def _not_written() -> CloseConnection:
    return CloseConnection(
        "the records could not be written, so none is acknowledged: the log directory has"
        " failed, as logged above"
    )
