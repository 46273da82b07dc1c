"""Where the coordinators of transactions get producer ids: the metadata store, by blocks."""

import asyncio
from typing import TYPE_CHECKING

from headrace.model.errors import ApiError
from headrace.ports.callbacks import Done

if TYPE_CHECKING:
    from headrace.cluster.controller import Controller


class ProducerIdSource:
    """Gives producer ids to those who cannot await them."""

    def __init__(self, controller: "Controller") -> None:
        """`controller` reserves the blocks."""
        self._controller = controller
        self._tasks: set[asyncio.Task[None]] = set()

    def new_producer_id(self, give: Done[int | ApiError]) -> None:
        """Give one at once out of the block at hand; a new block is asked of the store."""
        taken = self._controller.broker.producer_ids.take()
        if taken is not None:
            give(taken)
            return
        task = asyncio.get_running_loop().create_task(self._reserve(give))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def close(self) -> None:
        """Give nobody an id any more."""
        for task in self._tasks:
            task.cancel()

    async def _reserve(self, give: Done[int | ApiError]) -> None:
        try:
            given: int | ApiError = await self._controller.next_producer_id()
        except ApiError as error:
            given = error
        give(given)
