"""Ways between machines fail: cut in one direction or both, slow, broken."""

import asyncio
from itertools import permutations

from headrace.testing.sim.faults.ground import Ground, Kinds

MANY_TIMES_SLOWER = (20.0, 400.0)


def machine(number: int) -> str:
    """Return the name of a broker's machine."""
    return f"broker-{number}"


class LinkFaults:
    """Faults of the network. Several may hit one link: the first to end mends it."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._network = ground.cluster.network

    def kinds(self) -> Kinds:
        """Return the faults by name."""
        return {
            "cut links": self._cut_link,
            "slow links": self._slow_link,
            "brokers cut off": self._cut_off,
            "clients cut off": self._cut_client,
            "slow controllers": self._slow_controller,
        }

    def slow_all(self, times: float) -> None:
        """Have all ways between brokers take so many times as long."""
        for first, second in permutations(self._ground.brokers, 2):
            self._network.slow(machine(first), machine(second), times)

    def isolate(self, number: int) -> None:
        """Let a broker hear nothing of the others."""
        for other in self._ground.brokers:
            self._network.cut(machine(other), machine(number))

    def reach(self, number: int) -> None:
        """Let it hear of them again."""
        for other in self._ground.brokers:
            self._network.mend(machine(other), machine(number))

    def slow_to(self, senders: list[int], receiver: int, times: float) -> None:
        """Have what these send to one broker take so many times as long."""
        for sender in senders:
            self._network.slow(machine(sender), machine(receiver), times)

    def break_links(self, first: int, second: int) -> None:
        """End all connections between two brokers."""
        self._network.break_links(machine(first), machine(second))
        self._network.break_links(machine(second), machine(first))

    def strand(self, sender: int, receiver: int, seconds: float) -> None:
        """Have what a broker has sent to another arrive later than what it will send."""
        self._network.strand(machine(sender), machine(receiver), seconds)

    def hold(self, number: int) -> None:
        """Let nothing that a broker sends reach the others, until `release`."""
        for other in self._ground.brokers:
            self._network.cut(machine(number), machine(other))

    def release(self, number: int) -> None:
        """Let it reach them, with what was sent before."""
        for other in self._ground.brokers:
            self._network.mend(machine(number), machine(other))

    def silence_clients(self) -> None:
        """Let nothing that clients send reach a broker, until `hear_clients`."""
        for client in self._ground.clients:
            for number in self._ground.brokers:
                self._network.cut(client, machine(number))

    def hear_clients(self) -> None:
        """Let it reach them, with what was sent before."""
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
        """Cut a broker off from all others, and perhaps them from it."""
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
        """Cut a client off from a broker: what it has sent may be stored, and no answer come."""
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
        """Have the controller's words reach a broker late: orders, and answers about ISRs."""
        chance, decider = self._ground.random, self._ground.decider()
        others = [number for number in self._ground.brokers if number != decider]
        if decider is None:
            return
        self._ground.counts["slow controllers"] += 1
        receiver = chance.choice(others)
        self.slow_to([decider], receiver, 4 * chance.uniform(*MANY_TIMES_SLOWER))
        await asyncio.sleep(chance.uniform(1, 8))
        self.slow_to([decider], receiver, 1.0)
