"""The state of this broker's session with the metadata store, for metrics and messages."""

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
    """Counts and state of the session, updated before other subscribers of its events.

    Must be created after `SessionEvents` has its callbacks: it wraps them.
    """

    def __init__(self, events: "SessionEvents") -> None:
        """Wrap the callbacks of `events`, in a session that is connected."""
        self.connected = True
        """Whether the connection to the store is up, as far as is known."""
        self.expired = 0
        """Number of sessions that have expired and were replaced by a new one."""
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
    """Describes the time since which the metadata store has not answered."""

    def __init__(
        self,
        broker: "Broker",
        session: StoreSession,
        store: "Store",
        boot_seconds: "Callable[[], float]",
    ) -> None:
        """Describe outages of this session; `boot_seconds`: the clock of `Store.last_heard`."""
        self._broker = broker
        self._session = session
        self._store = store
        self._boot_seconds = boot_seconds

    def text(self) -> str:
        """Return since when the store has not answered; "" while the session is not in doubt.

        It is in doubt if its connection is lost, or after `LEASE_SHARE` of its timeout without an
        answer: a server that accepts connections and never answers looks connected.
        """
        silent = max(self._boot_seconds() - self._store.last_heard(), 0.0)
        if self._session.connected and silent < LEASE_SHARE * self._store.session_seconds:
            return ""
        since = datetime.fromtimestamp(self._broker.clock.wall_ms() / 1000 - silent, UTC)
        return (
            f"{STORE_UNANSWERED} {self._broker.broker_id} since"
            f" {since:%Y-%m-%d %H:%M:%S} UTC ({silent:.0f} s)"
        )
