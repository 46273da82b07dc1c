"""What the hot handlers of one broker keep between requests."""

from collections.abc import Callable, Coroutine
from typing import Any

from headrace.frontends.kafka.connection.api import Api
from headrace.frontends.kafka.connection.deadlines import Deadlines
from headrace.frontends.kafka.fetch.fetch_sessions import FetchSessions
from headrace.frontends.kafka.produce.commit_group import CommitGroup
from headrace.ports.clock import Clock, Random

METADATA_ANSWERS_MAX = 256
METADATA_REQUEST_BYTES_MAX = 1024

Question = tuple[int, str, bytes]
"""A Metadata request: its version, the listener it came through, its body."""


class Shared:
    """Deadlines, fetch sessions, and Metadata answers made already."""

    def __init__(
        self,
        clock: Clock,
        random: Random,
        fetch_sessions_max: int,
        apis: tuple[Api, ...] = (),
        *,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
        gather: Callable[[], None] | None = None,
    ) -> None:
        self.now = clock.monotonic
        """Seconds, for how long requests take."""
        self.gather = gather
        """Has the disk hold this pass's writes back until the pass is done; None: it cannot."""
        self.group: CommitGroup | None = None
        """The group that the present pass's next acks=all request may join."""
        self.groups: list[CommitGroup] = []
        """Those of this pass that nobody watches yet."""
        self.promised = False
        """Whether this pass has an answer that is true only once its writes have gone through."""
        self.spawn = spawn
        """Runs what a hot handler cannot do at once."""
        self.apis = apis
        """What is served and advertised."""
        self.deadlines = Deadlines(clock)
        self.fetch_sessions = FetchSessions(clock, random, fetch_sessions_max)
        self._answers: dict[Question, bytes] = {}
        self._answers_of = -1

    def open_group(self) -> CommitGroup:
        """A new group, for this pass."""
        group = self.group = CommitGroup(self.now)
        self.groups.append(group)
        return group

    def watch_groups(self) -> None:
        """The pass is over, its writes are done: let its groups wait."""
        self.group = None
        groups, self.groups = self.groups, []
        for group in groups:
            group.watch(self.deadlines)

    def metadata_answer(self, image_version: int, question: Question) -> bytes | None:
        """The answer made for the same question while the cluster was the same."""
        if image_version != self._answers_of:
            self._answers.clear()
            self._answers_of = image_version
        return self._answers.get(question)

    def keep_metadata_answer(self, question: Question, answer: bytes) -> None:
        """Keep an answer until the cluster changes; a few, and for short questions only."""
        if len(question[2]) > METADATA_REQUEST_BYTES_MAX:
            return
        if len(self._answers) >= METADATA_ANSWERS_MAX:
            self._answers.clear()
        self._answers[question] = answer

    def close(self) -> None:
        """Wait for nothing any more."""
        self.deadlines.close()
