"""What this broker's session with the cluster's store has been through."""

from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.ports.store import SessionEvents


class StoreSession:
    """Hears of the session's fate before those who act on it. Made after they were set."""

    def __init__(self, events: "SessionEvents") -> None:
        """Begin in a session that is heard of."""
        self.connected = True
        """Whether the store is heard of, as far as is known."""
        self.expired = 0
        """How often the session was over, and another begun."""
        events.lost = partial(self._lost, events.lost)
        events.expired = partial(self._expired, events.expired)
        events.reconnected = partial(self._back, events.reconnected)

    def _lost(self, then: "Callable[[], None]") -> None:
        self.connected = False
        then()

    def _expired(self, then: "Callable[[], None]") -> None:
        self.connected = True
        self.expired += 1
        then()

    def _back(self, then: "Callable[[], None]") -> None:
        self.connected = True
        then()
