"""The sessions of other brokers with this one, by the registration of each broker.

A home numbers its sessions with a leader. A session begins with its first call or its first poll,
and ends for good: with a later one of the same home, with the home's registration, or
`LOST_SECONDS` after its last connection was lost. A home whose session has ended begins another.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

from headrace.model.nouns import BrokerId
from headrace.ports.deadlines import Deadline, Deadlines
from headrace.queues.engine.queue_host import QueueHost
from headrace.remote_queues.leader_session import LeaderSession

LOST_SECONDS = 1.0
"""Seconds without a connection after which a session ends."""


class SessionName(NamedTuple):
    """A session of a registration of a broker; later ones are greater."""

    epoch: int
    number: int


class _Known(NamedTuple):
    name: SessionName
    session: LeaderSession
    end_at: Deadline


class QueueSessions:
    """The sessions whose queues this broker leads."""

    def __init__(
        self, hosts: Mapping[str, QueueHost], deadlines: Deadlines, soon: Callable[[], None]
    ) -> None:
        """Begin without sessions; the arguments are those of `LeaderSession`, with its timers."""
        self._hosts = hosts
        self._deadlines = deadlines
        self._soon = soon
        self._known: dict[BrokerId, _Known] = {}

    def of(self, home: BrokerId, name: SessionName, *, first: bool) -> LeaderSession | None:
        """Return a home's session that is connected; None: it has ended, or never began.

        `first`: the request is about the session's first call or event, so it may begin.
        """
        known = self._known.get(home)
        if known is not None and known.name == name and not known.session.ended:
            known.end_at.cancel()
            return known.session
        if not first or (known is not None and name <= known.name):
            return None
        if known is not None:
            self._end(home)
        session = LeaderSession(self._hosts, self._deadlines.clock, self._soon)
        end_at = self._deadlines.deadline(partial(self._end, home))
        self._known[home] = _Known(name, session, end_at)
        return session

    def connection_lost(self, home: BrokerId, name: SessionName) -> None:
        """Note that no connection of a session is left; it ends unless there is one soon."""
        known = self._known.get(home)
        if known is not None and known.name == name and not known.session.ended:
            known.session.forget_polls()
            known.end_at.set(LOST_SECONDS)

    def keep(self, epochs: Mapping[BrokerId, int]) -> None:
        """End the sessions of all but the present registrations, by broker."""
        for home, known in tuple(self._known.items()):
            if epochs.get(home) != known.name.epoch:
                self._end(home)

    def close(self) -> None:
        """End all sessions: the broker stops."""
        self.keep({})

    def _end(self, home: BrokerId) -> None:
        """End a home's session; its name stays, so that it does not begin again."""
        known = self._known[home]
        known.end_at.end()
        if not known.session.ended:
            known.session.end()
