"""Messages between brokers that arrive after newer messages.

sender                                   receiver
  | first message, on connection 1 ...      |
  | timeout: closes connection 1            |
  | newer message, on connection 2 -------> | handles the newer message
  |                 ... first message ----> | handles the outdated message
"""

import asyncio

from headrace.testing.sim.faults.ground import Ground, Kinds
from headrace.testing.sim.faults.links import LinkFaults, machine
from headrace.testing.sim.faults.machines import MachineFaults

_LOOK_SECONDS = 0.01
_CLOSE_LOOK_SECONDS = 0.001
_FETCH_SECONDS = 0.05
"""Maximum time until a follower reports that it has flushed the records it received."""
_WRITE_SECONDS = 2.0
"""Longer than the longest pause of a client."""
_LATE_SECONDS = (2.0, 6.0)
"""Delay of the first messages after the connection is possible again."""


class Overtaken:
    """Faults that reorder messages between brokers."""

    def __init__(self, ground: Ground, machines: MachineFaults, links: LinkFaults) -> None:
        self._ground = ground
        self._machines = machines
        self._links = links

    def kinds(self) -> Kinds:
        """Return the faults that reorder messages, by name."""
        return {
            "orders overtaken": self._overtake_orders,
            "ISRs overtaken": self._overtake_isr,
            "fetches overtaken": self._overtake_fetch,
        }

    async def _overtake_orders(self) -> None:
        """Delay orders until the orders of later changes, as another broker leaves and returns."""
        ground, chance = self._ground, self._ground.random
        decider = ground.decider()
        if ground.busy or decider is None:
            return
        receiver, other = chance.sample([n for n in ground.brokers if n != decider], 2)
        ground.busy.update(ground.brokers)
        ground.counts["orders overtaken"] += 1
        network, world = ground.cluster.network, ground.cluster.worlds[other]
        network.cut(machine(decider), machine(receiver))
        world.expire()
        await asyncio.sleep(chance.uniform(0.1, 1))
        late_seconds = self._strand(decider, receiver)
        await asyncio.sleep(chance.uniform(0.5, 1.5))
        if chance.random() < 0.5:
            world.expire()
        await ground.cluster.elect(ground.watch.topic)
        await asyncio.sleep(late_seconds)
        ground.give_back(*ground.brokers)

    async def _overtake_isr(self) -> None:
        """Delay a leader's ISR request until after its repetition and its next request."""
        ground, chance = self._ground, self._ground.random
        decider = ground.decider()
        leaders = [number for number in ground.leaders() if number != decider]
        if ground.busy or decider is None or not leaders:
            return
        leader = chance.choice(leaders)
        lagging = next(n for n in ground.brokers if n not in (leader, decider))
        ground.busy.update(ground.brokers)
        ground.counts["ISRs overtaken"] += 1
        ground.cluster.network.cut(machine(leader), machine(decider))
        self._links.isolate(lagging)
        await self._asked(leader)
        late_seconds = self._strand(leader, decider)
        self._links.reach(lagging)
        await asyncio.sleep(late_seconds)
        ground.give_back(*ground.brokers)

    def _strand(self, sender: int, receiver: int) -> float:
        """Delay the sender's old messages and return the delay in seconds."""
        late_seconds = self._ground.random.uniform(*_LATE_SECONDS)
        self._links.strand(sender, receiver, late_seconds)
        self._ground.cluster.network.mend(machine(sender), machine(receiver))
        return late_seconds

    async def _asked(self, leader: int) -> None:
        """Wait until a leader has requested an ISR, or until it had ample time to."""
        for _ in range(int(4 * self._ground.lag_seconds / _LOOK_SECONDS)):
            await asyncio.sleep(_LOOK_SECONDS)
            if self._ground.asks(leader):
                return

    async def _grown(self, number: int) -> None:
        """Wait until a broker has received more records, or until it had ample time to."""
        before = self._ends(number)
        for _ in range(int(_WRITE_SECONDS / _CLOSE_LOOK_SECONDS)):
            await asyncio.sleep(_CLOSE_LOOK_SECONDS)
            if self._ends(number) != before:
                return

    def _ends(self, number: int) -> list[int]:
        held = self._ground.watch.partitions(number).values()
        return [partition.log.end_offset for partition in held]

    async def _overtake_fetch(self) -> None:
        """Delay a broker's last fetch until after its next registration, with an empty disk.

        The third broker is down and nothing is written afterwards, so the delayed fetch claims that
        the empty broker has all records.
        """
        ground, chance = self._ground, self._ground.random
        leaders = ground.leaders()
        if ground.busy or not leaders:
            return
        leader = chance.choice(leaders)
        empty, third = chance.sample([n for n in ground.brokers if n != leader], 2)
        ground.busy.update(ground.brokers)
        ground.counts["fetches overtaken"] += 1
        await ground.cluster.cut_power(third)
        self._links.hold(empty)
        await self._grown(empty)
        self._links.silence_clients()
        await asyncio.sleep(_FETCH_SECONDS)
        if ground.watch.spares(empty, leader):
            self._machines.end_with_its_disk(empty)
        else:
            ground.cluster.kill(empty)
        await ground.cluster.start_again(empty)
        await asyncio.sleep(chance.uniform(0, 0.5))
        self._links.release(empty)
        await asyncio.sleep(0.5)
        self._links.hear_clients()
        await ground.cluster.start_again(third)
        ground.give_back(*ground.brokers)
