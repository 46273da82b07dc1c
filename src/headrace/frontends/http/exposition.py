"""A broker's numbers in Prometheus' text format."""

from collections.abc import Iterator, Mapping

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
    SummaryMetricFamily,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import CollectorRegistry

from headrace.model.errors import ErrorCode
from headrace.observe.metrics import LABELS_MAX, ApiStats, Gauge, Histogram, Metrics
from headrace.wire.kafka.api import ApiKey

CONTENT_TYPE = CONTENT_TYPE_LATEST
_QUANTILES = (0.5, 0.99, 0.999)


class BrokerCollector:
    """Turns `Metrics` into Prometheus' families, each time it is asked."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        """Yield all families."""
        metrics = self._metrics
        asked = [(_api_name(key), api) for key, api in enumerate(metrics.apis) if api.requests]
        yield from _requests(asked)
        yield from _durations(asked)
        yield _histogram("headrace_flush_seconds", "Flushes of all files waiting", metrics.flush)
        yield _histogram("headrace_loop_lag_seconds", "Event loop lateness", metrics.loop_lag)
        if metrics.store_requests.count:
            yield _histogram(
                "headrace_store_request_seconds",
                "What was asked of the cluster's store, until it was answered",
                metrics.store_requests,
            )
        for name, doc, value in (
            ("headrace_records_in", "Records appended by clients", metrics.records_in),
            ("headrace_flush_files", "Files flushed", metrics.flush_files),
            ("headrace_flush_errors", "Flushes that failed", metrics.flush_errors),
            ("headrace_malformed", "Connections ended for malformed bytes", metrics.malformed),
        ):
            yield CounterMetricFamily(name, doc, value=value)
        for gauge in metrics.gauges.values():
            yield _gauge(gauge)


def render(metrics: Metrics) -> bytes:
    """Return the whole text."""
    registry = CollectorRegistry()
    registry.register(BrokerCollector(metrics))
    text: bytes = generate_latest(registry)
    return text


def _api_name(key: int) -> str:
    try:
        return ApiKey(key).name.lower()
    except ValueError:
        return "other"


def _requests(asked: list[tuple[str, ApiStats]]) -> Iterator[Metric]:
    requests = CounterMetricFamily("headrace_requests", "Requests answered", labels=["api"])
    errors = CounterMetricFamily(
        "headrace_errors", "Error codes in answers", labels=["api", "error"]
    )
    bytes_in = CounterMetricFamily("headrace_bytes_in", "Bytes of requests", labels=["api"])
    bytes_out = CounterMetricFamily("headrace_bytes_out", "Bytes of answers", labels=["api"])
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


def _durations(asked: list[tuple[str, ApiStats]]) -> Iterator[Metric]:
    quantiles = GaugeMetricFamily(
        "headrace_request_seconds_quantile",
        "Request durations since the start, error at most 25 %",
        labels=["api", "quantile"],
    )
    summary = SummaryMetricFamily(
        "headrace_request_seconds", "From a request's arrival to its answer", labels=["api"]
    )
    for name, stats in asked:
        summary.add_metric([name], stats.latency.count, stats.latency.seconds)
        for share in _QUANTILES:
            quantiles.add_metric([name, f"{share:g}"], stats.latency.quantile(share))
    yield from (summary, quantiles)


def _histogram(name: str, doc: str, histogram: Histogram) -> Metric:
    family = HistogramMetricFamily(name, doc)
    buckets = [(f"{bound:g}", float(count)) for bound, count in histogram.cumulative()]
    family.add_metric([], [*buckets, ("+Inf", float(histogram.count))], histogram.seconds)
    return family


def _gauge(gauge: Gauge) -> Metric:
    """Return a gauge's family; of many labels only the first `LABELS_MAX` by name."""
    kind = CounterMetricFamily if gauge.counter else GaugeMetricFamily
    value = gauge.read()
    if not isinstance(value, Mapping):
        family: Metric = kind(gauge.name, gauge.doc, value=value)
        return family
    names = [gauge.label or "name"] if isinstance(gauge.label, str) else list(gauge.label)
    labelled = kind(gauge.name, gauge.doc, labels=names)
    for label, number in sorted(value.items())[:LABELS_MAX]:
        labelled.add_metric([label] if isinstance(label, str) else list(label), number)
    found: Metric = labelled
    return found
