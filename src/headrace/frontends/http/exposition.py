"""A broker's metrics in Prometheus' text format."""

from collections.abc import Iterable, Iterator, Mapping

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector, CollectorRegistry

from headrace.model.errors import ErrorCode
from headrace.observe.metrics import ApiStats, Gauge, Histogram, Metrics
from headrace.wire.kafka.api import ApiKey

CONTENT_TYPE = CONTENT_TYPE_LATEST


def rendered(metrics: Metrics) -> Iterator[bytes]:
    """Yield the text in pieces, each made within a millisecond or two; some are empty.

    The caller lets the event loop run between two pieces. Surveys are collected first.
    """
    for slices in metrics.surveys.values():
        for _ in slices():
            yield b""
    for family in _families(metrics):
        yield text_of(family)


def render(metrics: Metrics) -> bytes:
    """Return a broker's metrics as Prometheus text, all at once."""
    return b"".join(rendered(metrics))


def text_of(*families: Metric) -> bytes:
    """Return the Prometheus text of the given metric families."""
    registry = CollectorRegistry()
    registry.register(_Given(families))
    text: bytes = generate_latest(registry)
    return text


class ProcessNumbers:
    """The process's own metrics, by the names that all Prometheus exporters use."""

    def __init__(self) -> None:
        self._collector = ProcessCollector(registry=None)

    def text(self) -> bytes:
        """Return the text of the process's metrics; reads /proc, which blocks."""
        return text_of(*self._collector.collect())


class _Given(Collector):
    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def _families(metrics: Metrics) -> Iterator[Metric]:
    asked = [(_api_name(key), api) for key, api in enumerate(metrics.apis) if api.requests]
    yield from _requests(asked)
    yield _durations(asked)
    yield _histogram(
        "headrace_flush_seconds",
        "Duration of flushes; each flushes all waiting files",
        metrics.flush,
    )
    yield _histogram(
        "headrace_loop_lag_seconds", "Delay of timers on the event loop", metrics.loop_lag
    )
    if metrics.store_requests.count:
        yield _histogram(
            "headrace_store_request_seconds",
            "Duration of requests to the metadata store (ZooKeeper)",
            metrics.store_requests,
        )
    for name, doc, value in (
        ("headrace_records_in", "Records appended by clients", metrics.records_in),
        ("headrace_flush_files", "Files flushed", metrics.flush_files),
        ("headrace_flush_errors", "Flushes that failed", metrics.flush_errors),
        (
            "headrace_connections_malformed",
            "Connections closed because of a malformed request",
            metrics.malformed,
        ),
    ):
        yield CounterMetricFamily(name, doc, value=value)
    for gauge in list(metrics.gauges.values()):
        yield _gauge(gauge)


def _api_name(key: int) -> str:
    try:
        return ApiKey(key).name.lower()
    except ValueError:
        return "other"


def _requests(asked: list[tuple[str, ApiStats]]) -> Iterator[Metric]:
    requests = CounterMetricFamily("headrace_requests", "Requests answered", labels=["api"])
    errors = CounterMetricFamily(
        "headrace_errors", "Errors in responses, by API and error", labels=["api", "error"]
    )
    bytes_in = CounterMetricFamily("headrace_request_bytes", "Bytes of requests", labels=["api"])
    bytes_out = CounterMetricFamily("headrace_response_bytes", "Bytes of responses", labels=["api"])
    for name, stats in asked:
        requests.add_metric([name], stats.requests)
        bytes_in.add_metric([name], stats.bytes_in)
        bytes_out.add_metric([name], stats.bytes_out)
        for code, count in stats.errors.items():
            errors.add_metric([name, _error_name(code)], count)
    yield from (requests, errors, bytes_in, bytes_out)


def _error_name(code: int) -> str:
    try:
        return ErrorCode(code).name.lower()
    except ValueError:
        return str(code)


def _durations(asked: list[tuple[str, ApiStats]]) -> Metric:
    family = HistogramMetricFamily(
        "headrace_request_seconds",
        "Time from a request's arrival to its response, including waits that the request asked for;"
        " the most frequent APIs are sampled, so count requests by headrace_requests_total",
        labels=["api"],
    )
    for name, stats in asked:
        if stats.latency.count:
            family.add_metric([name], _buckets(stats.latency), stats.latency.seconds)
    return family


def _histogram(name: str, doc: str, histogram: Histogram) -> Metric:
    family = HistogramMetricFamily(name, doc)
    family.add_metric([], _buckets(histogram), histogram.seconds)
    return family


def _buckets(histogram: Histogram) -> list[tuple[str, float]]:
    bounded = [(f"{bound:g}", float(count)) for bound, count in histogram.cumulative()]
    return [*bounded, ("+Inf", float(histogram.count))]


def _gauge(gauge: Gauge) -> Metric:
    """Return a gauge's family, with the first `labels_max` of its labels by name."""
    kind = CounterMetricFamily if gauge.counter else GaugeMetricFamily
    value = gauge.read()
    if not isinstance(value, Mapping):
        family: Metric = kind(gauge.name, gauge.doc, value=value)
        return family
    names = [gauge.label or "name"] if isinstance(gauge.label, str) else list(gauge.label)
    labelled = kind(gauge.name, gauge.doc, labels=names)
    for label, number in sorted(value.items())[: gauge.labels_max]:
        labelled.add_metric([label] if isinstance(label, str) else list(label), number)
    found: Metric = labelled
    return found
