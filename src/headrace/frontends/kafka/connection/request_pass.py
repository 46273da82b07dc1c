"""One pass: the requests of one read, whose appends are written together before they are answered.

A request that appends says `begin` first: from then on the disk holds the pass's writes back. Its
answer is one of two kinds:

* given at once, where it is true as soon as the writes have gone through (acks 0 and 1, or a high
  watermark already there): it says `promise`, and if a write fails, no answer of the pass leaves;
* given later, once the high watermark has come far enough: it joins a commit group. Consecutive
  requests share one, and any other answer between them ends it (`end_group`), for answers leave in
  the order of the requests.

`end` has the writes done, and lets the groups wait.
"""

from collections import deque
from typing import TYPE_CHECKING

from headrace.frontends.kafka.produce.commit_group import CommitGroup
from headrace.net.pending import Pending
from headrace.net.session import CloseConnection

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.broker.gathered_writes import GatheredWrites
    from headrace.frontends.kafka.produce.commit_group import Framer
    from headrace.ports.deadlines import Deadlines


class RequestPass:
    """The present pass of a dispatcher; the same object serves one pass after the other."""

    __slots__ = (
        "_deadlines",
        "_groups",
        "_promised",
        "_unwritten",
        "_writes",
        "begin",
        "group",
        "now",
    )

    def __init__(
        self,
        deadlines: "Deadlines",
        writes: "GatheredWrites | None",
        now: "Callable[[], float]",
    ) -> None:
        """Without `writes` each append is written when it is made, and none fails unnoticed.

        `now`: monotonic seconds.
        """
        self.now = now
        """Monotonic seconds, for how long requests take."""
        self.begin: Callable[[], None] = _write_at_once if writes is None else writes.begin
        """A request is about to append."""
        self.group: CommitGroup | None = None
        """The group that the next request may join."""
        self._deadlines = deadlines
        self._writes = writes
        self._groups: list[CommitGroup] = []
        self._promised = False
        self._unwritten: deque[tuple[Pending, bool]] = deque()
        """Passes whose writes are being done, and whether an answer of theirs counts on them."""

    def promise(self) -> None:
        """Promise an answer that is true only once the pass's writes have gone through."""
        self._promised = True

    def open_group(self) -> CommitGroup:
        """Begin a group: the next requests may join it."""
        group = self.group = CommitGroup(self.now)
        self._groups.append(group)
        return group

    def group_of(self, route: "Framer") -> CommitGroup:
        """Return the group that requests which came by `route` join: the last one where it fits."""
        group = self.group
        if group is None or not group.fits(route):
            group = self.open_group()
            group.fits(route)
        return group

    def end_group(self) -> None:
        """End the group: an answer comes between, and what waits after it is in another group."""
        self.group = None

    def end(self) -> Pending | None:
        """Do the writes; CloseConnection where one failed and an answer was promised.

        The answers of the pass must wait for what is returned, if anything is.
        """
        failed = False if self._writes is None else self._writes.end(self._written)
        promised, self._promised = self._promised, False
        self.group = None
        if self._groups:
            groups, self._groups = self._groups, []
            for group in groups:
                group.watch(self._deadlines)
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
