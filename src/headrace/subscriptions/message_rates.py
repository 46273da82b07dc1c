"""Rates of messages out of samples of growing totals: of a minute, an hour and a day.

    level     a sample every   samples   gives
    minute    10 s             7         the rate of the last 60 s
    hour      600 s            7         of the last hour
    day       3600 s           25        of the last day

A key costs at most 39 samples. A total that falls starts again from there: its
topic was deleted and created.
"""

from collections import deque
from collections.abc import Hashable, Mapping
from enum import Enum
from typing import Generic, NamedTuple, TypeVar

K = TypeVar("K", bound=Hashable)
SAMPLE_SECONDS = 10.0
"""Seconds between two calls of `MessageRates.sample`."""


class RateSpan(Enum):
    """A time over which a rate is taken: seconds between samples, and samples."""

    MINUTE = (10.0, 7)
    HOUR = (600.0, 7)
    DAY = (3600.0, 25)


class MessageRate(NamedTuple):
    """The messages of a time."""

    messages: int = 0
    per_second: float = 0.0


class _Sample(NamedTuple):
    at: float
    total: int


class MessageRates(Generic[K]):
    """Rates by key. Times are monotonic seconds that callers pass."""

    def __init__(self) -> None:
        self._samples: dict[K, dict[RateSpan, deque[_Sample]]] = {}

    def sample(self, totals: Mapping[K, int], now: float) -> None:
        """Note the totals of all keys; keys that are missing are forgotten."""
        for key in self._samples.keys() - totals.keys():
            del self._samples[key]
        for key, total in totals.items():
            spans = self._samples.get(key)
            if spans is None or spans[RateSpan.MINUTE][-1].total > total:
                spans = self._samples[key] = {
                    span: deque(maxlen=span.value[1]) for span in RateSpan
                }
            for span, samples in spans.items():
                # Half a sample's time is allowed for, as the timer is never exact.
                due = span.value[0] - SAMPLE_SECONDS / 2
                if not samples or now - samples[-1].at >= due:
                    samples.append(_Sample(now, total))

    def rate(self, key: K, span: RateSpan = RateSpan.MINUTE) -> MessageRate:
        """Return a key's rate; zero before its second sample."""
        spans = self._samples.get(key)
        if spans is None or len(spans[span]) < 2:
            return MessageRate()
        samples = spans[span]
        first, last = samples[0], samples[-1]
        count = last.total - first.total
        return MessageRate(count, count / (last.at - first.at))

    def __len__(self) -> int:
        return len(self._samples)
