"""Pulls that wait for messages, by group: a reset, or the end of a group's permission, wakes them.

New messages wake a pull through its partition; this is for what changes without a message.
"""

from collections.abc import Callable

Wake = Callable[[], None]


class ParkedPulls:
    """The parked pulls of all connections. On the deciding thread."""

    def __init__(self) -> None:
        self._by_group: dict[str, dict[Wake, None]] = {}

    def add(self, group: str, wake: Wake) -> None:
        """Add a pull, which `wake` makes look again in the loop's next turn."""
        self._by_group.setdefault(group, {})[wake] = None

    def remove(self, group: str, wake: Wake) -> None:
        """Remove a pull, if it is there."""
        parked = self._by_group.get(group)
        if parked is None:
            return
        parked.pop(wake, None)
        if not parked:
            del self._by_group[group]

    def wake(self, group: str) -> None:
        """Wake the pulls of a group."""
        for wake in list(self._by_group.get(group, ())):
            wake()

    def __len__(self) -> int:
        return sum(map(len, self._by_group.values()))
