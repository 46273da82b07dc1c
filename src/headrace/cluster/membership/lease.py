"""`Lease`: how long a leader that is alone in the ISR may acknowledge.

The lease holds while the session that owns the broker's registration certainly lives, as no other
leader is elected then. The session that follows an expired one does not count before the broker has
registered in it: by then another broker may have been elected.
"""

from collections.abc import Callable
from typing import Protocol

from headrace.ports.clock import Clock

LEASE_SHARE = 2 / 3
"""Part of the session timeout for which the lease holds after the store's last answer. Less than
the whole, as the store may count the timeout from an earlier moment."""
LOOK_AGAIN_SECONDS = 0.1
"""Seconds between two checks of whether a lost lease holds again."""
NO_SESSION = 0
"""The session of a broker that is not registered: no store has a session of this id."""


class Session(Protocol):
    """The part of `ports.store.Store` that says how long the session lives."""

    @property
    def session(self) -> int: ...
    @property
    def session_seconds(self) -> float: ...
    def last_heard(self) -> float: ...


class Lease:
    """Whether no other broker can have been elected leader in this broker's place."""

    def __init__(
        self,
        store: Session,
        registered_in: Callable[[], int],
        boot_seconds: Callable[[], float],
        clock: Clock,
        renewed: Callable[[], None],
    ) -> None:
        """Create a lease on a store's session.

        `registered_in` returns the session that owns this broker's registration. `boot_seconds`: a
        clock that also advances while the machine sleeps. `renewed` is called when the lease holds
        again after `holds` has returned False.
        """
        self._store = store
        self._registered_in = registered_in
        self._boot_seconds = boot_seconds
        self._clock = clock
        self._renewed = renewed
        self._waiting = False

    def holds(self) -> bool:
        """Return whether the store answered within `LEASE_SHARE` of the session timeout.

        The session must be the one in which the broker is registered.

        If not, `renewed` is called once it has.
        """
        if self._lives():
            return True
        if not self._waiting:
            self._waiting = True
            self._clock.call_later(LOOK_AGAIN_SECONDS, self._look_again)
        return False

    def _lives(self) -> bool:
        if self._store.session != self._registered_in():
            return False
        unheard = self._boot_seconds() - self._store.last_heard()
        return unheard < LEASE_SHARE * self._store.session_seconds

    def _look_again(self) -> None:
        if not self._lives():
            self._clock.call_later(LOOK_AGAIN_SECONDS, self._look_again)
            return
        self._waiting = False
        """Whether `holds` has returned False and a timer checks the session."""
        self._renewed()
