"""Faults of machines and processes: power, kills, restarts, pauses, disks and clocks."""

import asyncio
import errno

from headrace.testing.sim.ensemble import SESSION_SECONDS
from headrace.testing.sim.faults.ground import Ground, Kinds
from headrace.testing.sim.faults.links import LinkFaults

_JUMPS_MS = (-3_500_000, 0, 3_500_000)
"""Clocks jump by almost an hour; records a whole hour ahead would be refused."""


class MachineFaults:
    """Faults that hit one machine at a time."""

    def __init__(self, ground: Ground, links: LinkFaults) -> None:
        self._ground = ground
        self._links = links

    def kinds(self) -> Kinds:
        """Return the faults of single machines by name."""
        return {
            "power cuts": self._cut_power,
            "kills": self._kill,
            "restarts": self._restart,
            "pauses": self._pause,
            "disks replaced by empty ones": self._replace_disk,
            "requests held over a kill": self._hold_requests,
            "disks full": self._fill_disk,
            "flushes failed": self._fail_flush,
            "flushes stalled": self._stall_flush,
            "clock jumps": self._set_clock,
        }

    async def _cut_power(self) -> None:
        number = self._ground.take(self._ground.random.choice((0, 1, 1, 1)))
        if number is not None:
            await self.without_power(number)

    async def without_power(self, number: int) -> None:
        """Cut the power of a reserved broker, start it again and release it."""
        self._ground.counts["power cuts"] += 1
        await self._ground.cluster.cut_power(number)
        await self._back(number)

    async def _back(self, number: int) -> None:
        await self._ground.cluster.start_again(number)
        self._ground.give_back(number)

    async def _kill(self) -> None:
        """Kill a process and start it again, sometimes before its session ends."""
        chance = self._ground.random
        number = self._ground.take(chance.choice((0, 1, 1)))
        if number is None:
            return
        self._ground.counts["kills"] += 1
        seconds = chance.choice((0.01, 1, 8)) * chance.random()
        self._ground.counts["back before the session ended"] += seconds < SESSION_SECONDS / 2
        self._ground.cluster.kill(number)
        await asyncio.sleep(seconds)
        await self._back(number)

    async def _restart(self) -> None:
        number = self._ground.take()
        if number is not None:
            await self.restarted(number)

    async def restarted(self, number: int) -> None:
        """Stop a reserved broker cleanly, start it again and release it."""
        self._ground.counts["restarts"] += 1
        await self._ground.cluster.stop(number)
        await asyncio.sleep(self._ground.random.uniform(0, 3))
        await self._back(number)

    async def _pause(self) -> None:
        chance = self._ground.random
        number = self._ground.take()
        if number is None:
            return
        self._ground.counts["pauses"] += 1
        world = self._ground.cluster.worlds[number]
        world.pause()
        await asyncio.sleep(chance.choice((0.05, 1, 4, 12)) * chance.uniform(0.5, 1))
        world.resume()
        self._ground.give_back(number)

    async def _replace_disk(self) -> None:
        """Restart a broker with an empty disk while another broker has all committed records.

        The other broker is kept free of faults meanwhile, because it may hold the last good copy.
        """
        ground = self._ground
        number = ground.take()
        if number is None:
            return
        keeper = self._keeper(number)
        if keeper:
            ground.busy.add(keeper)
            self.end_with_its_disk(number)
            await asyncio.sleep(ground.random.choice((0.1, 4, 10)) * ground.random.random())
            await ground.cluster.start_again(number)
            ground.give_back(keeper)
        ground.give_back(number)

    def _keeper(self, number: int) -> int:
        """Return a fault-free broker with all records that broker `number` has, or 0."""
        ground = self._ground
        return next((other for other in ground.free() if ground.watch.spares(number, other)), 0)

    def end_with_its_disk(self, number: int) -> None:
        """End a broker that may be started again with an empty disk."""
        self._ground.counts["disks replaced by empty ones"] += 1
        self._ground.watch.disk_goes(number)
        self._ground.cluster.replace_disk(number)

    async def _hold_requests(self) -> None:
        """Kill a broker and hold its requests on the network until it has restarted.

        It sometimes restarts with an empty disk.
        """
        ground, chance = self._ground, self._ground.random
        number = ground.take()
        if number is None:
            return
        ground.counts["requests held over a kill"] += 1
        self._links.hold(number)
        await asyncio.sleep(chance.uniform(0.05, 2 * ground.lag_seconds))
        keeper = self._keeper(number) if chance.random() < 0.5 else 0
        if keeper:
            ground.busy.add(keeper)
            self.end_with_its_disk(number)
        else:
            ground.cluster.kill(number)
        await ground.cluster.start_again(number)
        await asyncio.sleep(chance.uniform(0, 0.5))
        self._links.release(number)
        ground.give_back(number, keeper)

    async def _fill_disk(self) -> None:
        await self._fail_disk("disks full")

    async def _fail_flush(self) -> None:
        await self._fail_disk("flushes failed")

    async def _fail_disk(self, name: str) -> None:
        """Make a disk fail soon; the broker is restarted with a healthy disk later."""
        ground = self._ground
        chance, number = ground.random, ground.take()
        if number is None:
            return
        ground.counts[name] += 1
        disk = ground.cluster.worlds[number].sim_disk
        after = chance.choice((0, 1, 20))
        if name == "disks full":
            disk.fail_writes(after, errno.ENOSPC, partial=chance.choice((0, 0, 30)))
        else:
            disk.fail_syncs(after, sticky=chance.random() < 0.5)
        await asyncio.sleep(chance.uniform(0.5, 6))
        await self.without_power(number)

    async def _stall_flush(self) -> None:
        ground = self._ground
        number = ground.random.choice(ground.free() or [0])
        if number:
            ground.counts["flushes stalled"] += 1
            seconds = ground.random.uniform(0.1, 2.5 * ground.lag_seconds)
            ground.cluster.worlds[number].sim_disk.stall(seconds)
            await asyncio.sleep(seconds / 2)

    async def _set_clock(self) -> None:
        ground = self._ground
        number = ground.random.choice(ground.free() or [0])
        if number:
            ground.counts["clock jumps"] += 1
            ground.cluster.worlds[number].set_clock(ground.random.choice(_JUMPS_MS))
