"""The lease that a leader alone in sync acknowledges by: its session of the store lives surely."""

from collections.abc import Callable
from typing import Protocol

from headrace.ports.clock import Clock

LEASE_SHARE = 2 / 3
"""Of the session's time: the store may count it from a little earlier than we do."""
LOOK_AGAIN_SECONDS = 0.1


class Session(Protocol):
    """What of `ports.store.Store` says how long others believe us alive."""

    @property
    def session_seconds(self) -> float: ...
    def last_heard(self) -> float: ...


class Lease:
    """Whether nobody else can have been made leader in our place."""

    def __init__(
        self,
        store: Session,
        boot_seconds: Callable[[], float],
        clock: Clock,
        renewed: Callable[[], None],
    ) -> None:
        """`boot_seconds`: a clock that goes on while the machine sleeps. `renewed` is called when
        the lease holds again after somebody was told that it does not."""
        self._store = store
        self._boot_seconds = boot_seconds
        self._clock = clock
        self._renewed = renewed
        self._waiting = False

    def holds(self) -> bool:
        """Tell whether the store has heard of us within its share of the session's time."""
        if self._lives():
            return True
        if not self._waiting:
            self._waiting = True
            self._clock.call_later(LOOK_AGAIN_SECONDS, self._look_again)
        return False

    def _lives(self) -> bool:
        unheard = self._boot_seconds() - self._store.last_heard()
        return unheard < LEASE_SHARE * self._store.session_seconds

    def _look_again(self) -> None:
        if not self._lives():
            self._clock.call_later(LOOK_AGAIN_SECONDS, self._look_again)
            return
        self._waiting = False
        self._renewed()
