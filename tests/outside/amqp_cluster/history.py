"""The record of a run: publishes with their answers, deliveries, settlements and faults.

Messages have numbers, given to publishers in blocks, so that a column of an array has a place for
each. Times are seconds of `time.monotonic`. A run has some ten million deliveries.
"""

from array import array
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from threading import Lock
from typing import NamedTuple

from tests.outside.amqp_cluster.plan import EXCHANGES

BLOCK = 1024
UNUSED, SENT, CONFIRMED, REFUSED = range(4)


class Fault(NamedTuple):
    """A fault of a broker: a kill ends with the process, the others when they are taken back."""

    kind: str
    broker: int
    began: float
    ended: float


@dataclass
class PublisherSession:
    """A publisher's connection with confirms."""

    exchange: str
    broker: int
    opened: float
    ended: float = 0.0
    clean: bool = False
    """The publisher closed it, with every publish answered."""
    silent_since: float = 0.0
    """The time of the last answer, if the publisher left because none came; else 0."""
    unanswered: int = 0
    """Publishes neither confirmed nor refused at its end."""


@dataclass
class Subscription:
    """A consumer's connection."""

    queue: str
    broker: int
    opened: float
    ended: float = 0.0
    """0: it has not ended."""
    silent_since: float = 0.0


class Publishes:
    """Every message's publish, by number."""

    def __init__(self) -> None:
        self.state = bytearray()
        self.sent = array("d")
        """When it was sent."""
        self.blocks: list[int] = []
        """The session of each block of numbers."""
        self.sessions: list[PublisherSession] = []
        self.confirms = {exchange: array("d") for exchange in EXCHANGES}
        """Times of the confirms of each exchange, in their order."""
        self._lock = Lock()

    def open(self, session: PublisherSession) -> int:
        """Add a session; its index."""
        with self._lock:
            self.sessions.append(session)
            return len(self.sessions) - 1

    def block(self, session: int) -> int:
        """Give a session the next numbers; the first of them."""
        with self._lock:
            first = len(self.state)
            self.state.extend(bytes(BLOCK))
            self.sent.frombytes(bytes(8 * BLOCK))
            self.blocks.append(session)
            return first

    def session_of(self, number: int) -> int:
        """Return the index of the session that published a message."""
        return self.blocks[number // BLOCK]

    def confirmed(self, exchange: str) -> Iterator[int]:
        """Yield the numbers of an exchange's confirmed messages, in their order."""
        for index, session in enumerate(self.blocks):
            if self.sessions[session].exchange == exchange:
                first = index * BLOCK
                for number in range(first, first + BLOCK):
                    if self.state[number] == CONFIRMED:
                        yield number


class Deliveries:
    """Every delivery of a queue, in the order in which clients read them."""

    def __init__(self) -> None:
        self.numbers = array("L")
        self.times = array("d")
        self.subscriptions = array("L")
        self.redelivered = bytearray()
        self.settled = array("d")
        """When the broker was known to have accepted its acknowledgement or rejection; 0: never."""
        self.lock = Lock()

    def note(self, number: int, time: float, subscription: int, redelivered: bool) -> int:
        """Note a delivery; its index. Callers hold `lock`."""
        self.numbers.append(number)
        self.times.append(time)
        self.subscriptions.append(subscription)
        self.redelivered.append(redelivered)
        self.settled.append(0.0)
        return len(self.numbers) - 1


@dataclass
class History:
    """All of a run."""

    publishes: Publishes = field(default_factory=Publishes)
    deliveries: dict[str, Deliveries] = field(default_factory=dict)
    subscriptions: list[Subscription] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    """In their order; one ends before the next begins."""
    problems: list[str] = field(default_factory=list)
    """Answers that no broker may send."""
    ends: Counter[str] = field(default_factory=Counter)
    """Why connections ended, as clients saw it."""
    _lock: Lock = field(default_factory=Lock)

    def subscribe(self, subscription: Subscription) -> int:
        """Add a consumer's connection; its index."""
        with self._lock:
            self.subscriptions.append(subscription)
            return len(self.subscriptions) - 1
