"""Counters, histograms and gauges of one broker.

Counting happens on the hot path and is integer arithmetic on slots and lists; gauges are functions
called only when somebody looks. Not for use by several threads at once.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from itertools import accumulate
from typing import NamedTuple
from weakref import WeakValueDictionary

API_KEYS_MAX = 128
"""API keys counted one by one; requests with others are counted together."""

LABELS_MAX = 1000
"""Label values one gauge shows at most: names chosen by clients must not grow an answer freely."""

Labelled = (
    Mapping[str, float] | Mapping[tuple[str, ...], float] | Mapping[tuple[str, str, str], float]
)
"""Numbers by the value of a label, or by those of several."""

BUCKETS_SECONDS = (
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5,
    5.0, 10.0, 30.0,
)  # fmt: skip
"""Upper bounds of all histograms' buckets, inclusive as Prometheus has them: from what a request
takes that waits for nothing to a session's timeout. Objectives are round numbers, and so are
these."""


class Histogram:
    """Durations in buckets."""

    __slots__ = ("buckets", "count", "seconds")

    def __init__(self) -> None:
        self.buckets = [0] * (len(BUCKETS_SECONDS) + 1)
        """Counts by `BUCKETS_SECONDS`; the last one of what took longer."""
        self.count = 0
        self.seconds = 0.0

    def add(self, seconds: float) -> None:
        """Count one duration; a negative one counts as 0."""
        if seconds < 0:
            seconds = 0.0
        self.count += 1
        self.seconds += seconds
        self.buckets[bisect_left(BUCKETS_SECONDS, seconds)] += 1

    def cumulative(self) -> Iterator[tuple[float, int]]:
        """Yield (upper bound in seconds, count up to there) per bucket, as Prometheus has them."""
        return zip(BUCKETS_SECONDS, accumulate(self.buckets), strict=False)


class TopicTraffic:
    """What clients bring to and take from one topic's partitions here."""

    __slots__ = ("__weakref__", "bytes_in", "bytes_out", "records_in", "replica_bytes_out")

    def __init__(self) -> None:
        self.records_in = 0
        """Records appended by clients."""
        self.bytes_in = 0
        """Bytes of their batches."""
        self.bytes_out = 0
        """Bytes of batches given to consumers, share groups' apart."""
        self.replica_bytes_out = 0
        """The same given to followers."""


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
    labels_max: int | None = LABELS_MAX
    """How many are shown; None: as many as there are, for `read` has a bound of its own."""


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
        self.topics: WeakValueDictionary[str, TopicTraffic] = WeakValueDictionary()
        """By name, in the order they were first opened; gone with the last of their partitions."""
        self.gauges: dict[str, Gauge] = {}
        self.surveys: dict[str, Callable[[], Iterator[None]]] = {}
        """What goes through much, a slice at each step, for gauges that are read afterwards."""

    def traffic(self, topic: str) -> TopicTraffic:
        """Return the counts of `topic`. Whoever counts holds them, else they go."""
        found = self.topics.get(topic)
        if found is None:
            found = self.topics[topic] = TopicTraffic()
        return found

    def survey(self, name: str, slices: Callable[[], Iterator[None]]) -> None:
        """Have `slices` gone through before gauges are read; a later one of that name wins."""
        self.surveys[name] = slices

    def look(self) -> None:
        """Go through all that gauges are read from, at once."""
        for slices in self.surveys.values():
            deque(slices(), maxlen=0)

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
        labels_max: int | None = LABELS_MAX,
    ) -> None:
        """Have `read` called when somebody looks at `name`; a later one of that name wins."""
        self.gauges[name] = Gauge(name, doc, read, label, counter, labels_max)
