"""What the controller's decisions are asked of."""

from typing import Any

import pytest

from headrace.cluster.decisions.decide import decide
from headrace.cluster.decisions.events import TopicsFound
from headrace.cluster.decisions.facts import ClusterFacts
from headrace.cluster.store.stored_topic import StoredTopic
from headrace.cluster.store.znodes import PartitionState, TopicNode
from headrace.model.invariant import InvariantError
from headrace.model.nouns import BrokerId, LeaderEpoch


def test_an_event_that_nobody_decides_on_ends_the_process() -> None:
    unknown: Any = "an event"
    with pytest.raises(InvariantError, match="what follows from an event"):
        decide(unknown, unknown)


@pytest.mark.parametrize(
    ("partitions", "version", "taken"),
    [(1, 3, False), (2, 3, True), (2, 2, False)],
    ids=["as many, changed since", "more", "more, and no newer"],
)
def test_a_topic_is_taken_up_again_only_where_it_is_newer_and_has_more_partitions(
    partitions: int, version: int, taken: bool
) -> None:
    def topic(count: int, node_version: int) -> StoredTopic:
        replicas = {index: (BrokerId(0),) for index in range(count)}
        states = {0: PartitionState(BrokerId(0), LeaderEpoch(0), (BrokerId(0),), 1)}
        node = TopicNode(replicas, b"i" * 16)
        return StoredTopic("t", node, states=states, version=node_version, versions={0: 0})

    facts = ClusterFacts()
    facts.topics["t"] = topic(1, 2)
    found = TopicsFound([topic(partitions, version)], {"t": b"i" * 16})
    created = [change.created for change in decide(facts, found).changes]
    assert any(created) == taken
