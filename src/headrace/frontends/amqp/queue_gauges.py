"""Metrics of AMQP queues: ready, unacknowledged and passed messages, of each queue and in all.

All queues are surveyed in slices, between which the event loop runs (`Metrics.surveys`). The first
`metrics.queues.max` queues have metrics of their own. Exclusive queues have none: their names come
and go.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from headrace.frontends.amqp.queue_broker import QueueBroker
    from headrace.observe.metrics import Metrics
    from headrace.queues.engine.delivery_turns import AnyQueue

SLICE_QUEUES = 1000
"""Queues surveyed between two turns of the event loop, which takes a millisecond."""
_LABELS = ("vhost", "queue")


class _Number(NamedTuple):
    """A metric of each AMQP queue: its name, help text and source."""

    name: str
    doc: str
    read: "Callable[[AnyQueue], float]"
    counter: bool = False


_NUMBERS = (
    _Number("messages_ready", "Messages ready for delivery", lambda queue: queue.ready),
    _Number(
        "messages_unacked",
        "Messages delivered and not acknowledged",
        lambda queue: queue.unacked,
    ),
    _Number(
        "ready_bytes", "Bytes of the bodies of ready messages", lambda queue: queue.ready_bytes
    ),
    _Number("consumers", "Consumers", lambda queue: len(queue.consumers)),
    _Number(
        "messages_published_total",
        "Messages accepted since the start, from Kafka producers and dead letters included",
        lambda queue: queue.traffic.published,
        counter=True,
    ),
    _Number(
        "messages_delivered_total",
        "Deliveries to consumers and by basic.get",
        lambda queue: queue.traffic.delivered,
        counter=True,
    ),
    _Number(
        "messages_redelivered_total",
        "Deliveries with the redelivered flag",
        lambda queue: queue.traffic.redelivered,
        counter=True,
    ),
    _Number(
        "messages_acknowledged_total",
        "Messages acknowledged",
        lambda queue: queue.traffic.acknowledged,
        counter=True,
    ),
    _Number(
        "messages_discarded_total",
        "Messages expired, rejected, or over a length or delivery limit; dead-lettered ones too",
        lambda queue: queue.traffic.discarded,
        counter=True,
    ),
)


class QueueSurvey:
    """The metrics of all queues, as of the last survey."""

    def __init__(self, queues: "QueueBroker", queues_max: int) -> None:
        self._queues = queues
        self._queues_max = queues_max
        self.by_queue: dict[str, dict[tuple[str, ...], float]] = {
            number.name: {} for number in _NUMBERS
        }
        self.listed = self.count = self.ready = self.unacked = self.consumers = 0

    def slices(self) -> Iterator[None]:
        """Survey all queues in steps of one slice; all metrics change at the last step."""
        found = QueueSurvey(self._queues, self._queues_max)
        hosts = self._queues.virtual_hosts.hosts
        all_queues = [(vhost, queue) for vhost in hosts for queue in hosts[vhost].queues.values()]
        for at, (vhost, queue) in enumerate(all_queues):
            if found.listed < self._queues_max and queue.declared.owner is None:
                found.listed += 1
                for number in _NUMBERS:
                    found.by_queue[number.name][vhost, queue.name] = number.read(queue)
            found.count += 1
            found.ready += queue.ready
            found.unacked += queue.unacked
            found.consumers += len(queue.consumers)
            if at % SLICE_QUEUES == SLICE_QUEUES - 1:
                yield
        self.__dict__.update(found.__dict__)


def register(
    metrics: "Metrics", queues: "QueueBroker", queues_max: int, is_blocked: Callable[[], bool]
) -> None:
    """Register the metrics of queues; `is_blocked` tells whether publishers are blocked."""
    survey = QueueSurvey(queues, queues_max)
    metrics.survey("queues", survey.slices)

    def of_queue(number: _Number) -> None:
        metrics.gauge(
            f"headrace_queue_{number.name}",
            number.doc,
            lambda: survey.by_queue[number.name],
            label=_LABELS,
            counter=number.counter,
            labels_max=None,
        )

    for number in _NUMBERS:
        of_queue(number)
    metrics.gauge("headrace_queues", "AMQP queues", lambda: survey.count)
    metrics.gauge(
        "headrace_queues_unlisted",
        "Queues without metrics of their own: beyond metrics.queues.max, or exclusive",
        lambda: survey.count - survey.listed,
    )
    metrics.gauge(
        "headrace_queues_messages_ready",
        "Messages ready for delivery, in all queues",
        lambda: survey.ready,
    )
    metrics.gauge(
        "headrace_queues_messages_unacked",
        "Messages delivered and not acknowledged, in all queues",
        lambda: survey.unacked,
    )
    metrics.gauge(
        "headrace_queues_broken_total",
        "Queues closed since the start because an invariant of theirs was broken",
        lambda: queues.virtual_hosts.turns.broken,
        counter=True,
    )
    metrics.gauge("headrace_queues_consumers", "Consumers of all queues", lambda: survey.consumers)
    metrics.gauge(
        "headrace_amqp_channels",
        "Open AMQP channels",
        lambda: sum(client.channel_count for client in queues.clients),
    )
    metrics.gauge(
        "headrace_amqp_memory_bytes",
        "Bytes of memory of queued messages; publishers are blocked at amqp.memory.bytes.max",
        lambda: queues.memory.bytes,
    )
    metrics.gauge(
        "headrace_amqp_publishers_blocked",
        "1 while AMQP publishers are blocked because memory or disk space is low",
        lambda: float(is_blocked()),
    )
