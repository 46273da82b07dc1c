"""What goes wrong with brokers that replicate, drawn from the seed."""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from itertools import permutations

from headrace.model.errors import ApiError
from headrace.testing.sim.cluster import SimCluster

MANY_TIMES_SLOWER = (20.0, 400.0)


class Faults:
    """Faults of one story. A swarm: each seed has some kinds, and each kind its own rate."""

    def __init__(self, cluster: SimCluster, brokers: Sequence[int], topic: str) -> None:
        """`counts` tells what has happened. Links may be slow from the beginning on."""
        self.counts: Counter[str] = Counter()
        self.topic = topic
        self._cluster = cluster
        self._brokers = brokers
        self._random = random.Random(f"faults {cluster.seed}")  # noqa: S311 - not for secrets
        self._busy: set[int] = set()
        """Brokers that are down, or stand still."""
        self._over = False
        kinds: list[Callable[[], Awaitable[None]]] = [
            self._cut_power, self._restart, self._cut_link, self._slow_link, self._pause,
            self._lose_touch, self._expire, self._hand_over, self._delete_records,
        ]  # fmt: skip
        if self._random.random() < 0.3:
            times = self._random.uniform(*MANY_TIMES_SLOWER) / 2
            for one, other in permutations(brokers, 2):
                cluster.network.slow(f"broker-{one}", f"broker-{other}", times)
        self._kinds = [kind for kind in kinds if self._random.random() < 0.6] or kinds
        self._weights = [self._random.uniform(0.2, 1) for _ in self._kinds]

    async def happen(self, seconds: float) -> None:
        """Let things go wrong for so long; afterwards all brokers run and reach each other."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        tracks = [self._track(until) for _ in range(self._random.choice((1, 2, 2)))]
        await asyncio.gather(*tracks)

    async def _track(self, until: float) -> None:
        loop = asyncio.get_running_loop()
        while loop.time() < until:
            await asyncio.sleep(self._random.uniform(0, 0.8))
            (kind,) = self._random.choices(self._kinds, self._weights)
            await kind()

    def _free(self, least_left: int = 1) -> int | None:
        """Return a broker that runs, where so many others do; it is taken until given back."""
        free = [number for number in self._brokers if number not in self._busy]
        if len(free) <= least_left:
            return None
        leading = [number for number in free if self._leads(number)]
        number = self._random.choice(leading if leading and self._random.random() < 0.5 else free)
        self._busy.add(number)
        return number

    def _leads(self, number: int) -> bool:
        server = self._cluster.brokers.get(number)
        return server is not None and any(
            topic == self.topic for topic, _ in server.broker.partitions
        )

    async def _cut_power(self) -> None:
        number = self._free(self._random.choice((0, 1, 1, 1)))
        if number is None:
            return
        self.counts["power cuts"] += 1
        await self._cluster.cut_power(number)
        await self._cluster.start(number)
        self._busy.discard(number)

    async def _restart(self) -> None:
        number = self._free()
        if number is None:
            return
        self.counts["restarts"] += 1
        await self._cluster.stop(number)
        await asyncio.sleep(self._random.uniform(0, 3))
        await self._cluster.start(number)
        self._busy.discard(number)

    async def _cut_link(self) -> None:
        network = self._cluster.network
        one, other = (f"broker-{number}" for number in self._random.sample(self._brokers, 2))
        ways = [(one, other), (other, one)][: self._random.choice((1, 2, 2))]
        self.counts["cut links"] += 1
        for way in ways:
            network.cut(*way)
        if self._random.random() < 0.3:
            network.break_links(one, other)
        await asyncio.sleep(self._random.uniform(0.1, 8))
        for way in ways:
            network.mend(*way)

    async def _slow_link(self) -> None:
        network = self._cluster.network
        one, other = (f"broker-{number}" for number in self._random.sample(self._brokers, 2))
        self.counts["slow links"] += 1
        network.slow(one, other, self._random.uniform(*MANY_TIMES_SLOWER))
        await asyncio.sleep(self._random.uniform(0.5, 8))
        network.slow(one, other, 1.0)

    async def _pause(self) -> None:
        number = self._free()
        if number is None:
            return
        self.counts["pauses"] += 1
        world = self._cluster.worlds[number]
        world.pause()
        await asyncio.sleep(self._random.choice((0.05, 1, 4, 12)) * self._random.uniform(0.5, 1))
        world.resume()
        self._busy.discard(number)

    async def _lose_touch(self) -> None:
        number = self._free(0)
        if number is None:
            return
        self.counts["lost touch"] += 1
        world = self._cluster.worlds[number]
        world.lose_touch()
        await asyncio.sleep(self._random.choice((1, 5, 12)) * self._random.uniform(0.5, 1))
        world.regain_touch()
        self._busy.discard(number)

    async def _expire(self) -> None:
        number = self._free(0)
        if number is None:
            return
        self.counts["expired sessions"] += 1
        self._cluster.worlds[number].expire()
        self._busy.discard(number)

    async def _hand_over(self) -> None:
        """Have the preferred replicas lead again."""
        self.counts["elections asked for"] += 1
        await self._cluster.elect_preferred(self.topic)

    async def _delete_records(self) -> None:
        """Delete what is committed, as a client would ask its leader to."""
        for number in self._brokers:
            server = self._cluster.brokers.get(number)
            if server is None or number in self._busy:
                continue
            for (topic, _), partition in sorted(server.broker.partitions.items()):
                if topic == self.topic and partition.role.knows_end:
                    self.counts["deletions"] += 1
                    try:
                        partition.delete_records(-1)
                    except ApiError:
                        continue
                    return
