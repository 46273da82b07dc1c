"""`Places`: limits on connections: in total, by listener, by address, and unauthenticated.

Each connection takes a place when it is accepted, before its TLS handshake. A *stranger* is a
connection whose client has not authenticated yet: before the end of SASL authentication, or of the
TLS handshake. Strangers have tighter limits of their own, which do not apply to others: hundreds of
authenticated clients may share one address. If there are too many strangers, the oldest is closed,
as legitimate clients authenticate within milliseconds. So a flood of silent connections locks out
only itself.

A listener *apart* has its own places (`Limits.listeners_apart`): metrics can be scraped when all
other places are taken. There a connection idle between requests is closed to admit a new one.

A client that failed to authenticate keeps its place among its address's strangers until its delay
is over, even if it disconnects; otherwise it could retry at once on another connection.
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
    """The owner of a place: a connection, or a TLS handshake in progress."""

    @property
    def last_moved(self) -> float:
        """When anything was last received or sent, in monotonic seconds."""

    def abort(self, because: str, /) -> None:
        """Close the connection now, as its place is needed for another."""


class Place:
    """A connection's place in the limits. `holder` changes when TLS passes its connection on."""

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
        """Whether the place is one of its listener's own."""
        self.yields = False
        """For a listener apart: whether the connection is idle and may be closed for another."""
        self.failed_until = 0.0
        """When the delay after a failed authentication is over; 0.0: it has not failed."""

    def known(self) -> None:
        """Mark the client as authenticated: limits on strangers no longer apply."""
        self._places.known(self)

    def failed(self, seconds: float) -> None:
        """Keep the place taken for `seconds`, even if the connection is closed before."""
        self._places.failed(self, seconds)

    def leave(self) -> None:
        """Release the place of a closed connection; repeated calls do nothing."""
        self._places.leave(self)


class Places:
    """The places of all connections of one broker. For the event loop."""

    def __init__(self, clock: "Clock", limits: Callable[[], Limits]) -> None:
        """Make an empty set of places; `limits` returns the current limits.

        Lower limits do not close connections.
        """
        self.strangers = 0
        """Number of connections that have not authenticated yet."""
        self._now = clock.monotonic
        self._call_later = clock.call_later
        self._limits = limits
        self._taken: dict[Place, None] = {}
        self._apart = 0
        """Number of places that belong to listeners apart."""
        self._of_listener: Counter[str] = Counter()
        self._of_address: Counter[str] = Counter()
        self._strangers: dict[str, dict[Place, None]] = {}
        """Places of strangers by address, in order of arrival."""
        self._kept: Counter[str] = Counter()
        """Number of places kept after failed authentication of closed connections, by address."""
        self._kept_in_all = 0

    def __len__(self) -> int:
        return len(self._taken) - self._apart

    def take(self, holder: Holder, address: str, listener: str) -> Place | str:
        """Return a place for a new connection, or the reason for its refusal."""
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
                return f"{places_max} connections are open, the limit of {listener}"
            self._end(silent, "it was idle longest and its place is needed")
        place = Place(self, holder, address, listener, stranger=False, apart=True)
        self._taken[place] = None
        self._of_listener[listener] += 1
        self._apart += 1
        return place

    def known(self, place: Place) -> None:
        """Mark the place's client as authenticated: limits on strangers no longer apply."""
        if place.stranger and place in self._taken:
            place.stranger = False
            self._drop(place)

    def failed(self, place: Place, seconds: float) -> None:
        """Keep the place taken for `seconds`, even if its connection is closed before."""
        place.failed_until = max(place.failed_until, self._now() + seconds)

    def leave(self, place: Place) -> None:
        """Release the place of a closed connection; repeated calls do nothing."""
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

    # which connection exceeds a limit

    def _refusal(self, address: str, listener: str) -> str | None:
        limits = self._limits()
        listener_max = limits.listener_connections_max.get(listener)
        if listener_max is not None and self._of_listener[listener] >= listener_max:
            key = f"listener.name.{listener.lower()}.max.connections"
            return f"{listener_max} connections are open, the limit of {key}"
        address_max = limits.address_connections_max.get(
            address, limits.connections_per_address_max
        )
        if self._of_address[address] >= address_max:
            own = ".overrides" if address in limits.address_connections_max else ""
            key = f"max.connections.per.ip{own}"
            return f"{address_max} connections from this address are open, the limit of {key}"
        if len(self) >= limits.connections_max and not self._make_room_for_spared(listener):
            return f"{limits.connections_max} connections are open, the limit of max.connections"
        return None

    def _make_room_for_spared(self, listener: str) -> bool:
        """Close the connection that was silent longest, for a broker or local administrator."""
        spared = self._limits().spared_listeners
        if listener not in spared:
            return False
        others = (
            place for place in self._taken if place.listener not in spared and not place.apart
        )
        silent = min(others, key=lambda place: place.holder.last_moved, default=None)
        if silent is not None:
            who = "an administrator" if listener == LOCAL_LISTENER else "a broker"
            self._end(silent, f"max.connections is reached, and {who} connects")
        return True  # admitted even if there is no other connection to close

    def _make_room_for_stranger(self, address: str) -> str | None:
        """Close a stranger if there are too many; return why there is no room nevertheless, or
        None."""
        limits = self._limits()
        from_there = self._strangers.get(address, {})
        many = len(from_there) + self._kept[address]
        if many >= limits.strangers_per_address_max:
            oldest = next((place for place in from_there if not place.failed_until), None)
            if oldest is None:
                return (
                    f"{many} connections from this address failed to authenticate; delay not over"
                )
            self._end(oldest, f"the oldest of {many} unauthenticated from its address")
        share = limits.connections_max * limits.strangers_percent_max // 100
        if self.strangers >= max(share, STRANGERS_MIN):
            most = max(self._strangers.values(), key=len)
            because = f"oldest of its address, {self.strangers} connections are unauthenticated"
            self._end(next(iter(most)), because)
        return None

    def _end(self, place: Place, because: str) -> None:
        self.leave(place)
        place.holder.abort(because)


def _less(counter: Counter[str], key: str) -> None:
    """Decrement a counter; remove it at 0."""
    counter[key] -= 1
    if not counter[key]:
        del counter[key]
