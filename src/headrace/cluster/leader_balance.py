"""The balance of leaders: preferred replicas lead again where a broker leads too little.

After a broker was away others lead what was its own. As Kafka's controller, ours looks every
`leader.imbalance.check.interval.seconds` and has leaders elected where of the partitions that a
broker is preferred for more than `leader.imbalance.per.broker.percentage` are led by others.
"""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from headrace.broker.broker import Broker
from headrace.cluster import elections, reassignment
from headrace.cluster.cluster_facts import ClusterFacts
from headrace.cluster.controller_port import ElectionType
from headrace.cluster.controller_term import Result
from headrace.cluster.events import ElectionAsked, Event
from headrace.cluster.reaction import Reaction
from headrace.cluster.stored_topic import NEVER_LED
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import BrokerId, TopicPartition

if TYPE_CHECKING:
    from headrace.ports.clock import Timer

FIRST_SECONDS = 5.0
"""After its election the controller looks for the first time."""


class LeaderBalance:
    """The controller's look at who leads what."""

    def __init__(
        self,
        broker: Broker,
        carry_out: Callable[[Event], Awaitable[Result]],
        facts: Callable[[], ClusterFacts],
    ) -> None:
        """`facts` are the present term's; ApiError NOT_CONTROLLER."""
        self._broker = broker
        self._carry_out = carry_out
        self._facts = facts
        self._reaction = Reaction(self._balance, "leaders are not balanced this time")
        self._timer: Timer | None = None

    def start(self) -> None:
        """Look from now on: this broker has become the controller."""
        if self._broker.config.auto_leader_rebalance_enable:
            self._look_in(FIRST_SECONDS)

    def stop(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._reaction.cancel()

    def _look_in(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._broker.clock.call_later(seconds, self._look)

    def _look(self) -> None:
        self._look_in(self._broker.config.leader_imbalance_check_interval_seconds)
        self._reaction.ask()

    async def _balance(self) -> None:
        try:
            percentage = self._broker.config.leader_imbalance_per_broker_percentage
            partitions = imbalanced(self._facts(), percentage)
            if partitions:
                await self._carry_out(ElectionAsked(ElectionType.PREFERRED, partitions))
        except ApiError as error:
            if error.code is not ErrorCode.NOT_CONTROLLER:
                raise


def imbalanced(facts: ClusterFacts, percentage: int) -> list[TopicPartition]:
    """Return the partitions whose preferred replica is to lead again, and can."""
    preferred: dict[BrokerId, int] = {}
    elsewhere: dict[BrokerId, list[TopicPartition]] = {}
    for topic, index in facts.partitions_of(facts.brokers):
        first = topic.node.partitions[index][0]
        preferred[first] = preferred.get(first, 0) + 1
        if topic.states.get(index, NEVER_LED).leader != first:
            elsewhere.setdefault(first, []).append(TopicPartition(topic.name, index))
    return [
        partition
        for first, partitions in elsewhere.items()
        if len(partitions) * 100 > percentage * preferred[first]
        for partition in partitions
        if _may_move(facts, partition)
    ]


def _may_move(facts: ClusterFacts, partition: TopicPartition) -> bool:
    topic = facts.topics[partition.topic]
    if reassignment.runs(topic.node, partition.partition):
        return False
    return elections.preferred(facts, topic, partition.partition) is not None
