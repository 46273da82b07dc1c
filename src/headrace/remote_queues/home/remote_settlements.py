"""Deliveries of a queue on another broker: unsettled ones, and settlements that may get lost.

    HELD --settle--> SENT --Copied--> forgotten
                     ^  |
                     +--+ the leader changes: the next one may not have the settlement

Settlements of a queue whose leader never changes are forgotten when they are sent, and so are
requeues: a message that no channel holds is ready at the next leader, and the former one may have
delivered it to another channel since. Settlements that this broker has taken as the leader, and
that are not copied when it stops to lead, are SENT from then on.
"""

from collections.abc import Sequence

from headrace.queues.port import Disposition, Handover
from headrace.remote_queues.home.leader_link import LeaderLink
from headrace.remote_queues.messages import POSITION_BYTES, Hold, Settle

_POSITION_BITS = 64
_POSITION_MASK = (1 << _POSITION_BITS) - 1


class RemoteSettlements:
    """The unsettled deliveries of one queue, by consumer, and its settlements until they are safe.

    A consumer is known by its key. A channel names a position by the key above the leader's one.
    """

    def __init__(self, link: LeaderLink, *, moves: bool) -> None:
        """Begin without deliveries."""
        self.gets = 0
        """The key under which messages of basic.get are held; 0: no session has begun."""
        self._link = link
        self.moves = moves
        """Whether another broker may lead the queue later."""
        self._held: dict[int, set[int]] = {}
        self._open: set[int] = set()
        """Keys under which further deliveries may come."""
        self._adopted: dict[int, int] = {}
        """Consumers' keys by positions that this broker delivered when it led the queue."""
        self._uncopied: dict[int, Settle] = {}
        """Settlements by number that the leader has not reported as copied."""

    @property
    def are_there(self) -> bool:
        """Whether channels hold deliveries, or settlements are not copied yet."""
        return bool(self._uncopied) or any(self._held.values())

    # Consumers

    def open(self) -> int:
        """Return the key of a new consumer."""
        key = self._link.key()
        self._held[key] = set()
        self._open.add(key)
        return key

    def close(self, key: int) -> None:
        """Expect no delivery under a key any more; those that are held may be settled."""
        self._open.discard(key)
        self._forget_settled(key)

    def adopt(self, key: int, positions: Sequence[int]) -> None:
        """Note deliveries that this broker made as the leader: their positions have no key."""
        self.hold(key, positions)
        self._adopted.update(dict.fromkeys(positions, key))

    def adopt_all(self, handover: Handover) -> None:
        """Tell the next leader of deliveries without a consumer, and of settlements, of this one.

        This broker made and took them when it led the queue.
        """
        if handover.held:
            key = self.open()
            self.adopt(key, handover.held)
            self.close(key)
        for disposition, positions in handover.settled.items():
            if positions:
                key, number = self._link.key(), self._link.key()
                call = Settle(self._link.queue, key, disposition, [*positions], number)
                self._uncopied[number] = call

    def hold(self, key: int, positions: Sequence[int]) -> None:
        """Note deliveries that the channel settles later."""
        self._held[key].update(positions)

    def _forget_settled(self, key: int) -> None:
        if key not in self._open and not self._held.get(key):
            self._held.pop(key, None)

    # Settlements

    def settle(self, disposition: Disposition, positions: Sequence[int]) -> bool:
        """Send a settlement to the leader; return False if its deliveries are not held any more."""
        key = positions[0] >> _POSITION_BITS or self._adopted.get(positions[0], 0)
        held = self._held.get(key)
        if held is None:
            return False
        own = [each & _POSITION_MASK for each in positions]
        held.difference_update(own)
        if self._adopted:
            for position in own:
                self._adopted.pop(position, None)
        self._forget_settled(key)
        link, session = self._link, self._link.session
        if session is not None:
            number, last = session.calls.last_growing() or (0, None)
            if isinstance(last, Settle) and last[:3] == (link.queue, key, disposition):
                last.positions.extend(own)
                session.calls.grow(number, POSITION_BYTES * len(own))
                return True
        repeats = self.moves and disposition is not Disposition.REQUEUED
        call = Settle(link.queue, key, disposition, own, link.key() if repeats else 0)
        if repeats:
            self._uncopied[call.number] = call
        if session is not None:
            session.call(call)
        return True

    def copied(self, numbers: Sequence[int]) -> None:
        """Forget settlements that the next leader will have."""
        for number in numbers:
            self._uncopied.pop(number, None)

    # Sessions

    def attach(self) -> None:
        """Name to a new leader all positions that are held, or whose settlement it may not have."""
        if not self.gets:
            self.gets = self.open()
        held = {key: {*positions} for key, positions in self._held.items()}
        for settlement in self._uncopied.values():
            held.setdefault(settlement.consumer, set()).update(settlement.positions)
        session = self._link.open_session()
        for key, some in held.items():
            if some:
                session.call(Hold(self._link.queue, key, sorted(some)))

    def repeat(self) -> None:
        """Send the settlements again that a new leader may not have."""
        session, queue = self._link.open_session(), self._link.queue
        for number, settlement in self._uncopied.items():
            self._uncopied[number] = settlement._replace(queue=queue)
            session.call(self._uncopied[number])

    def lost(self) -> None:
        """Forget all deliveries of a session that has ended, after which there is no other."""
        self._held.clear()
        self._adopted.clear()
        self._open.clear()
        self.gets = 0


def is_own(position: int) -> bool:
    """Tell whether this broker has made a delivery itself: no key is above the position."""
    return not position >> _POSITION_BITS


def named(key: int, positions: Sequence[int]) -> list[int]:
    """Return a consumer's positions as channels know them."""
    above = key << _POSITION_BITS
    return [above | each for each in positions]
