"""A fault: settled positions of a former leader arrive after those of the present leader.

    first leads ── its complete frame to a follower is delayed
    second leads ── its complete frame arrives; consumers acknowledge for some seconds
    first is killed ── the delayed frame arrives ── second is killed: the follower leads

A follower that accepts the delayed frame has no settlement of the second leader's term (ADR 77).
"""

import asyncio
from contextlib import suppress

from headrace.model.errors import ApiError
from headrace.queues.queue_names import queue_topic
from headrace.testing.sim.faults.ground import Span
from headrace.testing.sim.faults.links import machine
from tests.support.sim.queues.story import FAN, QueueRequests

_LATE_SECONDS = (6.0, 7.0)
"""Longer than consumers need for acknowledgements that no fault of before or after excuses."""
_CUT_SECONDS_MAX = 0.25
"""Longest time from the election to the delay: later, the complete frame has arrived."""
_DOWN_SECONDS = 3.0


class LateFrames(QueueRequests):
    """In place of elections: a follower gets the first leader's frames after the second one's."""

    async def _hand_over(self) -> None:
        ground, chance = self._ground, self._ground.random
        if ground.busy:
            return
        ground.busy.update(ground.brokers)
        cluster, network = ground.cluster, ground.cluster.network
        first, second, follower = chance.sample(ground.brokers, 3)
        if ground.decides(follower):  # it would take the first leader for silent until the end
            second, follower = follower, second
        way = machine(first), machine(follower)
        await self._lead(second, first, follower)
        await asyncio.sleep(1)
        began = cluster.loop.time()
        leading = asyncio.create_task(self._lead(first, second, follower))
        await asyncio.sleep(chance.uniform(0, _CUT_SECONDS_MAX))
        network.cut(*way)
        await asyncio.sleep(chance.uniform(0.2, 0.4))
        stranded, late_seconds = cluster.loop.time(), chance.uniform(*_LATE_SECONDS)
        self._links.strand(first, follower, late_seconds)
        network.mend(*way)
        ground.spans.append(Span(began, stranded, "cut links"))
        await leading
        await asyncio.sleep(0.5)
        await self._lead(second, first, follower)
        await self._fall(first, second, stranded + late_seconds)
        ground.give_back(*ground.brokers)

    async def _fall(self, first: int, second: int, arrives_at: float) -> None:
        """Kill the former leader before its frame arrives, and the present one soon after."""
        ground, cluster = self._ground, self._ground.cluster
        await asyncio.sleep(arrives_at - 0.5 - cluster.loop.time())
        began = cluster.loop.time()
        cluster.kill(first)
        await asyncio.sleep(arrives_at - cluster.loop.time() + ground.random.uniform(0, 0.15))
        cluster.kill(second)
        ground.counts["frames overtaken"] += 1
        await asyncio.sleep(_DOWN_SECONDS)
        for number in (first, second):
            await cluster.start_again(number)
        ground.spans.append(Span(began, cluster.loop.time(), "kills"))

    async def _lead(self, *replicas: int) -> None:
        """Have the first of the brokers lead the queues of the fan."""
        for queue in FAN:
            topic = queue_topic("/", queue)
            with suppress(ApiError):
                await self._ground.cluster.prefer(topic, replicas)
            await self._ground.cluster.elect(topic)
