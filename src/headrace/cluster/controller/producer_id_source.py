"""`ProducerIdSource`: producer ids for transaction coordinators, by callback."""

import asyncio
from typing import TYPE_CHECKING

from headrace.model.errors import ApiError
from headrace.ports.callbacks import Done

if TYPE_CHECKING:
    from headrace.broker.producer_ids import ProducerIds
    from headrace.cluster.controller_port import ControllerPort


class ProducerIdSource:
    """Returns producer ids to callers that cannot await."""

    def __init__(self, ids: "ProducerIds", controller: "ControllerPort") -> None:
        """Create a source of producer ids.

        `ids`: the present block; `controller` reserves the next.
        """
        self._ids = ids
        self._controller = controller
        self._tasks: set[asyncio.Task[None]] = set()

    def new_producer_id(self, give: Done[int | ApiError]) -> None:
        """Call `give` with a producer id, at once or after a new block is reserved.

        Or with its error.
        """
        taken = self._ids.take()
        if taken is not None:
            give(taken)
            return
        task = asyncio.get_running_loop().create_task(self._reserve(give))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def close(self) -> None:
        """Cancel pending reservations; their callbacks are not called."""
        for task in self._tasks:
            task.cancel()

    async def _reserve(self, give: Done[int | ApiError]) -> None:
        try:
            given: int | ApiError = await self._controller.next_producer_id()
        except ApiError as error:
            given = error
        give(given)
