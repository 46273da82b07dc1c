"""Blocks of producer ids, reserved for this broker in the whole cluster."""

import asyncio
from collections.abc import Awaitable, Callable

from headrace.broker.producer_ids import ProducerIds
from headrace.cluster.store.znodes import ProducerIdBlock


class ProducerIdBlocks:
    """Keeps the broker's producer ids coming."""

    def __init__(self, ids: ProducerIds, reserve: Callable[[], Awaitable[ProducerIdBlock]]) -> None:
        """Nothing is reserved before the first id is asked for; `reserve` may raise ApiError."""
        self._ids = ids
        self._reserve = reserve
        self._refill = asyncio.Lock()

    async def next(self) -> int:
        """Return a producer id that was never given before, in the whole cluster; ApiError."""
        ids = self._ids
        while (taken := ids.take()) is None:
            async with self._refill:
                if ids.empty:
                    block = await self._reserve()
                    ids.refill(block.first, block.last)
        return taken
