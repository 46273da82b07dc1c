"""What the hot handlers of one broker keep between requests."""

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from headrace.frontends.kafka.connection.api import Api
from headrace.frontends.kafka.connection.deadlines import Deadlines
from headrace.frontends.kafka.connection.request_pass import RequestPass
from headrace.frontends.kafka.fetch.fetch_sessions import FetchSessions
from headrace.ports.clock import Clock, Random

if TYPE_CHECKING:
    from headrace.broker.gathered_writes import GatheredWrites

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
        writes: "GatheredWrites | None" = None,
    ) -> None:
        self.now = clock.monotonic
        """Seconds, for how long requests take."""
        self.spawn = spawn
        """Runs what a hot handler cannot do at once."""
        self.apis = apis
        """What is served and advertised."""
        self.deadlines = Deadlines(clock)
        self.request_pass = RequestPass(self.deadlines, writes, self.now)
        """The one that hot handlers append in."""
        self.fetch_sessions = FetchSessions(clock, random, fetch_sessions_max)
        self._answers: dict[Question, bytes] = {}
        self._answers_of = -1

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
