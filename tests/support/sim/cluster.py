"""Brokers on a seeded loop, played with by a test: started, told a story, stopped."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from headrace.testing.sim.cluster import SimCluster
from headrace.testing.sim.loop import SimLoop

Story = Callable[[SimCluster], Coroutine[Any, Any, None]]


def play(
    story: Story, *brokers: int, seed: int = 1, settings: Mapping[str, str] | None = None
) -> None:
    """Run `story` with `brokers`, started one after the other; who runs at its end is stopped.

    The first of them is the controller. `settings` are every broker's.
    """
    loop = SimLoop(seed)
    cluster = SimCluster(loop, seed, settings)

    async def whole() -> None:
        for number in brokers:
            await cluster.start(number)
        await story(cluster)
        for number in sorted(cluster.brokers):
            await cluster.stop(number)

    loop.play(whole())


async def until(holds: Callable[[], object], seconds: float = 60.0) -> None:
    """Wait until `holds` is true; AssertionError where it is not within `seconds` of the loop."""
    for _ in range(int(seconds / 0.01)):
        if holds():
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"not within {seconds:g} s")


def dotted(settings: Mapping[str, str]) -> dict[str, str]:
    """Return settings that were given as keyword arguments by their names."""
    return {name.replace("_", "."): value for name, value in settings.items()}
