"""One pass: the requests of one read, whose appends are written together before they are answered.

What every protocol's passes do is `net.write_pass`: hold writes back, do them, and let nothing
leave that was promised and not written. Kafka's have commit groups beside it: answers that are
given once the high watermark has come far enough. Consecutive requests share one, and any other
answer between them ends it (`end_group`), for answers leave in the order of the requests.

`end` has the writes done, and lets the groups wait.
"""

from typing import TYPE_CHECKING

from headrace.frontends.kafka.produce.commit_group import CommitGroup
from headrace.net.write_pass import WritePass, Writes

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.frontends.kafka.produce.commit_group import Framer
    from headrace.net.pending import Pending
    from headrace.ports.deadlines import Deadlines


class RequestPass:
    """The present pass of a dispatcher; the same object serves one pass after the other."""

    __slots__ = ("_deadlines", "_end_writes", "_groups", "begin", "group", "now", "promise")

    def __init__(
        self,
        deadlines: "Deadlines",
        writes: Writes | None,
        now: "Callable[[], float]",
    ) -> None:
        """Without `writes` each append is written when it is made, and none fails unnoticed.

        `now`: monotonic seconds.
        """
        written_together = WritePass(writes)
        self.now = now
        """Monotonic seconds, for how long requests take."""
        self.begin = written_together.begin
        """A request is about to append."""
        self.promise = written_together.promise
        """Promise an answer that is true only once the pass's writes have gone through."""
        self.group: CommitGroup | None = None
        """The group that the next request may join."""
        self._deadlines = deadlines
        self._end_writes = written_together.end
        self._groups: list[CommitGroup] = []

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

    def end(self) -> "Pending | None":
        """Do the writes; CloseConnection where one failed and an answer was promised.

        The answers of the pass must wait for what is returned, if anything is.
        """
        try:
            return self._end_writes()
        finally:
            self.group = None
            if self._groups:
                groups, self._groups = self._groups, []
                for group in groups:
                    group.watch(self._deadlines)
