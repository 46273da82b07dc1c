"""A home's link to the leader of one queue: the session, and the queue's number in it."""

from headrace.queues.refusals import QUEUE, RefusalKind, Refused
from headrace.remote_queues.home.home_session import HomeSession, SessionQueue
from headrace.remote_queues.messages import Open


class LeaderLink:
    """The present session of one queue, and numbers that are unique over all its sessions."""

    def __init__(self, vhost: str, name: str, title: str) -> None:
        self.session: HomeSession | None = None
        """The session with the leader; None: it has ended, and no other has begun."""
        self.queue = 0
        """The queue's number in the session."""
        self._vhost = vhost
        self._name = name
        self._title = title
        self._next_key = 0

    def begin(self, session: HomeSession, queue: SessionQueue) -> None:
        """Open the queue in a session; events are passed to `queue`."""
        self.session = session
        self.queue = session.add(queue)
        session.call(Open(self.queue, self._vhost, self._name))

    def key(self) -> int:
        """Return a number for a consumer, a request or a settlement."""
        self._next_key += 1
        return self._next_key

    def open_session(self) -> HomeSession:
        """Return the session; raise Refused without one."""
        if self.session is None:
            raise self.unreachable()
        return self.session

    def unreachable(self) -> Refused:
        """Return the refusal of calls that no leader answers."""
        text = f"the leader of {self._title} is down or cannot be reached"
        return Refused(RefusalKind.NOT_FOUND, QUEUE, text)
