"""The pass of a dispatcher: requests of one read, whose appends are written together.

`net.write_pass` gathers the writes of every protocol, does them, and holds back answers that
promise a write which failed. Kafka adds commit groups: answers that wait for the high watermark.
Consecutive requests share a group, and any other answer in between ends it (`end_group`), as
answers are sent in the order of the requests.
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
    """The present pass of a dispatcher; one object serves all passes, one after the other."""

    __slots__ = ("_deadlines", "_end_writes", "_groups", "begin", "group", "now", "promise")

    def __init__(
        self,
        deadlines: "Deadlines",
        writes: Writes | None,
        now: "Callable[[], float]",
    ) -> None:
        """Without `writes` each append is written at once. `now`: monotonic seconds."""
        written_together = WritePass(writes)
        self.now = now
        """Monotonic seconds, for request times."""
        self.begin = written_together.begin
        """Called before a request appends in the pass."""
        self.promise = written_together.promise
        """Marks an answer as valid only if the pass's writes succeed."""
        self.group: CommitGroup | None = None
        """The group that the next request may join; None: a new one is needed."""
        self._deadlines = deadlines
        self._end_writes = written_together.end
        self._groups: list[CommitGroup] = []

    def open_group(self) -> CommitGroup:
        """Begin a group, which the next requests may join."""
        group = self.group = CommitGroup(self.now)
        self._groups.append(group)
        return group

    def group_of(self, route: "Framer") -> CommitGroup:
        """Return the group for requests of `route`: the last one if it fits, else a new one."""
        group = self.group
        if group is None or not group.fits(route):
            group = self.open_group()
            group.fits(route)
        return group

    def end_group(self) -> None:
        """End the present commit group: another answer follows it."""
        self.group = None

    def end(self) -> "Pending | None":
        """Do the writes; return the pending writes that the pass's answers must wait for, or None.

        Raises CloseConnection if a write failed and an answer was promised.
        """
        try:
            return self._end_writes()
        finally:
            self.group = None
            if self._groups:
                groups, self._groups = self._groups, []
                for group in groups:
                    group.watch(self._deadlines)
