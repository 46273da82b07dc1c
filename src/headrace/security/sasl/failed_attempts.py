"""Delays of failed authentications, growing with each failure from the same address.

Several clients may share an address: only failures are delayed, successes never.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.ports.clock import Random

FORGOTTEN_SECONDS = 600.0
"""After this many seconds without a failure, an address starts over."""
ADDRESSES_MAX = 10_000
"""Maximum addresses remembered; beyond it, the one that failed longest ago is forgotten."""
JITTER = 0.2
"""Random extra delay, as a share: it hides how often others have failed."""
_DOUBLINGS_MAX = 30


class FailedAttempts:
    """Authentication failures by address. Called on the deciding thread."""

    def __init__(self, now: Callable[[], float], random: "Random") -> None:
        """Create an empty table of failures. `now` returns monotonic seconds."""
        self._now = now
        self._random = random
        self._failures: OrderedDict[str, tuple[int, float]] = OrderedDict()
        """Number of failures and time of the last, by address, oldest first."""

    def __len__(self) -> int:
        return len(self._failures)

    def delay_seconds(self, address: str, *, first_ms: int, most_ms: int) -> float:
        """Record a failure from `address`; return how many seconds to delay the response.

        The delay is `first_ms` after the first failure and doubles with each further one, up to the
        longer of `first_ms` and `most_ms`; then up to a fifth is added.
        """
        now = self._now()
        before, last = self._failures.pop(address, (0, now))
        if now - last > FORGOTTEN_SECONDS:
            before = 0
        self._failures[address] = (before + 1, now)
        if len(self._failures) > ADDRESSES_MAX:
            self._failures.popitem(last=False)
        grown_ms = first_ms << min(before, _DOUBLINGS_MAX)
        delay_ms = min(grown_ms, max(first_ms, most_ms))
        return delay_ms / 1000 * self._random.uniform(1.0, 1.0 + JITTER)
