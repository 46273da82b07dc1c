"""`LeaderBalance`: automatic election of preferred replicas, as in Kafka.

Every `leader.imbalance.check.interval.seconds` the controller computes, for each broker, the share
of the partitions whose preferred replica it is and that are led by another broker.
"""

from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any

from headrace.cluster.controller.controller import Controller
from headrace.cluster.controller.term import ControllerTerm
from headrace.cluster.decisions import elections
from headrace.cluster.decisions.events import BrokersDrained, ElectionAsked, ElectionType
from headrace.cluster.decisions.facts import ClusterFacts
from headrace.cluster.decisions.reassignment import runs
from headrace.cluster.store.stored_topic import NEVER_LED
from headrace.model.errors import ApiError
from headrace.model.nouns import BrokerId, TopicPartition

FIRST_LOOK_SECONDS = 5.0


def to_give_back(facts: ClusterFacts, percentage_max: float) -> list[TopicPartition]:
    """Return the partitions whose preferred replica should lead again, and can. Pure.

    They are those of brokers for which more than `percentage_max` percent of the partitions that
    prefer them have another leader; partitions under reassignment are left out.
    """
    named: Counter[BrokerId] = Counter()
    lost: dict[BrokerId, list[TopicPartition]] = {}
    for name, topic in facts.topics.items():
        if name in facts.deleting:
            continue
        for index, replicas in topic.node.partitions.items():
            first = replicas[0]
            named[first] += 1
            if topic.states.get(index, NEVER_LED).leader != first:
                lost.setdefault(first, []).append(TopicPartition(name, index))
    return [
        partition
        for broker, partitions in lost.items()
        if 100 * len(partitions) > percentage_max * named[broker]
        for partition in partitions
        if _can_be_given_back(facts, partition)
    ]


def _can_be_given_back(facts: ClusterFacts, partition: TopicPartition) -> bool:
    topic = facts.topics[partition.topic]
    if runs(topic.node, partition.partition):
        return False
    return elections.preferred(facts, topic, partition.partition) is not None


class LeaderBalance:
    """The periodic return of leadership to preferred replicas, while this is the controller."""

    def __init__(
        self, controller: Controller, run: Callable[[Coroutine[Any, Any, None]], object]
    ) -> None:
        """Create the periodic check and start its timer. `run` starts a background task."""
        self._controller = controller
        self._broker = controller.broker
        self._run = run
        self._timer = self._broker.clock.call_later(FIRST_LOOK_SECONDS, self._look)

    def close(self) -> None:
        """Stop the checks."""
        self._timer.cancel()

    def _look(self) -> None:
        interval_seconds = self._broker.config.leader_imbalance_check_interval_seconds
        self._timer = self._broker.clock.call_later(interval_seconds, self._look)
        if self._controller.is_controller:
            self._run(self._balance())

    async def _balance(self) -> None:
        try:
            await self._controller.in_term(self._balanced)
        except ApiError:
            return  # another broker is the controller, or retried at the next check

    async def _balanced(self, term: ControllerTerm) -> None:
        percentage = self._broker.config.leader_imbalance_per_broker_percentage
        partitions = to_give_back(term.facts, percentage)
        if partitions:
            await term.carry_out(ElectionAsked(ElectionType.PREFERRED, partitions))
        if term.facts.drained:
            await term.carry_out(BrokersDrained())
