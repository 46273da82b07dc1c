"""What a broker that is about to stop is told to wait for."""

from typing import Any

import pytest

from headrace.cluster.decisions.events import IsrAsked
from headrace.cluster.topics.creation import NewTopic
from headrace.model.nouns import BrokerId, LeaderEpoch, TopicPartition
from headrace.replication.controller_calls import AskedIsr
from headrace.testing.sim.cluster import SimCluster
from tests.support.cluster.peer_kit import play, started

ZERO, ONE = BrokerId(0), BrokerId(1)
T0 = TopicPartition("t", 0)


@pytest.mark.parametrize("failed", [False, True])
def test_nobody_waits_for_a_replica_whose_directory_has_failed(failed: bool) -> None:
    async def story(cluster: SimCluster) -> None:
        await started(cluster, 0, 1)
        await cluster.controller().create_topics([NewTopic("t", assignment={0: [ONE, ZERO]})])
        term: Any = cluster.controller()._term
        asked = AskedIsr(T0, LeaderEpoch(0), 0, (ONE,))
        await cluster.controller().carry_out(IsrAsked(ONE, term.facts.brokers[ONE].epoch, [asked]))
        if failed:
            term.facts.failed |= {(ZERO, T0)}
        assert await term.shut_down(ONE, -1) == ([] if failed else [T0])
        term.facts.failed -= {(ZERO, T0)}

    play(story, controlled_shutdown_enable="false")
