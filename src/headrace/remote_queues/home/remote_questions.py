"""A home's questions about a queue of another broker: its counts, and purges."""

from collections.abc import Callable

from headrace.ports.callbacks import Done, Once
from headrace.ports.clock import Clock
from headrace.queues.port import NO_INFO, PurgeDone, QueueInfo
from headrace.queues.refusals import Refused
from headrace.remote_queues.home.leader_link import LeaderLink
from headrace.remote_queues.messages import CloseIfEmpty, Counted, Info, Purge, PurgeEnded, Reopen

INFO_SECONDS_MAX = 1.0
"""Seconds after which counts known last are reported."""


class RemoteQuestions:
    """The questions of one queue that the leader has not answered."""

    def __init__(self, link: LeaderLink, clock: Clock) -> None:
        self.known = NO_INFO
        """The counts known last."""
        self._link = link
        self._clock = clock
        self._infos: dict[int, Done[QueueInfo | None]] = {}
        self._purges: dict[int, PurgeDone] = {}

    @property
    def are_there(self) -> bool:
        """Whether a question waits for its answer."""
        return bool(self._infos or self._purges)

    def purge(self, done: PurgeDone) -> None:
        """Have the leader settle all ready messages; raise Refused without a session.

        A queue that was never used is empty.
        """
        if self._link.is_unused:
            done(0)
            return
        session, request = self._link.open_session(), self._link.key()
        self._purges[request] = done
        session.call(Purge(self._link.queue, request))

    def ask_info(self, done: Callable[[QueueInfo], None]) -> None:
        """Call `done` with the leader's counts, or with those known last after a second."""
        self.ask_counts(lambda info: done(self.known if info is None else info))

    def ask_counts(self, done: Done[QueueInfo | None], *, closes: bool = False) -> None:
        """Call `done` with the leader's counts; None: it has not answered in a second.

        `closes`: have publishes to an empty queue wait for `reopen`.
        """
        session, request = self._link.session, self._link.key()
        if session is None:
            done(NO_INFO if self._link.is_unused else None)
            return
        once = Once(done)

        def late() -> None:
            self._infos.pop(request, None)
            once(None)

        timer = self._clock.call_later(INFO_SECONDS_MAX, late)

        def counted(info: QueueInfo | None) -> None:
            timer.cancel()
            once(info)

        self._infos[request] = counted
        ask = CloseIfEmpty if closes else Info
        session.call(ask(self._link.queue, request))

    def reopen(self) -> None:
        """Have the leader store what waits since `ask_counts`: the queue is not deleted."""
        if self._link.session is not None:
            self._link.session.call(Reopen(self._link.queue))

    def counted(self, event: Counted) -> None:
        """Report counts."""
        self.known = event.info
        done = self._infos.pop(event.request, None)
        if done is not None:
            done(event.info)

    def purged(self, event: PurgeEnded) -> None:
        """Report the end of a purge."""
        done = self._purges.pop(event.request, None)
        if done is not None:
            done(event.settled if event.refused is None else event.refused)

    def lost(self, refused: Refused) -> None:
        """Report the counts known last, and refuse purges: the session has ended."""
        infos, self._infos = self._infos, {}
        for done in infos.values():
            done(None)
        purges, self._purges = self._purges, {}
        for purged in purges.values():
            purged(refused)
