"""Stories of the catalogues of two brokers over one simulated store."""

from collections.abc import Callable, Coroutine
from typing import Any

from headrace.cluster.store.catalog import Catalog
from headrace.testing.sim.ensemble import Ensemble
from headrace.testing.sim.loop import SimLoop


def play(story: Callable[[Catalog, Catalog], Coroutine[Any, Any, None]]) -> None:
    """Run `story` with the catalogues of two brokers over one store that is prepared."""
    loop = SimLoop(1)
    ensemble = Ensemble(1)

    async def whole() -> None:
        first, second = Catalog(ensemble.session()), Catalog(ensemble.session())
        await first.prepare()
        await story(first, second)

    loop.play(whole())
