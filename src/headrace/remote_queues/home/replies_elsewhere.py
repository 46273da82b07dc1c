"""Direct replies to channels of other brokers: one call each, in the session with that broker.

A reply is delivered at most once. When a session is lost, replies without an answer count as
delivered: they may have been.
"""

from collections import deque
from collections.abc import Callable

from headrace.model.nouns import BrokerId
from headrace.ports.callbacks import Done
from headrace.queue_stores.queue_settings import Published
from headrace.queues.port import ALL_STORED, Subscriber, UnstoredDone
from headrace.remote_queues.home.home_session import HomeSession
from headrace.remote_queues.messages import Event, Reply, Stored
from headrace.wire.amqp.content import Message


class RemoteReplies:
    """Direct replies to the channels of one other broker, in one session.

    Implements `home_session.SessionQueue`, and `port.Target` for confirms that wait for answers.
    """

    confirms_late = True
    confirms_transient = True
    last_number = None
    failure: str | None = None

    def __init__(self, broker: BrokerId, session: HomeSession) -> None:
        """Begin without replies."""
        self.title = f"direct replies of broker {broker}"
        self.session = session
        self._number = session.add(self)
        self._last = 0
        """The number of the last reply, from 1."""
        self._undecided: dict[int, Done[bool]] = {}
        self._awaited: deque[tuple[int, UnstoredDone]] = deque()

    def send(self, message: Message, found: Done[bool], *, asks: bool = False) -> None:
        """Send a reply, or ask for its channel only; `found` takes whether there is one."""
        self._last += 1
        self._undecided[self._last] = found
        self.session.call(Reply(self._number, self._last, asks, [message]))

    # Events: `SessionQueue`

    def take(self, event: Event) -> Subscriber | None:
        """Take the answer to a reply."""
        if isinstance(event, Stored):
            self._decide(event.first, found=not event.unstored)
            self._tell()
        return None

    def lost(self) -> None:
        """Count all replies without an answer as delivered: the session has ended."""
        for number in tuple(self._undecided):
            self._decide(number, found=True)
        self._tell()

    def _decide(self, number: int, *, found: bool) -> None:
        done = self._undecided.pop(number, None)
        if done is not None:
            done(found)

    # Confirms: `Target`

    def publish(self, published: Published, now: float) -> bool:
        """Send a reply without a callback."""
        self.send(published.message, lambda _: None)
        return True

    def when_stored(self, done: UnstoredDone) -> None:
        """Call `done` once all replies so far are answered: none is ever refused."""
        self._awaited.append((self._last, done))
        self._tell()

    def _tell(self) -> None:
        first = next(iter(self._undecided), self._last + 1)
        awaited = self._awaited
        while awaited and awaited[0][0] < first:
            awaited.popleft()[1](ALL_STORED)


class RepliesElsewhere:
    """The direct replies of this broker's channels to those of others. On the deciding thread."""

    def __init__(self, own: BrokerId, session: Callable[[BrokerId], HomeSession | None]) -> None:
        """Begin without sessions.

        `session` returns the session with a broker; None: it is not registered.
        """
        self.own = own
        self._session = session
        self._of: dict[BrokerId, RemoteReplies] = {}

    def to(self, broker: BrokerId) -> RemoteReplies | None:
        """Return the replies to channels of a broker; None: it is not registered."""
        session = self._session(broker)
        if session is None:
            self._of.pop(broker, None)
            return None
        known = self._of.get(broker)
        if known is None or known.session is not session:
            known = self._of[broker] = RemoteReplies(broker, session)
        return known
