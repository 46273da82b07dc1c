"""Queues of other brokers that nothing uses are closed, and opened again for their next use."""

import asyncio

import pytest

from headrace.remote_queues.home import queues_elsewhere
from headrace.testing.sim.cluster import SimCluster
from tests.support.cluster.queue_home import Home, played
from tests.support.queues.port_place import persistent
from tests.support.sim.cluster import until


@pytest.mark.parametrize("durable", [False, True])
def test_idle_queue_is_closed_at_its_home_and_used_again(
    durable: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queues_elsewhere, "IDLE_SECONDS", 3.0)

    async def story(cluster: SimCluster, home: Home, leader: Home) -> None:
        await leader.declare("q", durable=durable)
        for number in range(3):
            assert home.host.publish(["q"], persistent(str(number)))
            assert len(home.queues.remote_queues) == 1
            await until(lambda: not home.queues.remote_queues)
            assert "q" not in home.host.targets
            await asyncio.sleep(1)
            known = leader.queues.sessions._known.values()
            assert [each.session._queues for each in known] == [{}]
        home.consume("q", prefetch=0)
        await until(lambda: home.bodies == ["0", "1", "2"])
        await asyncio.sleep(10)
        assert len(home.queues.remote_queues) == 1, "it has a consumer"

    played(story)
