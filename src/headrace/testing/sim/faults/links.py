"""Faults of the network: links cut in one or both directions, slow, or reset."""

import asyncio
from itertools import permutations

from headrace.testing.sim.faults.ground import Ground, Kinds

MANY_TIMES_SLOWER = (20.0, 400.0)
"""Least and greatest factor on the delay of a slow link."""


def machine(number: int) -> str:
    """Return the name of a broker's machine."""
    return f"broker-{number}"


class LinkFaults:
    """Faults of the network. Several may affect one link: the first that ends restores it."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._network = ground.cluster.network

    def kinds(self) -> Kinds:
        """Return the faults of the network by name."""
        return {
            "cut links": self._cut_link,
            "slow links": self._slow_link,
            "brokers cut off": self._cut_off,
            "clients cut off": self._cut_client,
            "slow controllers": self._slow_controller,
        }

    def slow_all(self, times: float) -> None:
        """Multiply all delays between brokers."""
        for first, second in permutations(self._ground.brokers, 2):
            self._network.slow(machine(first), machine(second), times)

    def isolate(self, number: int) -> None:
        """Cut all links from the other brokers to one."""
        for other in self._ground.brokers:
            self._network.cut(machine(other), machine(number))

    def reach(self, number: int) -> None:
        """Restore the links that `isolate` cut."""
        for other in self._ground.brokers:
            self._network.mend(machine(other), machine(number))

    def slow_to(self, senders: list[int], receiver: int, times: float) -> None:
        """Multiply the delays from some brokers to one."""
        for sender in senders:
            self._network.slow(machine(sender), machine(receiver), times)

    def break_links(self, first: int, second: int) -> None:
        """Reset all connections between two brokers."""
        self._network.break_links(machine(first), machine(second))
        self._network.break_links(machine(second), machine(first))

    def strand(self, sender: int, receiver: int, seconds: float) -> None:
        """Delay what a broker has sent to another, so that later requests overtake it."""
        self._network.strand(machine(sender), machine(receiver), seconds)

    def hold(self, number: int) -> None:
        """Cut all links from one broker to the others, until `release`."""
        for other in self._ground.brokers:
            self._network.cut(machine(number), machine(other))

    def release(self, number: int) -> None:
        """Restore the links that `hold` cut; data sent meanwhile arrives."""
        for other in self._ground.brokers:
            self._network.mend(machine(number), machine(other))

    def silence_clients(self) -> None:
        """Cut all links from clients to brokers, until `hear_clients`."""
        for client in self._ground.clients:
            for number in self._ground.brokers:
                self._network.cut(client, machine(number))

    def hear_clients(self) -> None:
        """Restore the links that `silence_clients` cut; data sent meanwhile arrives."""
        for client in self._ground.clients:
            for number in self._ground.brokers:
                self._network.mend(client, machine(number))

    async def _cut_link(self) -> None:
        chance = self._ground.random
        first, second = map(machine, chance.sample(self._ground.brokers, 2))
        ways = [(first, second), (second, first)][: chance.choice((1, 2, 2))]
        self._ground.counts["cut links"] += 1
        for way in ways:
            self._network.cut(*way)
        if chance.random() < 0.3:
            self._network.break_links(first, second)
        await asyncio.sleep(chance.uniform(0.1, 8))
        for way in ways:
            self._network.mend(*way)

    async def _slow_link(self) -> None:
        chance = self._ground.random
        first, second = map(machine, chance.sample(self._ground.brokers, 2))
        self._ground.counts["slow links"] += 1
        self._network.slow(first, second, chance.uniform(*MANY_TIMES_SLOWER))
        await asyncio.sleep(chance.uniform(0.5, 8))
        self._network.slow(first, second, 1.0)

    async def _cut_off(self) -> None:
        """Cut all links to a broker, and in half of the cases also those from it."""
        chance, number = self._ground.random, self._ground.random.choice(self._ground.brokers)
        self._ground.counts["brokers cut off"] += 1
        both = chance.random() < 0.5
        self.isolate(number)
        for other in self._ground.brokers if both else ():
            self._network.cut(machine(number), machine(other))
        await asyncio.sleep(chance.uniform(0.5, 3 * self._ground.lag_seconds))
        self.reach(number)
        for other in self._ground.brokers if both else ():
            self._network.mend(machine(number), machine(other))

    async def _cut_client(self) -> None:
        """Cut a client off from a broker: its write may be stored without a response."""
        chance = self._ground.random
        client, broker = chance.choice(self._ground.clients), chance.choice(self._ground.brokers)
        ways = [(machine(broker), client), (client, machine(broker))][: chance.choice((1, 2))]
        self._ground.counts["clients cut off"] += 1
        for way in ways:
            self._network.cut(*way)
        if chance.random() < 0.3:
            self._network.break_links(client, machine(broker))
        await asyncio.sleep(chance.uniform(0.1, 5))
        for way in ways:
            self._network.mend(*way)

    async def _slow_controller(self) -> None:
        """Delay the controller's orders and responses to one broker."""
        chance, decider = self._ground.random, self._ground.decider()
        others = [number for number in self._ground.brokers if number != decider]
        if decider is None:
            return
        self._ground.counts["slow controllers"] += 1
        receiver = chance.choice(others)
        self.slow_to([decider], receiver, 4 * chance.uniform(*MANY_TIMES_SLOWER))
        await asyncio.sleep(chance.uniform(1, 8))
        self.slow_to([decider], receiver, 1.0)
