"""Elections that a story asks for come to an end, whatever becomes of the controller."""

import asyncio

import pytest

from headrace.cluster.topics.creation import NewTopic
from headrace.testing.sim.cluster import ELECTION_SECONDS_MAX, SimCluster
from tests.support.sim.cluster import play, until


@pytest.mark.parametrize("turns", range(1, 12))
def test_an_election_is_waited_for_no_longer_when_its_controller_has_died(turns: int) -> None:
    async def story(cluster: SimCluster) -> None:
        await cluster.controller().create_topics([NewTopic("t", assignment={0: (1, 0)})])
        image = cluster.brokers[0].broker.image
        await cluster.stop(1)
        await until(lambda: image.topics["t"].partitions[0].leader == 0)
        await cluster.start(1)
        await until(lambda: len(image.topics["t"].partitions[0].isr) == 2)
        loop = asyncio.get_running_loop()
        began = loop.time()
        electing = loop.create_task(cluster.elect("t"))
        for _ in range(turns):
            await asyncio.sleep(0)
        cluster.kill(0)
        await electing
        assert loop.time() - began < ELECTION_SECONDS_MAX + 1
        await cluster.start(0)

    play(story, 0, 1)
