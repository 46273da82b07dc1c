"""A consumer of another broker's channel, at the leader: its credit and its deliveries."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

from headrace.queues.port import Consumer, Deliveries
from headrace.queues.refusals import Refused
from headrace.remote_queues.messages import Cancelled, Chosen, Delivered, Event


class Sending(Protocol):
    """The session of a remote channel. Implemented by `LeaderSession`."""

    @property
    def is_full(self) -> bool:
        """Whether the home has too many events to receive."""

    def add(self, event: Event) -> None:
        """Send an event with the next `send`."""

    def send(self) -> None:
        """Answer a waiting poll with the events since."""

    def parked(self, channel: "RemoteChannel") -> None:
        """Note a channel without credit, to be woken once `is_full` has ended."""

    def forget(self, channel: "RemoteChannel") -> None:
        """Note that a channel's consumer is cancelled."""


class RemoteChannel:
    """The credit and the unacknowledged deliveries of one remote consumer, or of basic.gets.

    Implements `port.Subscriber`. `limit` is the number of deliveries that the home has granted,
    and `unacked` the number of those made, both counted from the subscription.
    """

    parked: Collection[Consumer] = ()
    """Always empty: no other consumer shares its room. Implements `port.Subscriber`."""

    def __init__(self, session: Sending, queue: int, key: int, touch: Callable[[], None]) -> None:
        """Create a channel without credit; `queue` and `key` are the home's numbers.

        `touch` has the queue deliver in the next turn.
        """
        self.touch = touch
        self.limit = 0
        self.unacked = 0
        self.prefetch = 0
        self.closed = False
        self.held: dict[int, tuple[int, int]] = {}
        """Unacknowledged deliveries by position: number and bytes of the body.

        Numbers count from the subscription, from 0; those of a former leader have -1.
        """
        self.consumer: Consumer | None = None
        self._session = session
        self._queue = queue
        self.key = key

    @property
    def paused(self) -> bool:
        """Whether the home has too many events to receive."""
        return self._session.is_full

    # Events from the queue

    def deliver(self, consumer: Consumer, deliveries: Deliveries, now: float) -> None:
        """Send messages to the home, and hold them unless the consumer has no-ack."""
        positions, messages, sizes, redelivered, returns = deliveries
        number = self.unacked
        self.unacked += len(positions)
        if not consumer.no_ack:
            self.hold(consumer, positions, sizes, number)
        event = Delivered(self._queue, self.key, positions, messages, redelivered, returns)
        self._session.add(event)

    def hold(
        self,
        consumer: Consumer,
        positions: Sequence[int],
        sizes: Sequence[int],
        number: int = 0,
    ) -> None:
        """Hold deliveries until they are settled."""
        consumer.unacked += len(positions)
        numbered = enumerate(sizes, number)
        self.held.update(zip(positions, numbered, strict=True))

    def hold_again(self, held: Mapping[int, int]) -> None:
        """Hold deliveries of a former leader, by position, with the bytes of their bodies."""
        self.held.update((position, (-1, size)) for position, size in held.items())

    def positions_of(self, consumer: Consumer) -> list[int]:
        """Return the positions of held deliveries. Implements `port.Subscriber`."""
        return list(self.held)

    def send(self) -> None:
        """Send the events to the home. Implements `port.Subscriber`."""
        self._session.send()

    def park(self, consumer: Consumer) -> None:
        """Note that the consumer has no credit. Implements `port.Subscriber`."""
        consumer.parked = True
        self._session.parked(self)

    def forget(self, consumer: Consumer) -> None:
        """Note that a cancelled consumer needs no credit. Implements `port.Subscriber`."""
        consumer.parked = False

    def free(self, consumer: Consumer, count: int) -> None:
        """Ignore the call: no room is reserved at the leader. Implements `port.Subscriber`."""

    def chosen(self, consumer: Consumer) -> None:
        """Notify the home, which names the consumer to the next leader. `port.Subscriber`."""
        self._session.add(Chosen(self._queue, self.key, consumer.active))
        self._session.send()

    def cancelled(self, consumer: Consumer, refused: Refused | None = None) -> None:
        """Notify the home of a deleted or closed queue. Implements `port.Subscriber`."""
        self._session.add(Cancelled(self._queue, self.key, refused))
        self._session.send()

    # Calls from the session

    def wake(self) -> bool:
        """Let the consumer take turns again if it has credit; return whether it does."""
        consumer = self.consumer
        if consumer is None or not consumer.parked or consumer.credit() <= 0:
            return False
        consumer.parked = False
        consumer.queue.credit(consumer)
        return True

    def raise_credit(self, credit: int) -> bool:
        """Raise the number of granted deliveries; return whether the queue may deliver now."""
        self.limit = max(self.limit, credit)
        return self.wake()

    def take(self, positions: list[int]) -> tuple[list[int], list[int]]:
        """Remove held deliveries; return the positions and bytes of those that were held."""
        held, asked = self.held, {*positions}
        if len(asked) < len(positions) or not held.keys() >= asked:
            positions = [each for each in dict.fromkeys(positions) if each in held]
        sizes = [held.pop(each)[1] for each in positions]
        if self.consumer is not None:
            self.consumer.unacked -= len(sizes)
        return positions, sizes

    def unreceived(self, received: int) -> list[int]:
        """Return the positions of held deliveries but for the first `received` ones."""
        return [each for each, (number, _) in self.held.items() if number >= received]
