"""Metrics of replication, as far as this broker knows: replicas, controller, store."""

from typing import TYPE_CHECKING, Protocol

from headrace.frontends.http.surveys import ReplicaSurvey

if TYPE_CHECKING:
    from headrace.broker.broker import Broker
    from headrace.cluster.controller_port import ControllerPort
    from headrace.observe.metrics import Metrics
    from headrace.ports.store import Store
    from headrace.replication.fetchers import ReplicaFetchers
    from headrace.replication.isr_keeper import IsrKeeper


class Replicates(Protocol):
    """Replication on this broker: fetchers, and the metadata store's connection."""

    @property
    def fetchers(self) -> "ReplicaFetchers": ...

    @property
    def store(self) -> "Store": ...

    def store_unheard_seconds(self) -> float: ...


class Session(Protocol):
    """The broker's session with the metadata store."""

    @property
    def connected(self) -> bool: ...

    @property
    def expired(self) -> int: ...


def register(broker: "Broker") -> None:
    """Register the gauges of replicas with the broker's metrics."""
    metrics = broker.metrics
    survey = ReplicaSurvey(broker)
    metrics.survey("replicas", survey.slices)
    metrics.gauge(
        "headrace_partitions_under_replicated",
        "Partitions led here with a replica not in sync; those added by a reassignment not counted",
        lambda: survey.under_replicated,
    )
    metrics.gauge(
        "headrace_partitions_under_min_isr",
        "Partitions led here with fewer in-sync replicas than min.insync.replicas",
        lambda: survey.under_min_isr,
    )
    metrics.gauge(
        "headrace_partitions_at_min_isr",
        "Partitions led here with as many in-sync replicas as min.insync.replicas, and no more",
        lambda: survey.at_min_isr,
    )
    metrics.gauge(
        "headrace_partitions_offline",
        "Partitions of the cluster that have no leader",
        lambda: survey.offline,
    )
    metrics.gauge(
        "headrace_unclean_elections_total",
        "Leaders elected by this broker, as the controller, that may lack committed records",
        lambda: metrics.unclean_elections,
        counter=True,
    )
    metrics.gauge(
        "headrace_followers_lag_max_messages",
        "Largest lag of a follower behind the log end of a leader on this broker, in offsets",
        lambda: survey.followers_lag_max,
    )
    metrics.gauge(
        "headrace_replica_lag_max_messages",
        "Largest lag of a follower on this broker behind its leader's high watermark, in offsets",
        lambda: survey.replica_lag_max,
    )
    sides = {"leader": broker.throttles.leader, "follower": broker.throttles.follower}
    metrics.gauge(
        "headrace_replication_throttled_bytes_per_second",
        "Rate at which throttled replicas are copied, by side (leader, follower)",
        lambda: {side: throttle.bytes_per_second for side, throttle in sides.items()},
        label="side",
    )


def register_session(metrics: "Metrics", session: "Session") -> None:
    """Register metrics of the broker's session with the metadata store."""
    metrics.gauge(
        "headrace_store_connected",
        "1 while this broker is connected to the metadata store, 0 while its session is in doubt",
        lambda: session.connected,
    )
    metrics.gauge(
        "headrace_store_sessions_expired_total",
        "Expired sessions with the metadata store; the broker is out of the cluster until the next",
        lambda: session.expired,
        counter=True,
    )


def register_cluster(broker: "Broker", port: "ControllerPort", replicating: "Replicates") -> None:
    """Register the broker's part in the cluster: controller, fetchers, store."""
    metrics = broker.metrics
    metrics.gauge(
        "headrace_controller_active",
        "1 if this broker is the controller; the sum over all brokers should be 1",
        lambda: port.is_controller,
    )
    metrics.gauge(
        "headrace_partitions_followed",
        "Partitions that this broker follows",
        lambda: replicating.fetchers.followed,
    )
    metrics.gauge(
        "headrace_fetchers_failing",
        "Leaders that this broker cannot fetch from; it retries",
        lambda: replicating.fetchers.failing,
    )
    metrics.gauge(
        "headrace_store_unheard_seconds",
        "Seconds since the metadata store last answered this broker",
        replicating.store_unheard_seconds,
    )
    metrics.gauge(
        "headrace_store_session_seconds",
        "Session timeout with the metadata store, in seconds",
        lambda: replicating.store.session_seconds,
    )


def register_keeper(broker: "Broker", keeper: "IsrKeeper") -> None:
    """Register the counts of ISR shrinks and expansions."""
    metrics = broker.metrics
    metrics.gauge(
        "headrace_isr_shrinks_total",
        "ISR shrinks of partitions led by this broker",
        lambda: keeper.shrinks,
        counter=True,
    )
    metrics.gauge(
        "headrace_isr_expands_total",
        "ISR expansions of partitions led by this broker",
        lambda: keeper.expands,
        counter=True,
    )
