"""How long who fails to authenticate waits: longer each time, by the address he comes from.

Behind one address there may be others: they do not wait, for only failures are delayed.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.ports.clock import Random

FORGOTTEN_SECONDS = 600.0
"""An address that has not failed for so long begins anew."""
ADDRESSES_MAX = 10_000
"""Addresses remembered; beyond, the one that failed longest ago is forgotten."""
JITTER = 0.2
"""How much longer a delay may be by chance: its end tells nobody how often others failed."""
_DOUBLINGS_MAX = 30


class FailedAttempts:
    """The failures of each address. On the deciding thread."""

    def __init__(self, now: Callable[[], float], random: "Random") -> None:
        """`now`: monotonic seconds."""
        self._now = now
        self._random = random
        self._failures: OrderedDict[str, tuple[int, float]] = OrderedDict()
        """How often, and when last; who failed longest ago first."""

    def __len__(self) -> int:
        return len(self._failures)

    def delay_seconds(self, address: str, *, first_ms: int, most_ms: int) -> float:
        """Count a failure from `address`; returns how long its client waits for the answer.

        `first_ms` after the first one, twice as long after each further one, but not longer than
        the longer of both; and then up to a fifth longer.
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
