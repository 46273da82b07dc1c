"""What this broker's session with the cluster's store has been through."""

from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from headrace.cluster.membership.lease import LEASE_SHARE
from headrace.model.errors import STORE_UNANSWERED

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.broker.broker import Broker
    from headrace.ports.store import SessionEvents, Store


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


class StoreOutage:
    """The state of this broker's session with the metadata store."""

    def __init__(
        self,
        broker: "Broker",
        session: StoreSession,
        store: "Store",
        boot_seconds: "Callable[[], float]",
    ) -> None:
        """`boot_seconds`: the clock of `Store.last_heard`."""
        self._broker = broker
        self._session = session
        self._store = store
        self._boot_seconds = boot_seconds

    def text(self) -> str:
        """Return since when the store has not answered; empty while its session is not in doubt.

        In doubt is a session whose connection is lost, or for which `LEASE_SHARE` of its time is
        over: a server that accepts connections and never answers looks connected.
        """
        silent = max(self._boot_seconds() - self._store.last_heard(), 0.0)
        if self._session.connected and silent < LEASE_SHARE * self._store.session_seconds:
            return ""
        since = datetime.fromtimestamp(self._broker.clock.wall_ms() / 1000 - silent, UTC)
        return (
            f"{STORE_UNANSWERED} {self._broker.broker_id} since"
            f" {since:%Y-%m-%d %H:%M:%S} UTC ({silent:.0f} s)"
        )
