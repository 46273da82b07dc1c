"""What is looked up in a broker only when somebody asks for metrics."""

from collections.abc import Callable, Mapping, Sized
from typing import TYPE_CHECKING

from headrace.frontends.http import coordinator_gauges
from headrace.model.errors import ApiError
from headrace.model.nouns import OFFSETS_TOPIC

if TYPE_CHECKING:
    from headrace.broker.broker import Broker
    from headrace.coordination.coordinators import Coordinators
    from headrace.log.compaction.cleaner import LogCleaner
    from headrace.observe.metrics import Metrics


def register(broker: "Broker", coordinators: "Coordinators", connections: Sized) -> None:
    """Add the gauges of `broker` and its open `connections` to its metrics."""
    metrics = broker.metrics
    metrics.gauge("headrace_connections", "Open connections", lambda: len(connections))
    metrics.gauge("headrace_partitions", "Partitions led", lambda: len(broker.partitions))
    metrics.gauge("headrace_topics", "Topics in the cluster", lambda: len(broker.image.topics))
    metrics.gauge(
        "headrace_groups", "Consumer groups coordinated", lambda: _groups(broker, coordinators)
    )
    metrics.gauge("headrace_log_bytes", "Bytes on disk", lambda: _log_bytes(broker), label="topic")
    register_clients(broker)
    coordinator_gauges.register(broker, coordinators)
    metrics.gauge(
        "headrace_log_directories_failed",
        "Log directories fenced after an error",
        lambda: sum(directory.fenced for directory in broker.directories),
    )
    metrics.gauge(
        "headrace_log_damaged_batches_total",
        "Damaged batches that reads or the scrub have met",
        lambda: sum(directory.context.damaged for directory in broker.directories),
        counter=True,
    )
    metrics.gauge(
        "headrace_log_scrubbed_bytes_total",
        "Bytes the scrub has checked",
        lambda: sum(directory.scrub.scrubbed for directory in broker.directories),
        counter=True,
    )
    metrics.gauge(
        "headrace_partitions_quarantined",
        "Partitions out of service since the start because their log is damaged",
        lambda: sum(len(directory.quarantined) for directory in broker.directories),
    )


def register_clients(broker: "Broker") -> None:
    """Add what clients push of themselves, and how often quotas have them wait."""
    metrics = broker.metrics
    metrics.gauge(
        "headrace_client_metric",
        "What clients push of themselves (KIP-714); sums since they were first pushed",
        broker.telemetry.series,
        label=("metric", "client_id", "attributes"),
    )
    metrics.gauge(
        "headrace_client_metrics_dropped_total",
        "Pushed numbers beyond telemetry.series.max",
        lambda: broker.telemetry.dropped,
        counter=True,
    )
    metrics.gauge(
        "headrace_throttled_total",
        "Requests whose client was told to wait for its quota",
        lambda: {key.value: float(count) for key, count in broker.quotas.throttled.items()},
        label="quota",
        counter=True,
    )


def register_cleaner(metrics: "Metrics", cleaner: "LogCleaner") -> None:
    """Add what the log cleaner counts to `metrics`."""
    counts = cleaner.counts

    def counter(name: str, doc: str, read: Callable[[], float]) -> None:
        metrics.gauge(f"headrace_cleaner_{name}", doc, read, counter=True)

    counter("compactions_total", "Logs compacted", lambda: cleaner.compactions)
    counter("seconds_total", "Time taken by compactions", lambda: cleaner.seconds)
    counter("read_bytes_total", "Log bytes compacted", lambda: counts.bytes_read)
    counter("written_bytes_total", "Log bytes left", lambda: counts.bytes_written)
    counter("records_read_total", "Records compacted", lambda: counts.records_read)
    counter("records_kept_total", "Records left", lambda: counts.records_kept)
    counter("keyless_total", "Records removed for want of a key", lambda: counts.keyless)
    metrics.gauge(
        "headrace_cleaner_uncleanable_partitions",
        "Damaged logs that cannot be compacted",
        lambda: len(cleaner.uncleanable),
    )


def healthy(broker: "Broker") -> bool:
    """Tell whether at least one log directory takes records."""
    return not all(directory.fenced for directory in broker.directories)


def _groups(broker: "Broker", coordinators: "Coordinators") -> float:
    if OFFSETS_TOPIC not in broker.image.topics:
        return 0  # nobody has asked for a group: nor is their code loaded
    try:
        return len(coordinators.groups.list_groups())
    except ApiError:
        # Still being read from __consumer_offsets: not known is not none.
        return float("nan")


def _log_bytes(broker: "Broker") -> Mapping[str, float]:
    """Return the bytes of logs by topic: partitions are too many for labels."""
    found: dict[str, float] = {}
    for directory in broker.directories:
        if directory.fenced:
            continue
        for key, size in directory.sizes().items():
            found[key.topic] = found.get(key.topic, 0) + size
    return found
