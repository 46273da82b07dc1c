"""How the replicas of a cluster are, as far as one broker knows."""

from typing import TYPE_CHECKING, Protocol

from headrace.broker.metadata_image import NO_LEADER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.broker.broker import Broker
    from headrace.broker.leader_term import LeaderTerm
    from headrace.cluster.controller_port import ControllerPort
    from headrace.ports.store import Store
    from headrace.replication.fetchers import ReplicaFetchers
    from headrace.replication.isr_keeper import IsrKeeper


class Replicates(Protocol):
    """What follows here, and how the store hears of this broker."""

    @property
    def fetchers(self) -> "ReplicaFetchers": ...

    @property
    def store(self) -> "Store": ...

    def store_unheard_seconds(self) -> float: ...


def register(broker: "Broker") -> None:
    """Add the gauges of the replicas to the broker's metrics."""
    metrics = broker.metrics
    metrics.gauge(
        "headrace_partitions_under_replicated",
        "Partitions led here of which some replica is not in sync",
        lambda: sum(len(term.in_sync) < len(term.assigned) for term in _terms(broker)),
    )
    metrics.gauge(
        "headrace_partitions_under_min_isr",
        "Partitions led here with fewer in-sync replicas than min.insync.replicas",
        lambda: sum(term.too_few_in_sync for term in _terms(broker)),
    )
    metrics.gauge(
        "headrace_partitions_at_min_isr",
        "Partitions led here with as many in-sync replicas as min.insync.replicas, and no more",
        lambda: sum(len(term.in_sync) == term.in_sync_needed for term in _terms(broker)),
    )
    metrics.gauge(
        "headrace_partitions_offline",
        "Partitions of the cluster that have no leader",
        lambda: sum(
            partition.leader == NO_LEADER
            for topic in broker.image.topics.values()
            for partition in topic.partitions
        ),
    )
    metrics.gauge(
        "headrace_unclean_elections_total",
        "Leaders elected by this broker, as the controller, that may lack committed records",
        lambda: metrics.unclean_elections,
        counter=True,
    )


def register_cluster(broker: "Broker", port: "ControllerPort", replicating: "Replicates") -> None:
    """Add this broker's part in the cluster: whether it decides, follows, and is heard of."""
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
    """Add how often ISRs have changed."""
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


def _terms(broker: "Broker") -> "Iterator[LeaderTerm]":
    for partition in broker.partitions.values():
        if partition.role.term is not None:
            yield partition.role.term
