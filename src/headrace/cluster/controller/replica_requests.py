"""`ReplicaRequests`: leader elections and reassignments, as clients request them of the controller.

It implements `controller_port.ReplicasPort`. Error codes and texts are those of Kafka 4.3.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence

from headrace.broker.broker import Broker
from headrace.broker.metadata_image import NO_LEADER
from headrace.cluster.controller.term import Result
from headrace.cluster.controller_port import Reassigning
from headrace.cluster.decisions import reassignment
from headrace.cluster.decisions.events import ElectionAsked, ElectionType, Event, ReassignmentAsked
from headrace.cluster.decisions.facts import ClusterFacts
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import BrokerId, TopicPartition
from headrace.model.protocols import feature_of
from headrace.posix.awaiting import carried_on

Target = tuple[BrokerId, ...] | None
"""Replicas, the preferred leader first; None: cancel the running reassignment."""

_TEXTS = {
    ErrorCode.ELECTION_NOT_NEEDED: "Leader election not needed for topic partition.",
    ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE: "The preferred leader was not available.",
    ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE: "Eligible topic partition leaders are not available.",
    ErrorCode.NO_REASSIGNMENT_IN_PROGRESS: "No partition reassignment is in progress.",
}


class ReplicaRequests:
    """Elections and reassignments, decided, written and ordered in the present term."""

    def __init__(
        self,
        broker: Broker,
        carry_out: Callable[[Event], Awaitable[Result]],
        facts: Callable[[], ClusterFacts],
    ) -> None:
        """Handle replicas' requests to the controller.

        `carry_out` decides an event and executes the decision. `facts` returns the present
        term's facts, or raises ApiError NOT_CONTROLLER.
        """
        self._broker = broker
        self._carry_out = carry_out
        self._facts = facts

    async def elect(
        self, kind: ElectionType, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, ApiError | None]:
        """Elect the preferred replica, or with UNCLEAN any replica if no other can lead."""
        known = [partition for partition in partitions if self._unknown(partition) is None]
        result = await self._carry_out(ElectionAsked(kind, known))
        outcome: dict[TopicPartition, ApiError | None] = {}
        for partition in partitions:
            code = result.refused.get(partition) or result.failed.get(partition)
            if code is ErrorCode.ELECTION_NOT_NEEDED and not self._led(partition):
                code = ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
                if kind is ElectionType.UNCLEAN:
                    code = ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
            outcome[partition] = self._unknown(partition)
            if outcome[partition] is None and code is not None:
                outcome[partition] = ApiError(code, _TEXTS.get(code, ""))
        return outcome

    def _unknown(self, partition: TopicPartition) -> ApiError | None:
        name, index = partition
        topic = self._broker.image.topics.get(name)
        if topic is None:
            return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}")
        if not 0 <= index < len(topic.partitions):
            text = f"No such partition as {name}-{index}"
            return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)
        return None

    def _led(self, partition: TopicPartition) -> bool:
        """Return whether the metadata image has a leader whose directory has not failed."""
        topic = self._broker.image.topics.get(partition.topic)
        return topic is not None and topic.partitions[partition.partition].leader != NO_LEADER

    async def reassign(
        self, asked: Mapping[TopicPartition, Target], *, factor_may_change: bool = True
    ) -> dict[TopicPartition, ApiError | None]:
        """Begin reassignments, each independently, or cancel running ones."""
        return await carried_on(self._reassign(asked, factor_may_change))

    async def _reassign(
        self, asked: Mapping[TopicPartition, Target], factor_may_change: bool
    ) -> dict[TopicPartition, ApiError | None]:
        self._facts()
        outcome: dict[TopicPartition, ApiError | None] = {}
        for partition, target in asked.items():
            refusal = _refusal(self._facts(), partition, target, factor_may_change)
            if refusal is None:
                result = await self._carry_out(ReassignmentAsked(partition, target))
                code = result.refused.get(partition)
                refusal = None if code is None else ApiError(code, _why(code, partition, target))
            outcome[partition] = refusal
        return outcome

    def reassigning(self) -> list[Reassigning]:
        """Return the partitions under reassignment, sorted by topic."""
        facts = self._facts()
        found = []
        for name, topic in sorted(facts.topics.items()):
            node = topic.node
            if name not in facts.deleting:
                found += [
                    Reassigning(
                        TopicPartition(name, index),
                        replicas,
                        node.adding.get(index, ()),
                        node.removing.get(index, ()),
                    )
                    for index, replicas in node.partitions.items()
                    if reassignment.runs(node, index)
                ]
        return found


def _refusal(
    facts: ClusterFacts, partition: TopicPartition, target: Target, factor_may_change: bool
) -> ApiError | None:
    """Return why `target` cannot be the partition's replicas, as far as the request shows.

    Or None.
    """
    name, index = partition
    topic = facts.topics.get(name)
    if topic is None or name in facts.deleting:
        text = f"Unable to find a topic named {name}."
        return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)
    replicas = topic.node.partitions.get(index)
    if replicas is None:
        text = f"Unable to find partition {name}:{index}."
        return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)
    if target is None:
        return None
    refuse, feature = ErrorCode.INVALID_REPLICA_ASSIGNMENT, feature_of(name)
    if not target:
        text = "The manual partition assignment includes an empty replica list."
        return ApiError(refuse, text)
    for broker in target:
        # A present replica may be offline; a new one may not.
        if broker not in facts.brokers and broker not in replicas:
            text = f"includes broker {broker}, but no such broker is registered."
            return ApiError(refuse, f"The manual partition assignment {text}")
        if broker not in replicas and broker not in facts.brokers_with(feature):
            text = f"includes broker {broker}, which has no feature {feature}."
            return ApiError(refuse, f"The manual partition assignment {text}")
        if target.count(broker) > 1:
            text = f"includes the broker {broker} more than once."
            return ApiError(refuse, f"The manual partition assignment {text}")
    factor = len(replicas) - len(topic.node.removing.get(index, ()))
    if not factor_may_change and len(target) != factor:
        text = f"The replication factor is changed from {factor} to {len(target)}"
        return ApiError(ErrorCode.INVALID_REPLICATION_FACTOR, text)
    return None


def _why(code: ErrorCode, partition: TopicPartition, target: Target) -> str:
    name, index = partition
    if code is ErrorCode.INVALID_REPLICA_ASSIGNMENT and target is None:
        return (
            f"Unable to revert partition assignment for {name}:{index} because it would require an"
            " unclean leader election."
        )
    if code is ErrorCode.INVALID_REPLICA_ASSIGNMENT:
        return f"none of the new replicas of {name}:{index} that are in sync can lead it"
    return _TEXTS.get(code, "")
