"""A home's link to the leader of one queue: the session, and the queue's number in it."""

from collections.abc import Callable
from typing import NamedTuple

from headrace.queues.refusals import QUEUE, RefusalKind, Refused
from headrace.remote_queues.home.home_session import HomeSession, SessionQueue
from headrace.remote_queues.messages import Open


class FirstUse(NamedTuple):
    """The first use of a queue, before which no broker leads it and it has no message."""

    is_due: Callable[[], bool]
    """Returns whether the queue was never used."""
    begin: Callable[[], None]
    """Has the controller make a broker lead the queue, unless one does."""


class LeaderLink:
    """The present session of one queue, and numbers that are unique over all its sessions."""

    def __init__(
        self, vhost: str, name: str, title: str, first_use: FirstUse | None = None
    ) -> None:
        """Begin without a session. `first_use`: None if a broker leads the queue at once."""
        self.session: HomeSession | None = None
        """The session with the leader; None: it has ended, and no other has begun."""
        self.queue = 0
        """The queue's number in the session."""
        self._vhost = vhost
        self._name = name
        self.title = title
        self._first_use = first_use
        self._next_key = 0

    @property
    def is_unused(self) -> bool:
        """Whether the queue was never used: it has no message, and no leader."""
        return self.session is None and self._first_use is not None and self._first_use.is_due()

    def use(self) -> None:
        """Have a broker lead the queue, unless one does: a session with it begins then."""
        if self.session is None and self._first_use is not None:
            self._first_use.begin()

    def begin(self, session: HomeSession, queue: SessionQueue) -> None:
        """Open the queue in a session; events are passed to `queue`."""
        self.session = session
        self.queue = session.add(queue)
        session.call(Open(self.queue, self._vhost, self._name))

    def key(self) -> int:
        """Return a number for a consumer, a request or a settlement."""
        self._next_key += 1
        return self._next_key

    @property
    def keys(self) -> int:
        """How many numbers `key` has returned."""
        return self._next_key

    def open_session(self) -> HomeSession:
        """Return the session; raise Refused without one."""
        if self.session is None:
            raise unreachable(self.title)
        return self.session


def unreachable(title: str) -> Refused:
    """Return the refusal of calls that no leader of a queue answers, with RabbitMQ's text."""
    text = f"failed to perform operation on {title} due to timeout"
    return Refused(RefusalKind.NOT_FOUND, QUEUE, text)
