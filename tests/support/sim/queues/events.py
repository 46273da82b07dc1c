"""Events of clients of queues, in the order of the simulation's time."""

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import NamedTuple, TypeVar


class Promises(NamedTuple):
    """The promises that follow from a queue's declaration and from its clients' behaviour."""

    dead: str = ""
    """The queue of its dead letters; "": messages leave it by acknowledgements only."""
    in_order: bool = True
    """Whether it has at most one consumer, which requeues nothing."""
    single_active: bool = False
    """Whether it has a single active consumer."""
    holds_dead: bool = False
    """Whether its messages are dead letters, which faults may duplicate."""


class How(Enum):
    """The ways in which a client settles a delivery."""

    ACK = "ack"
    REJECT = "reject"
    REQUEUE = "requeue"


class Message(NamedTuple):
    """A published message: the number of a publish on its publisher's connection."""

    publisher: str
    number: int


class Published(NamedTuple):
    """A publish was sent."""

    at: float
    message: Message
    queues: Sequence[str]
    """The queues that it is routed to."""


class Answered(NamedTuple):
    """A publish was confirmed (`stored`), or refused by a basic.nack."""

    at: float
    message: Message
    stored: bool


class Subscribed(NamedTuple):
    """A consumer was added, or a basic.get is about to be sent."""

    at: float
    subscription: str
    queue: str
    prefetch: int = 0
    """The most unacknowledged deliveries; 0: unlimited."""
    pulls: bool = False
    """Whether messages come by basic.get."""


class Delivered(NamedTuple):
    """A client has received a message."""

    at: float
    subscription: str
    tag: int
    message: Message
    redelivered: bool
    died: tuple[str, str] = ("", "")
    """The queue where a dead letter died first, and the reason."""


class Settled(NamedTuple):
    """A client has settled a delivery."""

    at: float
    subscription: str
    tag: int
    how: How


class Cancelled(NamedTuple):
    """A consumer was cancelled; its channel stays, with its deliveries."""

    at: float
    subscription: str


class Ended(NamedTuple):
    """The connection of a consumer has ended: nothing more is received or settled."""

    at: float
    subscription: str


class Fault(NamedTuple):
    """A fault of the story, from `at` to `ended`."""

    at: float
    ended: float
    name: str


Event = Published | Answered | Subscribed | Delivered | Settled | Cancelled | Ended
E = TypeVar("E", Published, Answered, Subscribed, Delivered, Settled, Cancelled, Ended)


class Played(NamedTuple):
    """A story's history."""

    queues: Mapping[str, Promises]
    events: Sequence[Event]
    faults: Sequence[Fault]


class Delivery(NamedTuple):
    """A delivery, with what became of it."""

    event: Delivered
    queue: str
    settled: Settled | None
    """None: the client has not settled it."""

    @property
    def message(self) -> Message:
        return self.event.message


def deliveries(played: Played) -> Iterator[Delivery]:
    """Yield all deliveries in the order in which they were received."""
    queues = {each.subscription: each.queue for each in of_kind(played, Subscribed)}
    settled = {(each.subscription, each.tag): each for each in of_kind(played, Settled)}
    for event in of_kind(played, Delivered):
        found = settled.get((event.subscription, event.tag))
        yield Delivery(event, queues[event.subscription], found)


def of_kind(played: Played, kind: type[E]) -> Iterator[E]:
    """Yield the events of a kind."""
    return (event for event in played.events if isinstance(event, kind))
