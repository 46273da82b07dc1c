"""Counters, histograms and gauges of one broker.

Counting is integer arithmetic on slots and lists, for the hot paths; gauges are functions that are
called when metrics are read. Not thread-safe.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from itertools import accumulate
from typing import NamedTuple
from weakref import WeakValueDictionary

API_KEYS_MAX = 128
"""API keys counted separately; requests with other keys are counted together."""

LABELS_MAX = 1000
"""Most label values of one gauge: names chosen by clients must not enlarge the output freely."""

Labelled = (
    Mapping[str, float] | Mapping[tuple[str, ...], float] | Mapping[tuple[str, str, str], float]
)
"""Numbers by the value of one label, or by the values of several."""

BUCKETS_SECONDS = (
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5,
    5.0, 10.0, 30.0,
)  # fmt: skip
"""Upper bounds of all histograms' buckets in seconds, inclusive as in Prometheus.

From a request that waits for nothing to a session timeout; round numbers, as objectives are.
"""


class Histogram:
    """Durations counted in buckets."""

    __slots__ = ("buckets", "count", "seconds")

    def __init__(self) -> None:
        self.buckets = [0] * (len(BUCKETS_SECONDS) + 1)
        """Count of each bucket of `BUCKETS_SECONDS`; the last one has longer durations."""
        self.count = 0
        self.seconds = 0.0

    def add(self, seconds: float) -> None:
        """Count one duration in seconds; a negative one counts as 0."""
        if seconds < 0:
            seconds = 0.0
        self.count += 1
        self.seconds += seconds
        self.buckets[bisect_left(BUCKETS_SECONDS, seconds)] += 1

    def cumulative(self) -> Iterator[tuple[float, int]]:
        """Yield (upper bound in seconds, cumulative count) of each bucket, as Prometheus needs."""
        return zip(BUCKETS_SECONDS, accumulate(self.buckets), strict=False)


class TopicTraffic:
    """Records and bytes that clients write to and read from one topic's partitions here."""

    __slots__ = ("__weakref__", "bytes_in", "bytes_out", "records_in", "replica_bytes_out")

    def __init__(self) -> None:
        self.records_in = 0
        """Records appended by clients."""
        self.bytes_in = 0
        """Bytes of batches appended by clients."""
        self.bytes_out = 0
        """Bytes of batches sent to consumers, without share groups."""
        self.replica_bytes_out = 0
        """Bytes of batches sent to followers."""


class ApiStats:
    """Requests, bytes, errors and latency of one API."""

    __slots__ = ("bytes_in", "bytes_out", "errors", "latency", "requests")

    def __init__(self) -> None:
        self.requests = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self.errors: dict[int, int] = {}
        """Number of responses by error code, without code 0."""
        self.latency = Histogram()
        """Seconds from a request's arrival until its response is passed to the socket."""

    def answered(self, seconds: float, bytes_in: int, bytes_out: int) -> None:
        """Count one request with its latency in seconds and its sizes in bytes."""
        self.requests += 1
        self.bytes_in += bytes_in
        self.bytes_out += bytes_out
        self.latency.add(seconds)

    def failed(self, code: int) -> None:
        """Count a response with error `code`."""
        self.errors[code] = self.errors.get(code, 0) + 1


class Gauge(NamedTuple):
    """A metric whose value is computed when metrics are read."""

    name: str
    doc: str
    read: Callable[[], "float | Labelled"]
    """Returns one number, or one per value of `label`, or per combination of several labels."""
    label: str | tuple[str, ...] = ""
    counter: bool = False
    """Whether the value never decreases."""
    labels_max: int | None = LABELS_MAX
    """Most label values shown; None: no limit, as `read` has its own."""


class Metrics:
    """All counters, histograms and gauges of one broker."""

    def __init__(self) -> None:
        self.apis = [ApiStats() for _ in range(API_KEYS_MAX + 1)]
        """Statistics by API key; the last entry is for larger keys."""
        self.records_in = 0
        """Records appended by clients."""
        self.flush = Histogram()
        """Durations of flushes, each of all files that waited."""
        self.flush_files = 0
        self.flush_errors = 0
        self.loop_lag = Histogram()
        """Delays of timers on the event loop."""
        self.store_requests = Histogram()
        """Durations of requests to the cluster's metadata store."""
        self.malformed = 0
        """Connections closed because of malformed requests."""
        self.unclean_elections = 0
        """Unclean leader elections that this broker made as the controller."""
        self.topics: WeakValueDictionary[str, TopicTraffic] = WeakValueDictionary()
        """Traffic by topic name, in order of creation; removed with the topic's last partition
        here."""
        self.gauges: dict[str, Gauge] = {}
        self.surveys: dict[str, Callable[[], Iterator[None]]] = {}
        """Generators that collect values of gauges in slices, run before the gauges are read."""

    def traffic(self, topic: str) -> TopicTraffic:
        """Return the counters of `topic`. The caller must hold them; unreferenced ones are
        removed."""
        found = self.topics.get(topic)
        if found is None:
            found = self.topics[topic] = TopicTraffic()
        return found

    def survey(self, name: str, slices: Callable[[], Iterator[None]]) -> None:
        """Register `slices` to be run before gauges are read; it replaces one of the same name."""
        self.surveys[name] = slices

    def look(self) -> None:
        """Run all surveys to their ends now."""
        for slices in self.surveys.values():
            deque(slices(), maxlen=0)

    def api(self, key: int) -> ApiStats:
        """Return the statistics of the API with key `key`."""
        return self.apis[key if 0 <= key < API_KEYS_MAX else API_KEYS_MAX]

    def flushed(self, seconds: float, files: int, *, failed: bool = False) -> None:
        """Count one flush of `files` files that took `seconds`."""
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
        labels_max: int | None = LABELS_MAX,
    ) -> None:
        """Register a gauge whose value is `read()`; it replaces one of the same name."""
        self.gauges[name] = Gauge(name, doc, read, label, counter, labels_max)
