"""Places of connections: how many there are in all, by listener, by address, and of strangers.

Every connection takes one when it is accepted, TLS handshakes under way included. A *stranger* is
one whose client has yet to show who it is: of a SASL listener until it has authenticated, of a TLS
one until its handshake is done. Strangers have bounds of their own, narrower ones, which hold for
nobody else: behind one address there may be hundreds of clients that have authenticated. Where
there are too many strangers the oldest one makes room, for the honest are done in milliseconds. So
a crowd of the silent keeps nobody out but itself.

A listener *apart* has places of its own (`Limits.listeners_apart`): metrics are scraped when all
others are taken. There a connection that waits for its next request makes room for another.

Who failed to authenticate keeps his place among the strangers of his address until his delay is
over, whether he waits for that or not: else he would try again at once by another connection.
"""

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Protocol

from headrace.net.limits import STRANGERS_MIN, Limits
from headrace.security.identity import LOCAL_LISTENER

if TYPE_CHECKING:
    from headrace.ports.clock import Clock


class Holder(Protocol):
    """What has a place: a connection, or a handshake under way."""

    @property
    def last_moved(self) -> float:
        """When anything was last received from it or sent to it."""

    def abort(self, because: str, /) -> None:
        """End, now: its place is another's."""


class Place:
    """One connection's place. `holder` changes when TLS hands its connection on."""

    __slots__ = (
        "_places", "address", "apart", "failed_until", "holder", "listener", "stranger", "yields",
    )  # fmt: skip

    def __init__(
        self,
        places: "Places",
        holder: Holder,
        address: str,
        listener: str,
        *,
        stranger: bool,
        apart: bool = False,
    ) -> None:
        self._places = places
        self.holder = holder
        self.address = address
        self.listener = listener
        self.stranger = stranger
        self.apart = apart
        """Whether it is one of its listener's own."""
        self.yields = False
        """Of one apart: whether its connection is idle between requests, and makes room."""
        self.failed_until = 0.0
        """When the delay after its failure is over; 0.0: it has not failed."""

    def known(self) -> None:
        """Take note that it is known who has it: strangers' bounds hold no longer."""
        self._places.known(self)

    def failed(self, seconds: float) -> None:
        """Stay taken for `seconds`, whether the connection lasts that long or not."""
        self._places.failed(self, seconds)

    def leave(self) -> None:
        """Be free: the connection is gone. A second time does nothing."""
        self._places.leave(self)


class Places:
    """All places of one broker. Used from the event loop."""

    def __init__(self, clock: "Clock", limits: Callable[[], Limits]) -> None:
        """`limits`: as they are now; what is there stays there when they become narrower."""
        self.strangers = 0
        """Connections that have not shown yet who they are."""
        self._now = clock.monotonic
        self._call_later = clock.call_later
        self._limits = limits
        self._taken: dict[Place, None] = {}
        self._apart = 0
        """How many of them are their listeners' own."""
        self._of_listener: Counter[str] = Counter()
        self._of_address: Counter[str] = Counter()
        self._strangers: dict[str, dict[Place, None]] = {}
        """By address, in the order they came."""
        self._kept: Counter[str] = Counter()
        """Places kept of connections that failed and are gone, by address."""
        self._kept_in_all = 0

    def __len__(self) -> int:
        return len(self._taken) - self._apart

    def take(self, holder: Holder, address: str, listener: str) -> Place | str:
        """Return a place, or why there is none."""
        if listener in self._limits().listeners_apart:
            return self._take_apart(holder, address, listener)
        because = self._refusal(address, listener)
        if because is not None:
            return because
        stranger = listener in self._limits().begin_unknown
        if stranger:
            because = self._make_room_for_stranger(address)
            if because is not None:
                return because
        place = Place(self, holder, address, listener, stranger=stranger)
        self._taken[place] = None
        self._of_listener[listener] += 1
        self._of_address[address] += 1
        if stranger:
            self.strangers += 1
            self._strangers.setdefault(address, {})[place] = None
        return place

    def _take_apart(self, holder: Holder, address: str, listener: str) -> Place | str:
        places_max = self._limits().listeners_apart[listener]
        if self._of_listener[listener] >= places_max:
            idle = (place for place in self._taken if place.yields and place.listener == listener)
            silent = min(idle, key=lambda place: place.holder.last_moved, default=None)
            if silent is None:
                return f"{places_max} are open, as many as {listener} has"
            self._end(silent, "it was idle longest, and another client needs its place")
        place = Place(self, holder, address, listener, stranger=False, apart=True)
        self._taken[place] = None
        self._of_listener[listener] += 1
        self._apart += 1
        return place

    def known(self, place: Place) -> None:
        """Take note that it is known who has the place: strangers' bounds hold no longer."""
        if place.stranger and place in self._taken:
            place.stranger = False
            self._drop(place)

    def failed(self, place: Place, seconds: float) -> None:
        """Keep the place for `seconds`, whether its connection lasts that long or not."""
        place.failed_until = max(place.failed_until, self._now() + seconds)

    def leave(self, place: Place) -> None:
        """Free the place of a connection that is gone; a second time does nothing."""
        if place not in self._taken:
            return
        del self._taken[place]
        _less(self._of_listener, place.listener)
        if place.apart:
            self._apart -= 1
            return
        _less(self._of_address, place.address)
        if place.stranger:
            self._drop(place)
        left = place.failed_until - self._now()
        if left > 0 and self._kept_in_all < self._limits().connections_max:
            self._kept[place.address] += 1
            self._kept_in_all += 1
            self._call_later(left, partial(self._forgive, place.address))

    def _forgive(self, address: str) -> None:
        self._kept_in_all -= 1
        _less(self._kept, address)

    def _drop(self, place: Place) -> None:
        self.strangers -= 1
        from_there = self._strangers[place.address]
        del from_there[place]
        if not from_there:
            del self._strangers[place.address]

    # who is one too many

    def _refusal(self, address: str, listener: str) -> str | None:
        limits = self._limits()
        listener_max = limits.listener_connections_max.get(listener)
        if listener_max is not None and self._of_listener[listener] >= listener_max:
            key = f"listener.name.{listener.lower()}.max.connections"
            return f"{listener_max} are open, as many as {key} allows"
        address_max = limits.address_connections_max.get(
            address, limits.connections_per_address_max
        )
        if self._of_address[address] >= address_max:
            own = ".overrides" if address in limits.address_connections_max else ""
            key = f"max.connections.per.ip{own}"
            return f"{address_max} from there are open, as many as {key} allows"
        if len(self) >= limits.connections_max and not self._make_room_for_spared(listener):
            return f"{limits.connections_max} are open, as many as max.connections allows"
        return None

    def _make_room_for_spared(self, listener: str) -> bool:
        """End who was silent longest elsewhere, for another broker or a local administrator."""
        spared = self._limits().spared_listeners
        if listener not in spared:
            return False
        others = (
            place for place in self._taken if place.listener not in spared and not place.apart
        )
        silent = min(others, key=lambda place: place.holder.last_moved, default=None)
        if silent is not None:
            who = "an administrator" if listener == LOCAL_LISTENER else "a broker"
            self._end(silent, f"as many are open as max.connections allows, and {who} comes")
        return True  # without others too: these are not kept out

    def _make_room_for_stranger(self, address: str) -> str | None:
        """End strangers where there are too many; returns why there is no room all the same."""
        limits = self._limits()
        from_there = self._strangers.get(address, {})
        many = len(from_there) + self._kept[address]
        if many >= limits.strangers_per_address_max:
            oldest = next((place for place in from_there if not place.failed_until), None)
            if oldest is None:
                return f"{many} from there failed to authenticate, and their delays are not over"
            self._end(oldest, f"{many} from there have not authenticated, and it was the oldest")
        share = limits.connections_max * limits.strangers_percent_max // 100
        if self.strangers >= max(share, STRANGERS_MIN):
            most = max(self._strangers.values(), key=len)
            because = f"{self.strangers} have not authenticated, and it was the oldest from there"
            self._end(next(iter(most)), because)
        return None

    def _end(self, place: Place, because: str) -> None:
        self.leave(place)
        place.holder.abort(because)


def _less(counter: Counter[str], key: str) -> None:
    """Count one less; what has come to nothing is forgotten."""
    counter[key] -= 1
    if not counter[key]:
        del counter[key]
