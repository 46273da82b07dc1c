"""`ProducerGroups`: the connections of producers by group, as clients report them by heartbeat.

A broker that has to ask about a producer's transaction asks any live member of its group: the one
that sent the message may be gone.
"""

from collections.abc import Callable, Hashable, Iterable
from typing import Generic, TypeVar

from headrace.subscriptions.members import HEARTBEAT_SECONDS_MAX

C = TypeVar("C", bound=Hashable)


class ProducerGroups(Generic[C]):
    """The producers' connections on one broker. Times are monotonic seconds that callers pass."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[C, float]] = {}
        """By group: until when each connection is live, that asked last at the end."""
        self._groups_of: dict[C, set[str]] = {}

    def heartbeat(self, connection: C, groups: Iterable[str], now: float) -> None:
        """Add a connection to groups, or renew it there."""
        for group in groups:
            self._groups.setdefault(group, {})[connection] = now + HEARTBEAT_SECONDS_MAX
            self._groups_of.setdefault(connection, set()).add(group)

    def leave(self, connection: C, group: str) -> None:
        """Remove a connection from a group; no effect if it is no member."""
        members = self._groups.get(group, {})
        if connection in members:
            del members[connection]
            if not members:
                del self._groups[group]
            groups = self._groups_of[connection]
            groups.discard(group)
            if not groups:
                del self._groups_of[connection]

    def closed(self, connection: C) -> None:
        """Remove a closed connection from all its groups."""
        for group in list(self._groups_of.get(connection, ())):
            self.leave(connection, group)

    def expire(self, now: float) -> None:
        """Remove the connections whose last heartbeat is too old."""
        late = [
            (connection, group)
            for group, members in self._groups.items()
            for connection, until in members.items()
            if until <= now
        ]
        for connection, group in late:
            self.leave(connection, group)

    def any_member(self, group: str, may: Callable[[C], bool]) -> C | None:
        """Return a live connection of a group that may be asked, each in turn; None: it has none.

        Any client can name a group in its heartbeat, so `may` decides whether one is asked.
        """
        members = self._groups.get(group, {})
        connection = next(filter(may, members), None)
        if connection is not None:
            members[connection] = members.pop(connection)  # to the end: others are asked before
        return connection

    def members(self, group: str) -> list[C]:
        """Return the live connections of a group."""
        return list(self._groups.get(group, ()))

    def __len__(self) -> int:
        return len(self._groups)
