"""Faults of the metadata store: unreachable for one or all brokers, expired sessions, slow."""

import asyncio

from headrace.testing.sim.faults.ground import Ground, Kinds

_SLOWER = (20.0, 300.0)


class StoreFaults:
    """Faults of the store and of the brokers' sessions with it."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground

    def kinds(self) -> Kinds:
        """Return the faults of the metadata store by name."""
        return {
            "lost touch": self._lose_touch,
            "expired sessions": self._expire,
            "store gone": self._lose_store,
            "store slow": self._slow_store,
        }

    async def _lose_touch(self) -> None:
        chance, number = self._ground.random, self._ground.take(0)
        if number is None:
            return
        self._ground.counts["lost touch"] += 1
        world = self._ground.cluster.worlds[number]
        world.lose_touch()
        await asyncio.sleep(chance.choice((1, 5, 12)) * chance.uniform(0.5, 1))
        world.regain_touch()
        self._ground.give_back(number)

    async def _expire(self) -> None:
        number = self._ground.take(0)
        if number is not None:
            self._ground.counts["expired sessions"] += 1
            self._ground.cluster.worlds[number].expire()
            self._ground.give_back(number)

    async def _lose_store(self) -> None:
        """Cut all brokers off from the store, for shorter or longer than a session's timeout."""
        ground, chance = self._ground, self._ground.random
        if ground.busy:
            return
        ground.busy.update(ground.brokers)
        ground.counts["store gone"] += 1
        worlds = [ground.cluster.worlds[number] for number in ground.brokers]
        for world in worlds:
            world.lose_touch()
        await asyncio.sleep(chance.choice((1, 5, 9)) * chance.uniform(0.5, 1))
        for world in worlds:
            world.regain_touch()
            await asyncio.sleep(chance.choice((0, 0.5)) * chance.random())
        ground.give_back(*ground.brokers)

    async def _slow_store(self) -> None:
        ground = self._ground
        ground.counts["store slow"] += 1
        ground.cluster.ensemble.slower = ground.random.uniform(*_SLOWER)
        await asyncio.sleep(ground.random.uniform(0.5, 6))
        ground.cluster.ensemble.slower = 1.0
