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
        "How far a replica of a partition led here ends before its leader does, at most",
        lambda: survey.followers_lag_max,
    )
    metrics.gauge(
        "headrace_replica_lag_max_messages",
        "How far a replica here lags behind what its leader has said to be committed, at most",
        lambda: survey.replica_lag_max,
    )
    sides = {"leader": broker.throttles.leader, "follower": broker.throttles.follower}
    metrics.gauge(
        "headrace_replication_throttled_bytes_per_second",
        "What is copied of throttled replicas, as the throttle counts it",
        lambda: {side: throttle.bytes_per_second for side, throttle in sides.items()},
        label="side",
    )


def register_session(metrics: "Metrics", session: "Session") -> None:
    """Register metrics of the broker's session with the metadata store."""
    metrics.gauge(
        "headrace_store_connected",
        "1 while the store of the cluster is heard of, 0 while the session is in doubt",
        lambda: session.connected,
    )
    metrics.gauge(
        "headrace_store_sessions_expired_total",
        "Sessions with the store that were over: the broker was out of the cluster until the next",
        lambda: session.expired,
        counter=True,
    )


def register_cluster(broker: "Broker", port: "ControllerPort", replicating: "Replicates") -> None:
    """Register the broker's part in the cluster: controller, fetchers, store."""
    metrics = broker.metrics
    metrics.gauge(
        "headrace_controller_active",
        "1 where this broker decides for the cluster: all brokers together have 1",
        lambda: port.is_controller,
    )
    metrics.gauge(
        "headrace_partitions_followed",
        "Partitions fetched from leaders elsewhere",
        lambda: replicating.fetchers.followed,
    )
    metrics.gauge(
        "headrace_fetchers_failing",
        "Leaders elsewhere that cannot be fetched from, and are tried on",
        lambda: replicating.fetchers.failing,
    )
    metrics.gauge(
        "headrace_store_unheard_seconds",
        "For how long the store of the cluster has not answered this broker",
        replicating.store_unheard_seconds,
    )
    metrics.gauge(
        "headrace_store_session_seconds",
        "After how long unheard the store ends this broker's session",
        lambda: replicating.store.session_seconds,
    )


def register_keeper(broker: "Broker", keeper: "IsrKeeper") -> None:
    """Register the counts of ISR shrinks and expansions."""
    metrics = broker.metrics
    metrics.gauge(
        "headrace_isr_shrinks_total",
        "In-sync replicas of a partition led here made fewer",
        lambda: keeper.shrinks,
        counter=True,
    )
    metrics.gauge(
        "headrace_isr_expands_total",
        "In-sync replicas of a partition led here made more",
        lambda: keeper.expands,
        counter=True,
    )
