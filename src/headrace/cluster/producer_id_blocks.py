"""Blocks of producer ids, reserved in the metadata store for this broker."""

import asyncio

from headrace.broker.broker import Broker
from headrace.broker.producer_ids import PRODUCER_ID_BLOCK_SIZE
from headrace.cluster.catalog import Catalog
from headrace.cluster.settings.entity_settings import store_failed
from headrace.ports.store import StoreError


class ProducerIdBlocks:
    """Keeps the broker's producer ids coming."""

    def __init__(self, broker: Broker, catalog: Catalog) -> None:
        """Nothing is reserved before the first id is asked for."""
        self._broker = broker
        self._catalog = catalog
        self._refill = asyncio.Lock()

    async def next(self) -> int:
        """Return a producer id that was never given before, in the whole cluster; ApiError."""
        ids = self._broker.producer_ids
        while (taken := ids.take()) is None:
            async with self._refill:
                if ids.empty:
                    try:
                        block = await self._catalog.reserve_producer_ids(
                            self._broker.broker_id, PRODUCER_ID_BLOCK_SIZE
                        )
                    except StoreError as error:
                        raise store_failed(error) from error
                    ids.refill(block.first, block.last)
        return taken
