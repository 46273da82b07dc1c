"""Brokers that miss the deletion of a topic learn of it from the next controller."""

import asyncio
from contextlib import suppress

import pytest

from headrace.cluster.topics.creation import NewTopic
from headrace.model.errors import ApiError
from headrace.model.nouns import BrokerId
from headrace.testing.sim.cluster import SimCluster
from tests.support.sim.cluster import play, until

TOPIC = "t"
FORMER, NEXT, CUT_OFF = 1, 2, 3


@pytest.mark.parametrize(
    "replicas", [(FORMER, NEXT), (FORMER, CUT_OFF)], ids=["complete", "not complete"]
)
def test_broker_cut_off_during_a_deletion_forgets_the_topic(replicas: tuple[int, int]) -> None:
    async def story(cluster: SimCluster) -> None:
        image = cluster.brokers[CUT_OFF].broker.image
        assignment = {0: tuple(map(BrokerId, replicas))}
        await cluster.controller().create_topics([NewTopic(TOPIC, assignment=assignment)])
        await until(lambda: TOPIC in image.topics)
        cluster.network.cut(f"broker-{FORMER}", f"broker-{CUT_OFF}")
        with suppress(ApiError):
            await cluster.controller().delete_topics([TOPIC])
        cluster.kill(FORMER)
        await asyncio.sleep(30.0)
        cluster.network.mend(f"broker-{FORMER}", f"broker-{CUT_OFF}")
        assert TOPIC not in cluster.brokers[NEXT].broker.image.topics
        await until(lambda: TOPIC not in image.topics)

    play(story, FORMER, NEXT, CUT_OFF)
