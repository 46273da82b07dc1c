"""Loss of the last in-sync replica's disk: no leader until an unclean election is requested."""

import asyncio

from headrace.cluster.decisions.events import ElectionType
from headrace.testing.sim.faults.ground import Ground, Kinds
from headrace.testing.sim.faults.machines import MachineFaults

_ELECTED_SECONDS_MAX = 20.0


class LastDisk:
    """A fault that loses committed records in spite of all rules, at most once per story."""

    def __init__(self, ground: Ground, machines: MachineFaults) -> None:
        self._ground = ground
        self._machines = machines
        self._is_lost = False

    def kinds(self) -> Kinds:
        """Return the fault "last disks gone" by its name."""
        return {"last disks gone": self._lose}

    async def _lose(self) -> None:
        """Restart a leader that is alone in sync first and with an empty disk; it must not lead."""
        ground, chance = self._ground, self._ground.random
        leaders = ground.leaders()
        if ground.busy or not leaders or self._is_lost:
            return
        leader = chance.choice(leaders)
        ground.busy.update(ground.brokers)
        others = [number for number in ground.brokers if number != leader]
        await asyncio.gather(*(ground.cluster.cut_power(number) for number in others))
        await asyncio.sleep(chance.uniform(0, 2))
        partitions = range(ground.watch.count)
        if all(ground.watch.stored_in_sync(index) == {leader} for index in partitions):
            self._is_lost = True
            ground.counts["last disks gone"] += 1
            self._machines.end_with_its_disk(leader)
        else:
            ground.cluster.kill(leader)
        await ground.cluster.start_again(leader)
        await asyncio.sleep(chance.uniform(0, 2))
        await asyncio.gather(*(ground.cluster.start_again(number) for number in others))
        await self._elect()
        ground.give_back(*ground.brokers)

    async def _elect(self) -> None:
        """Request unclean elections until all partitions have leaders, as an operator would."""
        cluster, watch = self._ground.cluster, self._ground.watch
        until = cluster.loop.time() + _ELECTED_SECONDS_MAX
        while cluster.loop.time() < until and not all(map(watch.is_led, range(watch.count))):
            await asyncio.sleep(0.5)
            await cluster.elect(watch.topic, ElectionType.UNCLEAN)
