"""`LogGrowth`: gives the log of declarations as many replicas as its brokers allow.

    fewer than three replicas, and another broker that may have one ──► it is added
    all replicas in sync ──► a majority of them confirms

The log begins with fewer where a single broker has joined a cluster, or where it was created before
other brokers had their listeners. The controller grows it, whether it serves queues or not.
"""

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from headrace.cluster.topics.internal_topics import OWN_STATE_REPLICAS
from headrace.config.descriptions import Alteration, AlterOperation
from headrace.model.errors import ApiError
from headrace.model.nouns import BrokerId, TopicPartition
from headrace.model.protocols import AMQP
from headrace.queues.queue_names import DECLARATIONS_TOPIC

if TYPE_CHECKING:
    from headrace.broker.broker import Broker
    from headrace.broker.metadata_image import TopicInfo
    from headrace.cluster.controller_port import ControllerPort
    from headrace.cluster.peers.conversation import Run
    from headrace.replication.fetch_dependencies import Running

LOOK_SECONDS = 3.0
"""Seconds between two looks at the log's replicas."""
_LEAST = "min.insync.replicas"


class LogGrowth:
    """The looks of one broker, while it is the controller. On the event loop."""

    def __init__(self, broker: "Broker", controller: "ControllerPort", run: "Run") -> None:
        """Begin to look. `run` starts a task on the event loop."""
        self._broker = broker
        self._controller = controller
        self._run = run
        self._growing: Running | None = None
        self._timer = broker.clock.call_later(LOOK_SECONDS, self._look)

    def close(self) -> None:
        """End the looks: the broker stops."""
        self._timer.cancel()
        if self._growing is not None:
            self._growing.cancel()

    def _look(self) -> None:
        self._timer = self._broker.clock.call_later(LOOK_SECONDS, self._look)
        image = self._broker.image
        topic = image.topics.get(DECLARATIONS_TOPIC)
        if topic is None or self._growing is not None or not self._controller.is_controller:
            return
        serving = image.brokers_with(AMQP.feature)
        able = [broker for broker in serving if broker not in image.drained]
        moves = missing_replicas(topic, able, image.brokers.keys() - serving.keys())
        least = None if moves else majority_to_set(topic)
        if moves or least is not None:
            self._growing = self._run(self._grow(moves, least))

    async def _grow(
        self, moves: dict[TopicPartition, tuple[BrokerId, ...] | None], least: int | None
    ) -> None:
        try:
            if moves:
                await self._controller.replicas.reassign(moves)
            if least is not None:
                change = [Alteration(_LEAST, AlterOperation.SET, str(least))]
                await self._controller.settings.alter_topic(DECLARATIONS_TOPIC, change)
        except ApiError:
            pass  # the next look tries it again, on the controller of that time
        finally:
            self._growing = None


def missing_replicas(
    topic: "TopicInfo", able: Sequence[BrokerId], unable: Collection[BrokerId] = ()
) -> dict[TopicPartition, tuple[BrokerId, ...] | None]:
    """Return the new replicas of partitions that have fewer than they could have.

    `able`: the brokers that may have more. Replicas on `unable` brokers, where the controller of an
    earlier version may have put them, are replaced, as these brokers cannot coordinate.
    """
    found: dict[TopicPartition, tuple[BrokerId, ...] | None] = {}
    for index, partition in enumerate(topic.partitions):
        kept = [broker for broker in partition.replicas if broker not in unable]
        others = [broker for broker in sorted(able) if broker not in kept]
        if others:
            at = index % len(others)
            kept += (others[at:] + others[:at])[: max(0, OWN_STATE_REPLICAS - len(kept))]
        if kept and tuple(kept) != partition.replicas:
            found[TopicPartition(topic.name, index)] = tuple(kept)
    return found


def majority_to_set(topic: "TopicInfo") -> int | None:
    """Return the least number of replicas that is to confirm; None: it is so, or not yet safe."""
    if any(set(each.isr) != set(each.replicas) for each in topic.partitions):
        return None
    least = min(len(each.replicas) for each in topic.partitions) // 2 + 1
    return least if int(topic.config.get(_LEAST, "1")) < least else None
