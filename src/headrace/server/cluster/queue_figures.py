"""Metrics of a cluster's queues on one broker: those that it leads, and what it does with others'.

The queues of other brokers are surveyed in slices, between which the event loop runs.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from headrace.remote_queues.home.remote_queue import HomeFigures

if TYPE_CHECKING:
    from headrace.broker.broker import Broker
    from headrace.server.cluster.cluster_queues import ClusterQueues

SLICE_QUEUES = 1000
"""Queues surveyed between two turns of the event loop."""
ByQueue = dict[tuple[str, ...], float]
"""Numbers by the names of a vhost and a queue."""


class RemoteSurvey:
    """The sums over the queues of other brokers, as of the last survey."""

    def __init__(self, queues: "ClusterQueues") -> None:
        """Begin without a survey."""
        self._queues = queues
        self.count = 0
        self.in_session = 0
        self.sums = HomeFigures(0, 0, 0)
        self.consumers: ByQueue = {}
        """Consumers of streams that this broker serves, by vhost and queue."""
        self.delivered: ByQueue = {}
        """Deliveries to them, since the queue was first used here."""

    def slices(self) -> Iterator[None]:
        """Survey all queues in steps of one slice; all sums change at the last step."""
        sums, in_session, remotes = HomeFigures(0, 0, 0), 0, self._queues.remote_queues
        consumers: ByQueue = {}
        delivered: ByQueue = {}
        for at, remote in enumerate(remotes):
            sums = HomeFigures(*map(sum, zip(sums, remote.figures, strict=True)))
            in_session += remote.in_session
            here = remote.consumers.here
            if here is not None:
                consumers[remote.vhost, remote.name] = len(here)
                delivered[remote.vhost, remote.name] = here.traffic.delivered
            if at % SLICE_QUEUES == SLICE_QUEUES - 1:
                yield
        self.count, self.in_session, self.sums = len(remotes), in_session, sums
        self.consumers, self.delivered = consumers, delivered


def register(broker: "Broker", queues: "ClusterQueues") -> None:
    """Register the metrics of a cluster's queues."""
    metrics, survey = broker.metrics, RemoteSurvey(queues)
    metrics.survey("remote queues", survey.slices)
    metrics.gauge(
        "headrace_queues_led", "Durable queues that this broker leads", lambda: queues.led_count
    )
    metrics.gauge(
        "headrace_queue_home_sessions",
        "Sessions of other brokers that use queues led here",
        lambda: queues.sessions.count,
    )
    metrics.gauge(
        "headrace_queues_remote",
        "Queues of other brokers that clients of this one have used",
        lambda: survey.count,
    )
    metrics.gauge(
        "headrace_queues_remote_in_session",
        "Queues of other brokers that have a session with their leader",
        lambda: survey.in_session,
    )
    metrics.gauge(
        "headrace_queues_remote_unconfirmed_batches",
        "Batches of publishes to leaders on other brokers that are not confirmed",
        lambda: survey.sums.unconfirmed_batches,
    )
    metrics.gauge(
        "headrace_queues_remote_waiting_bytes",
        "Bytes of publishes that wait for a leader on another broker",
        lambda: survey.sums.waiting_bytes,
    )
    metrics.gauge(
        "headrace_queues_remote_credit",
        "Deliveries granted to leaders on other brokers that have not come",
        lambda: survey.sums.credit,
    )
    metrics.gauge(
        "headrace_queue_replica_consumers",
        "Consumers of a stream that this broker serves from its own replica",
        lambda: survey.consumers,
        label=("vhost", "queue"),
    )
    metrics.gauge(
        "headrace_queue_replica_messages_delivered_total",
        "Deliveries to consumers of a stream from this broker's own replica",
        lambda: survey.delivered,
        label=("vhost", "queue"),
        counter=True,
    )
