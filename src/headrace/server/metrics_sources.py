"""Registration of a broker's gauges with its metrics."""

from typing import TYPE_CHECKING

from headrace.frontends.http import gauges, replication_gauges

if TYPE_CHECKING:
    from headrace.broker.broker import Broker
    from headrace.cluster.controller.controller import Controller
    from headrace.coordination.coordinators import Coordinators
    from headrace.log.compaction.cleaner import LogCleaner
    from headrace.net.table import ConnectionTable
    from headrace.observe.metrics import Metrics
    from headrace.ports.disk import BrokerDisk
    from headrace.server.cluster.cluster_links import ClusterLinks


def register(
    broker: "Broker",
    coordinators: "Coordinators",
    connections: "ConnectionTable",
    cleaner: "LogCleaner",
    controller: "Controller",
    links: "ClusterLinks | None",
) -> None:
    """Add the gauges of all parts to the broker's metrics; `links` is None outside of a cluster."""
    gauges.register(broker, coordinators)
    names = [listener.name for listener in broker.config.listeners]
    gauges.register_connections(broker.metrics, connections, names)
    gauges.register_cleaner(broker.metrics, cleaner)
    replication_gauges.register(broker)
    if links is not None:
        replication_gauges.register_keeper(broker, links.isr_keeper)
        replication_gauges.register_cluster(broker, controller, links.replicating)
        replication_gauges.register_session(broker.metrics, links.session)


def register_disk(metrics: "Metrics", disk: "BrokerDisk") -> None:
    """Add the disk's counter of passes whose appends ran on a thread."""
    metrics.gauge(
        "headrace_passes_written_by_thread_total",
        "Reads from clients whose appends ran on a thread, as the kernel was delaying writers",
        lambda: disk.passes_handed_over,
        counter=True,
    )
