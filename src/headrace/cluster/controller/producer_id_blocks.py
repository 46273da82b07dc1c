"""`ProducerIdBlocks`: blocks of producer ids, reserved for this broker in the whole cluster."""

import asyncio
from collections.abc import Awaitable, Callable

from headrace.broker.producer_ids import ProducerIds
from headrace.cluster.store.znodes import ProducerIdBlock


class ProducerIdBlocks:
    """Returns producer ids from the present block and reserves the next one when it is empty."""

    def __init__(self, ids: ProducerIds, reserve: Callable[[], Awaitable[ProducerIdBlock]]) -> None:
        """Create a source of producer ids; the first block is reserved with the first id.

        `reserve` may raise ApiError.
        """
        self._ids = ids
        self._reserve = reserve
        self._refill = asyncio.Lock()

    async def next(self) -> int:
        """Return a producer id that is unique in the cluster. Raises ApiError."""
        ids = self._ids
        while (taken := ids.take()) is None:
            async with self._refill:
                if ids.empty:
                    block = await self._reserve()
                    ids.refill(block.first, block.last)
        return taken
