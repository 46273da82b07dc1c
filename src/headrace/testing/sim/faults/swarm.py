"""The faults of a story, drawn from its seed."""

import asyncio
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import NamedTuple

from headrace.model.invariant import invariant
from headrace.testing.sim.faults.falls import Falls
from headrace.testing.sim.faults.ground import Ground, Kind, Span
from headrace.testing.sim.faults.last_disk import LastDisk
from headrace.testing.sim.faults.links import MANY_TIMES_SLOWER, LinkFaults
from headrace.testing.sim.faults.machines import MachineFaults
from headrace.testing.sim.faults.overtaken import Overtaken
from headrace.testing.sim.faults.requests import Requests
from headrace.testing.sim.faults.resets import FALSE_RESETS, FalseResets
from headrace.testing.sim.faults.stores import StoreFaults

FAULTS = (
    "power cuts", "kills", "restarts", "pauses", "disks replaced by empty ones",
    "requests held over a kill", "disks full", "flushes failed", "flushes stalled", "clock jumps",
    "cut links", "slow links", "brokers cut off", "clients cut off", "slow controllers",
    "lost touch", "expired sessions", "store gone", "store slow", "toppled", "blackouts",
    "fallen before the answer", "fallen after a shrink", "alone and out of touch",
    "orders overtaken", "ISRs overtaken", "fetches overtaken", "last disks gone",
    "elections asked for", "deletions", FALSE_RESETS,
)  # fmt: skip
"""The faults, by the names of their counters."""
ELECTIONS_MIN = 2
"""The least number of elections in each story."""
ELECT_SECONDS_MAX = 60.0
"""Seconds for these after the faults; G15 is judged then."""


class Mix(NamedTuple):
    """The parameters that a story's faults are drawn with."""

    kinds: Collection[str] = FAULTS
    """The faults that may occur."""
    kinds_share: float = 0.5
    """Share of these that each seed uses."""
    slow_share: float = 0.2
    """Share of seeds in which all links are slow."""
    tracks: Sequence[int] = (1, 1, 2)
    """Choices for the number of concurrent faults."""
    pauses_seconds_max: Sequence[float] = (0.5, 2.0, 4.0)
    """Choices for the longest pause between faults, in seconds."""
    elections_min: int = ELECTIONS_MIN
    """The least number of elections: leaders are restarted at the end until there were as many."""


class Faults:
    """The faults of one story: each seed draws some kinds and a rate for each (swarm testing)."""

    def __init__(
        self,
        ground: Ground,
        requests: Callable[[Ground, LinkFaults], Requests] = Requests,
        mix: "Mix | None" = None,
    ) -> None:
        """Draw the faults; links may be slow from the start."""
        mix = mix or Mix()
        self._ground = ground
        self._links = LinkFaults(ground)
        self._machines = MachineFaults(ground, self._links)
        falls = Falls(ground, self._machines, self._links)
        parts = (
            self._machines, self._links, StoreFaults(ground), falls,
            Overtaken(ground, self._machines, self._links), LastDisk(ground, self._machines),
            requests(ground, self._links), FalseResets(ground),
        )  # fmt: skip
        kinds = {name: kind for part in parts for name, kind in part.kinds().items()}
        invariant(tuple(kinds) == FAULTS, f"each fault has its counter: {list(kinds)}")
        all_kinds = [kind for kind in kinds.items() if kind[0] in mix.kinds]
        chance = ground.random
        self._slow_since: float | None = None
        """When all links became slow; None: they did not."""
        if chance.random() < mix.slow_share:
            self._slow_since = ground.cluster.loop.time()
            self._links.slow_all(chance.uniform(*MANY_TIMES_SLOWER) / 2)
        drawn = [kind for kind in all_kinds if chance.random() < mix.kinds_share] or all_kinds
        self.names = [name for name, _ in drawn]
        self._kinds: list[Kind] = [partial(self._timed, *kind) for kind in drawn]
        self._weights = [chance.uniform(0.2, 1) ** 2 for _ in drawn]
        self._elections_min = mix.elections_min
        self._tracks = chance.choice(mix.tracks)
        self._pause_seconds_max = chance.choice(mix.pauses_seconds_max)

    async def happen(self, seconds: float) -> None:
        """Run faults for `seconds`; afterwards all brokers run and all links work."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        await asyncio.gather(*(self._track(until) for _ in range(self._tracks)))
        self._links.slow_all(1.0)
        if self._slow_since is not None:
            self._ground.spans.append(Span(self._slow_since, loop.time(), "all links slow"))
        for number in self._ground.brokers:
            self._ground.cluster.world(number).set_clock(0)
        await self._elect_enough()

    async def _timed(self, name: str, kind: Kind) -> None:
        """Have a fault occur, and note its time."""
        began = self._ground.cluster.loop.time()
        await kind()
        self._ground.spans.append(Span(began, self._ground.cluster.loop.time(), name))

    async def _track(self, until: float) -> None:
        loop, chance = asyncio.get_running_loop(), self._ground.random
        while loop.time() < until:
            await asyncio.sleep(chance.uniform(0, self._pause_seconds_max))
            (kind,) = chance.choices(self._kinds, self._weights)
            await kind()

    async def _elect_enough(self) -> None:
        """Restart leaders until enough elections have happened, or none leads for long."""
        ground, loop = self._ground, asyncio.get_running_loop()
        until = loop.time() + ELECT_SECONDS_MAX
        while ground.watch.elections < self._elections_min and loop.time() < until:
            leaders = ground.leaders()
            if leaders:
                ground.busy.add(leaders[0])
                await self._timed("restarts", partial(self._machines.restarted, leaders[0]))
            await asyncio.sleep(0.5)
