"""The sessions of other brokers with this one, by the registration of each broker.

A home numbers its sessions with a leader. A session begins with its first call or its first poll,
and ends for good: with a later one of the same home, with the home's registration, when its home
is suspected to be dead, or `LOST_SECONDS` after its last poll was answered. A home whose session
has ended begins another.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from headrace.model.nouns import BrokerId
from headrace.ports.callbacks import Done, Once
from headrace.ports.deadlines import Deadline, Deadlines
from headrace.queues.engine.queue_host import QueueHost
from headrace.remote_queues.events import Poll
from headrace.remote_queues.leader.awaited_homes import AwaitedHomes
from headrace.remote_queues.leader.leader_session import DeliverReply, LeaderSession
from headrace.remote_queues.messages import Event, QueueCalls
from headrace.wire.amqp.content import Message

LOST_SECONDS = 1.0
"""Seconds without a poll after which a session ends: its home has no connection."""
POLL_SECONDS = 0.5
"""Seconds after which a poll is answered without events, so that a lost home is noticed."""
EventsDone = Done[tuple[int, Sequence[Event]] | None]
"""Takes the number of the first event and the events; None: the session has ended."""


class SessionName(NamedTuple):
    """A session of a registration of a broker; later ones are greater."""

    epoch: int
    number: int


class _Known(NamedTuple):
    name: SessionName
    session: LeaderSession
    quiet_at: Deadline
    """When a waiting poll is answered without events, or the session ends without a poll."""


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
        self._awaited = AwaitedHomes(deadlines.clock)
        self.deliver_reply: DeliverReply = lambda _message, _asks: False
        """Takes direct replies for channels of this broker."""

    @property
    def count(self) -> int:
        """Number of sessions that have not ended."""
        return sum(not known.session.ended for known in self._known.values())

    # Requests of homes

    def of(self, home: BrokerId, name: SessionName, *, first: bool) -> LeaderSession | None:
        """Return a home's session; None: it has ended, or never began.

        `first`: the request is about the session's first call or event, so it may begin.
        """
        known = self._known.get(home)
        if known is not None and known.name == name and not known.session.ended:
            return known.session
        if not first or (known is not None and name <= known.name):
            return None
        if known is not None:
            self._end(home)
        attached = partial(self._awaited.attached, home)
        session = LeaderSession(
            self._hosts, self._deadlines.clock, self._soon, attached, self._reply
        )
        quiet_at = self._deadlines.deadline(partial(self._quiet, home))
        self._known[home] = _Known(name, session, quiet_at)
        quiet_at.set(LOST_SECONDS)
        return session

    def take(
        self, home: BrokerId, name: SessionName, calls: QueueCalls, done: Done[int | None]
    ) -> None:
        """Carry out a home's calls; then call `done` with the number expected next, or as `of`."""
        session = self.of(home, name, first=calls.first == 0)
        if session is None:
            done(None)
        else:
            session.take(*calls, done)

    def poll(self, home: BrokerId, name: SessionName, poll: Poll, done: EventsDone) -> None:
        """Call `done` with the next events, or none after `POLL_SECONDS`, or with None as `of`."""
        session = self.of(home, name, first=poll.expected == 0)
        if session is None:
            done(None)
            return
        known = self._known[home]
        once = Once(done)

        def answered(first: int, events: Sequence[Event]) -> None:
            if not session.ended:
                known.quiet_at.set(LOST_SECONDS)
            once((first, events))

        known.quiet_at.set(POLL_SECONDS)
        known.session.poll(poll, answered)

    def _reply(self, message: Message, asks: bool) -> bool:
        return self.deliver_reply(message, asks)

    # Changes of leaders

    def homes_of(self, vhost: str, queue: str) -> Collection[BrokerId]:
        """Return the homes that have opened a queue, which may hold deliveries of it.

        A leader names them to its successor.
        """
        return [
            home
            for home, (_, session, _) in self._known.items()
            if not session.ended and session.has_opened((vhost, queue))
        ]

    def wait_for(
        self, vhost: str, queue: str, homes: Collection[BrokerId], done: Callable[[], None]
    ) -> None:
        """Call `done` when all homes have attached to a queue that this broker leads.

        After `ATTACH_SECONDS_MAX` at most; never if `moved` is called before.
        """
        name = (vhost, queue)
        left = [home for home in homes if not self._has_attached(home, name)]
        self._awaited.wait(name, left, done)

    def _has_attached(self, home: BrokerId, name: tuple[str, str]) -> bool:
        known = self._known.get(home)
        return known is not None and not known.session.ended and known.session.has_attached(name)

    def moved(self, vhost: str, queue: str) -> None:
        """Report to all homes that a queue is not led here now; requeue their deliveries."""
        self._awaited.drop((vhost, queue))
        for known in tuple(self._known.values()):
            if not known.session.ended:
                known.session.moved((vhost, queue))

    # Ends

    def keep(self, epochs: Mapping[BrokerId, int]) -> None:
        """End the sessions of all but the present registrations, by broker."""
        self._awaited.forget(lambda home: home not in epochs)
        for home, known in tuple(self._known.items()):
            if epochs.get(home) != known.name.epoch:
                self._end(home)

    def suspect(self, epochs: Mapping[BrokerId, int]) -> None:
        """End the sessions of registrations that are suspected to be dead, by broker.

        A consumer of another broker that takes their place then gets messages in order.
        """
        self._awaited.forget(epochs.__contains__)
        for home, epoch in epochs.items():
            known = self._known.get(home)
            if known is not None and known.name.epoch == epoch:
                self._end(home)

    def close(self) -> None:
        """End all sessions: the broker stops."""
        self._awaited.close()
        self.keep({})

    def _quiet(self, home: BrokerId) -> None:
        """Answer a home's waiting polls; without one, its connection is lost: end the session."""
        if not self._known[home].session.answer_polls():
            self._end(home)

    def _end(self, home: BrokerId) -> None:
        """End a home's session; its name stays, so that it does not begin again."""
        known = self._known[home]
        known.quiet_at.end()
        if not known.session.ended:
            known.session.end()
