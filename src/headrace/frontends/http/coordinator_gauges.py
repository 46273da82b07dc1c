"""Metrics of transactions and share groups, read from the coordinators at each scrape.

A broker without their internal topics reports 0, and does not load the coordinators' code.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from headrace.model.errors import ApiError
from headrace.model.nouns import SHARE_STATE_TOPIC, TRANSACTIONS_TOPIC

if TYPE_CHECKING:
    from headrace.broker.broker import Broker
    from headrace.coordination.coordinators import Coordinators
    from headrace.coordination.share.share_service import ShareService
    from headrace.coordination.transactions.transaction_coordinators import TransactionCoordinators


def register(broker: "Broker", coordinators: "Coordinators") -> None:
    """Register the metrics of transactions and share groups with `broker`."""
    _register_transactions(broker, coordinators)
    _register_share_groups(broker, coordinators)


def _register_transactions(broker: "Broker", coordinators: "Coordinators") -> None:
    metrics = broker.metrics

    def of(read: "Callable[[TransactionCoordinators], float]") -> float:
        return read(coordinators.transactions) if TRANSACTIONS_TOPIC in broker.image.topics else 0

    def oldest_seconds(transactions: "TransactionCoordinators") -> float:
        since = min(transactions.open_since_ms(), default=None)
        return 0.0 if since is None else max(0.0, (broker.clock.wall_ms() - since) / 1000)

    metrics.gauge(
        "headrace_transactions_open",
        "Open transactions coordinated by this broker",
        lambda: of(lambda found: len(found.open_since_ms())),
    )
    metrics.gauge(
        "headrace_transaction_open_seconds_max",
        "Age of the oldest open transaction in seconds; read_committed consumers wait for it",
        lambda: of(oldest_seconds),
    )
    metrics.gauge(
        "headrace_transactions_ending",
        "Transactions being committed or aborted: some of their markers are not written yet",
        lambda: of(lambda found: sum(len(shard.ending) for shard in found.led)),
    )
    metrics.gauge(
        "headrace_transactions_total",
        "Transactions that have ended since the start",
        lambda: {
            "committed": of(lambda found: found.counts.committed),
            "aborted": of(lambda found: found.counts.aborted),
        },
        label="outcome",
        counter=True,
    )
    metrics.gauge(
        "headrace_transactions_timed_out_total",
        "Transactions aborted because they exceeded their producer's transaction.timeout.ms",
        lambda: of(lambda found: found.counts.timed_out),
        counter=True,
    )


def _register_share_groups(broker: "Broker", coordinators: "Coordinators") -> None:
    metrics = broker.metrics

    def used() -> bool:
        return SHARE_STATE_TOPIC in broker.image.topics

    def of(read: "Callable[[ShareService], float]") -> float:
        return read(coordinators.share) if used() else 0

    def groups(share: "ShareService") -> float:
        try:
            return len(share.list_groups())
        except ApiError:
            # Groups are still being loaded from __consumer_offsets: unknown is not 0.
            return float("nan")

    def acknowledged() -> Mapping[str, float]:
        settled = coordinators.share.partitions.counts.settled if used() else {}
        return {kind.name.lower(): count for kind, count in settled.items()}

    metrics.gauge("headrace_share_groups", "Share groups coordinated", lambda: of(groups))
    metrics.gauge(
        "headrace_share_partitions",
        "Partitions that share groups consume, counted once per group",
        lambda: of(lambda share: sum(1 for _ in share.partitions)),
    )
    metrics.gauge(
        "headrace_share_records_out",
        "Records acquired by share group members and not acknowledged yet",
        lambda: of(lambda share: sum(partition.out for partition in share.partitions)),
    )
    metrics.gauge(
        "headrace_share_records_acquired_total",
        "Records acquired by share group members; redeliveries count again",
        lambda: of(lambda share: share.partitions.counts.acquired),
        counter=True,
    )
    metrics.gauge(
        "headrace_share_records_acknowledged_total",
        "Records acknowledged by share group members, by kind of acknowledgement",
        acknowledged,
        label="kind",
        counter=True,
    )
    metrics.gauge(
        "headrace_share_locks_timed_out_total",
        "Records whose acquisition lock expired before an acknowledgement",
        lambda: of(lambda share: share.partitions.counts.timed_out),
        counter=True,
    )
