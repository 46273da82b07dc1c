"""Counters, histograms and gauges of one broker.

Counting happens on the hot path and is integer arithmetic on slots and lists; gauges are functions
called only when somebody looks. Not for use by several threads at once.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

API_KEYS_MAX = 128
"""API keys counted one by one; requests with others are counted together."""

LABELS_MAX = 1000
"""Label values one gauge shows at most: names chosen by clients must not grow an answer freely."""

Labelled = Mapping[str, float] | Mapping[tuple[str, str, str], float]
"""Numbers by the value of a label, or by those of three."""

_OCTAVES = 36
_STEPS = 4


class Histogram:
    """Durations in buckets of a quarter octave, from 1 µs to beyond an hour: 25 % error at most."""

    __slots__ = ("buckets", "count", "seconds", "seconds_max")

    def __init__(self) -> None:
        self.buckets = [0] * (_OCTAVES * _STEPS)
        self.count = 0
        self.seconds = 0.0
        self.seconds_max = 0.0

    def add(self, seconds: float) -> None:
        """Count one duration; a negative one counts as 0."""
        micros = int(seconds * 1e6) if seconds > 0 else 0
        self.count += 1
        self.seconds += seconds
        if seconds > self.seconds_max:
            self.seconds_max = seconds
        bits = micros.bit_length()
        at = micros if bits < 3 else bits * _STEPS - 8 + ((micros >> (bits - 3)) & 3)
        self.buckets[at if at < _OCTAVES * _STEPS else -1] += 1

    def quantile(self, share: float) -> float:
        """Return seconds that `share` (0..1) of the durations did not exceed.

        0 where there is none.
        """
        wanted, seen = share * self.count, 0
        for at, count in enumerate(self.buckets):
            seen += count
            if count and seen >= wanted:
                return min(bucket_end(at), self.seconds_max)
        return 0.0

    def cumulative(self) -> Iterator[tuple[float, int]]:
        """Yield (upper bound in seconds, count up to there) per octave, as Prometheus has them."""
        seen = 0
        for octave in range(_OCTAVES):
            seen += sum(self.buckets[octave * _STEPS : (octave + 1) * _STEPS])
            yield bucket_end((octave + 1) * _STEPS - 1), seen


def bucket_end(at: int) -> float:
    """Return the upper bound of bucket `at` in seconds, exclusive."""
    if at < _STEPS:
        return (at + 1) / 1e6
    bits, step = divmod(at + 8, _STEPS)
    return float((5 + step) << (bits - 3)) / 1e6


class ApiStats:
    """What was asked of one API."""

    __slots__ = ("bytes_in", "bytes_out", "errors", "latency", "requests")

    def __init__(self) -> None:
        self.requests = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self.errors: dict[int, int] = {}
        """Answers by error code other than 0."""
        self.latency = Histogram()
        """From the request's arrival to its answer's hand-over to the socket."""

    def answered(self, seconds: float, bytes_in: int, bytes_out: int) -> None:
        """Count one request."""
        self.requests += 1
        self.bytes_in += bytes_in
        self.bytes_out += bytes_out
        self.latency.add(seconds)

    def failed(self, code: int) -> None:
        """Count an error code that was answered."""
        self.errors[code] = self.errors.get(code, 0) + 1


class Gauge(NamedTuple):
    """A number looked up when asked for."""

    name: str
    doc: str
    read: Callable[[], "float | Labelled"]
    """One number, or one per value of `label`, or per values of all of them."""
    label: str | tuple[str, ...] = ""
    counter: bool = False
    """Whether it only ever grows."""


class Metrics:
    """Everything one broker counts."""

    def __init__(self) -> None:
        self.apis = [ApiStats() for _ in range(API_KEYS_MAX + 1)]
        """By API key; the last one for keys beyond."""
        self.records_in = 0
        """Records appended by clients."""
        self.flush = Histogram()
        """Durations of flushes, each of all files that waited."""
        self.flush_files = 0
        self.flush_errors = 0
        self.loop_lag = Histogram()
        """How late the event loop came to a timer."""
        self.store_requests = Histogram()
        """What was asked of the cluster's store, until it was answered."""
        self.malformed = 0
        """Connections ended because of bytes that were no request."""
        self.unclean_elections = 0
        """Leaders that this broker, as the controller, elected though they may lack records."""
        self.gauges: dict[str, Gauge] = {}

    def api(self, key: int) -> ApiStats:
        """Return the counts of API `key`."""
        return self.apis[key if 0 <= key < API_KEYS_MAX else API_KEYS_MAX]

    def flushed(self, seconds: float, files: int, *, failed: bool = False) -> None:
        """Count one flush."""
        self.flush.add(seconds)
        self.flush_files += files
        self.flush_errors += failed

    def gauge(
        self,
        name: str,
        doc: str,
        read: Callable[[], "float | Labelled"],
        *,
        label: str | tuple[str, ...] = "",
        counter: bool = False,
    ) -> None:
        """Have `read` called when somebody looks at `name`; a later one of that name wins."""
        self.gauges[name] = Gauge(name, doc, read, label, counter)
