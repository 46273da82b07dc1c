"""Metrics that are read from a broker's state at each scrape."""

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from headrace import __version__
from headrace.config.listeners import METRICS_LISTENER
from headrace.frontends.http import coordinator_gauges
from headrace.frontends.http.surveys import GroupLags, LogSizes
from headrace.model.errors import ApiError
from headrace.model.nouns import OFFSETS_TOPIC
from headrace.observe.metrics import TopicTraffic

if TYPE_CHECKING:
    from headrace.broker.broker import Broker
    from headrace.coordination.coordinators import Coordinators
    from headrace.log.compaction.cleaner import LogCleaner
    from headrace.net.table import ConnectionTable
    from headrace.observe.metrics import Metrics


def register(broker: "Broker", coordinators: "Coordinators") -> None:
    """Register the gauges of `broker` with its metrics."""
    metrics = broker.metrics
    python = "{}.{}.{}".format(*sys.version_info)
    _info(
        metrics, "build", "which version runs, on which Python", version=__version__, python=python
    )
    _info(
        metrics,
        "broker",
        "which broker of which cluster this is",
        broker_id=str(broker.broker_id),
        cluster_id=broker.cluster_id,
    )
    metrics.gauge("headrace_partitions", "Partitions led", lambda: len(broker.partitions))
    metrics.gauge("headrace_topics", "Topics in the cluster", lambda: len(broker.image.topics))
    metrics.gauge(
        "headrace_groups", "Consumer groups coordinated", lambda: _groups(broker, coordinators)
    )
    _register_topics(broker)
    _register_lags(broker, coordinators)
    register_clients(broker)
    coordinator_gauges.register(broker, coordinators)
    metrics.gauge(
        "headrace_log_directories_failed",
        "Log directories fenced after an error",
        lambda: sum(directory.fenced for directory in broker.directories),
    )
    metrics.gauge(
        "headrace_log_directories_low",
        "Log directories that refuse producers: fewer bytes are free than log.dirs.free.bytes.min",
        lambda: sum(bool(directory.context.low) for directory in broker.directories),
    )
    metrics.gauge(
        "headrace_log_damaged_batches_total",
        "Damaged batches found by reads or by the scrub",
        lambda: sum(directory.context.damaged for directory in broker.directories),
        counter=True,
    )
    metrics.gauge(
        "headrace_log_scrubbed_bytes_total",
        "Bytes checked by the scrub",
        lambda: sum(directory.scrub.scrubbed for directory in broker.directories),
        counter=True,
    )
    metrics.gauge(
        "headrace_partitions_quarantined",
        "Partitions out of service since the start because their log is damaged",
        lambda: sum(len(each.quarantined) for each in broker.directories if not each.fenced),
    )


def _info(metrics: "Metrics", name: str, doc: str, **labels: str) -> None:
    always: dict[tuple[str, ...], float] = {tuple(labels.values()): 1}
    metrics.gauge(f"headrace_{name}_info", f"1; {doc}", lambda: always, label=tuple(labels))


def register_connections(
    metrics: "Metrics", table: "ConnectionTable", listeners: Sequence[str]
) -> None:
    """Register metrics of a connection table: open connections by listener, and counters."""
    none = dict.fromkeys(listeners, 0)
    metrics.gauge(
        "headrace_connections",
        "Open connections",
        lambda: none | Counter(name for name in table.listeners() if name != METRICS_LISTENER),
        label="listener",
    )
    for name, doc, read in (
        ("accepted", "Connections accepted", lambda: table.accepted),
        ("refused", "Connections that a limit or a rate refused", lambda: table.refused),
        ("dropped", "Connections closed because they made no progress", lambda: table.dropped),
        (
            "blocked",
            "Times that reading from a connection was paused, as too many requests were unanswered",
            lambda: table.blocked,
        ),
    ):
        metrics.gauge(f"headrace_connections_{name}_total", doc, read, counter=True)


def register_clients(broker: "Broker") -> None:
    """Register the metrics that clients push (KIP-714), and the throttled requests."""
    metrics = broker.metrics
    metrics.gauge(
        "headrace_client_metric",
        "Metrics pushed by clients (KIP-714); sums count since the client's first push",
        broker.telemetry.series,
        label=("metric", "client_id", "attributes"),
        labels_max=None,
    )
    metrics.gauge(
        "headrace_client_metrics_dropped_total",
        "Values pushed by clients and dropped, as telemetry.series.max was reached",
        lambda: broker.telemetry.dropped,
        counter=True,
    )
    metrics.gauge(
        "headrace_throttled_total",
        "Responses with a throttle time, by quota",
        lambda: {key.value: float(count) for key, count in broker.quotas.throttled.items()},
        label="quota",
        counter=True,
    )


def register_cleaner(metrics: "Metrics", cleaner: "LogCleaner") -> None:
    """Register the log cleaner's counters."""
    counts = cleaner.counts

    def counter(name: str, doc: str, read: Callable[[], float]) -> None:
        metrics.gauge(f"headrace_cleaner_{name}", doc, read, counter=True)

    counter("compactions_total", "Compactions of logs", lambda: cleaner.compactions)
    counter("seconds_total", "Seconds spent in compactions", lambda: cleaner.seconds)
    counter("read_bytes_total", "Bytes read by compactions", lambda: counts.bytes_read)
    counter("written_bytes_total", "Bytes written by compactions", lambda: counts.bytes_written)
    counter("records_read_total", "Records read by compactions", lambda: counts.records_read)
    counter("records_kept_total", "Records retained by compactions", lambda: counts.records_kept)
    counter("keyless_total", "Records removed because they have no key", lambda: counts.keyless)
    metrics.gauge(
        "headrace_cleaner_uncleanable_partitions",
        "Damaged logs that cannot be compacted",
        lambda: len(cleaner.uncleanable),
    )


def healthy(broker: "Broker") -> bool:
    """Tell whether at least one log directory accepts records."""
    return not all(directory.fenced for directory in broker.directories)


def _groups(broker: "Broker", coordinators: "Coordinators") -> float:
    if OFFSETS_TOPIC not in broker.image.topics:
        return 0  # the broker has no group: the coordinator's code is not loaded
    try:
        return len(coordinators.groups.list_groups())
    except ApiError:
        # Groups are still being loaded from __consumer_offsets: unknown is not 0.
        return float("nan")


def _register_topics(broker: "Broker") -> None:
    metrics, sizes = broker.metrics, LogSizes(broker)
    metrics.survey("log sizes", sizes.slices)

    def listed() -> list[str]:
        """Return the topics with metrics of their own: the first opened, which do not change."""
        return list(islice(metrics.topics, broker.config.metrics_topics_max))

    def counter(name: str, doc: str, read: Callable[[TopicTraffic], int]) -> None:
        def by_topic() -> dict[str, float]:
            traffic = metrics.topics
            return {name: read(traffic[name]) for name in listed() if name in traffic}

        metrics.gauge(
            f"headrace_topic_{name}_total",
            doc,
            by_topic,
            label="topic",
            counter=True,
            labels_max=None,
        )

    counter("records_in", "Records appended by clients", lambda topic: topic.records_in)
    counter("bytes_in", "Bytes of batches appended by clients", lambda topic: topic.bytes_in)
    counter("bytes_out", "Bytes of batches sent to consumers", lambda topic: topic.bytes_out)
    counter(
        "replication_bytes_out",
        "Bytes of batches sent to followers",
        lambda topic: topic.replica_bytes_out,
    )
    metrics.gauge(
        "headrace_log_bytes",
        "Bytes on disk",
        lambda: {name: sizes.by_topic.get(name, 0) for name in listed()},
        label="topic",
        labels_max=None,
    )
    metrics.gauge(
        "headrace_logs_bytes", "Bytes on disk, of all topics", lambda: sum(sizes.by_topic.values())
    )
    metrics.gauge(
        "headrace_topics_unlisted",
        "Topics with replicas on this broker without metrics, as metrics.topics.max is reached",
        lambda: max(len(metrics.topics) - broker.config.metrics_topics_max, 0),
    )


def _register_lags(broker: "Broker", coordinators: "Coordinators") -> None:
    lags = GroupLags(broker, coordinators, lambda: broker.config.metrics_group_lags_max)
    metrics = broker.metrics
    metrics.survey("group lags", lags.slices)
    metrics.gauge(
        "headrace_group_lag_records",
        "Records between a group's committed offset and the high watermark",
        lambda: lags.records,
        label=("group", "topic"),
        labels_max=None,
    )
    metrics.gauge(
        "headrace_group_lags_unlisted",
        "Pairs of group and topic without a lag metric, as metrics.group.lags.max is reached",
        lambda: lags.unlisted,
    )
    metrics.gauge(
        "headrace_group_partitions_unknown",
        "Partitions missing in headrace_group_lag_records: this broker coordinates the group and"
        " has no replica",
        lambda: lags.partitions_unknown,
    )
