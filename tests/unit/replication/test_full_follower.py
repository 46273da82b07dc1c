"""A follower whose log directory has hardly any room left, and gets some."""

import asyncio

from headrace.cluster.store import znodes
from headrace.cluster.topics.creation import NewTopic
from headrace.model.nouns import BrokerId
from headrace.record.batch import check_produced
from headrace.testing.sim.cluster import LAG_SECONDS, SimCluster
from tests.support.cluster.peer_kit import play, started
from tests.support.log.log import NOW_MS, batch_of
from tests.support.sim.cluster import until

ONE, TWO = BrokerId(1), BrokerId(2)
LEAST = 1000


def test_a_full_follower_waits_and_leaves_the_isr_until_it_has_room() -> None:
    async def story(cluster: SimCluster) -> None:
        free = 1 << 30
        disk = cluster.world(2).sim_disk
        disk.free_bytes = lambda path: free  # type: ignore[method-assign]
        await started(cluster, 0, 1, 2)
        await cluster.controller().create_topics([NewTopic("t", assignment={0: (ONE, TWO)})])
        led, held = cluster.brokers[1].broker.partitions, cluster.brokers[2].broker.followed
        await until(lambda: ("t", 0) in led and ("t", 0) in held)
        leader, follower = led["t", 0], held["t", 0]

        def produce() -> None:
            view = memoryview(bytearray(batch_of(b"v")))
            leader.append(view, check_produced(view), now_ms=NOW_MS)

        async def isr() -> set[int]:
            path = znodes.state_path("t", 0)
            node = await cluster.ensemble.session().get(path)
            return set(znodes.decode_state(path, node.value).isr)

        produce()
        await until(lambda: follower.log.end_offset == 1)
        free = LEAST // 2 - 1
        await until(lambda: follower.log.context.full)
        await asyncio.sleep(2)
        produce()
        await asyncio.sleep(3 * LAG_SECONDS)
        assert follower.log.end_offset == 1
        assert await isr() == {ONE}
        assert leader.high_watermark == 2
        free = LEAST // 2
        await until(lambda: follower.log.end_offset == 2)
        await until(lambda: leader.role.term is not None and TWO in leader.role.term.in_sync)

    play(story, log_dirs_free_bytes_min=str(LEAST))
