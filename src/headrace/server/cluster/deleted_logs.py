"""`DeletedLogs`: this broker's logs of queues that were deleted while it was down.

    a replica's broker is down ──queue.delete──► the controller leaves a node with the topic's id
                                                 for that broker, and deletes the topic
    the broker starts, or its session has expired ──► it deletes its logs with this id, then
                                                 the node ──► it registers

So a queue that is declared again has a topic at once. The nodes are read again while the broker
runs: it may have registered in the moment in which the controller left one.
"""

import logging
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from headrace.cluster.membership.applier import Applier
from headrace.cluster.store.znodes import DELETED_REPLICAS
from headrace.model.nouns import counted
from headrace.ports.store import NoNode, Store, StoreError
from headrace.posix.awaiting import called_back

if TYPE_CHECKING:
    from headrace.broker.broker import Broker
    from headrace.ports.callbacks import Done

_logger = logging.getLogger(__name__)
LOOK_SECONDS = 30.0
"""Seconds from one check of a running broker to the next."""


class DeletedLogs:
    """The nodes that controllers have left for this broker. On the event loop."""

    def __init__(self, broker: "Broker", store: Store, applier: Applier) -> None:
        """Create the check; `applier` deletes logs, in sequence with the controller's orders."""
        self._broker = broker
        self._store = store
        self._applier = applier
        self._path = f"{DELETED_REPLICAS}/{broker.broker_id}"

    async def keep_up(self) -> None:
        """Check at once and every `LOOK_SECONDS` until cancelled; errors are logged."""
        while True:
            try:
                await self.delete()
            except StoreError as error:
                _logger.info("cannot look for logs of deleted queues: %s; retrying", error)
            await called_back(self._soon)

    def _soon(self, done: "Done[BaseException | None]") -> None:
        self._broker.clock.call_later(LOOK_SECONDS, partial(done, None))

    async def delete(self) -> None:
        """Delete the logs of queues that were deleted while this broker was down.

        A log in a failed directory, or a damaged one, keeps its node: the next check tries again.
        Raises StoreError.
        """
        try:
            names = await self._store.children(self._path)
        except NoNode:
            return
        nodes = await self._store.get_all([f"{self._path}/{name}" for name in names])
        topics = {
            name: node.value.decode()
            for name, node in zip(names, nodes, strict=True)
            if node is not None
        }
        if not topics:
            return
        failed = await self._applier.delete_topics({bytes.fromhex(name) for name in topics})
        damaged = {key for each in self._broker.directories for key in each.quarantined}
        kept = {key.topic for key in failed.keys() | damaged}
        if any(each.fenced for each in self._broker.directories):
            kept.update(topics.values())
        done = [name for name, topic in topics.items() if topic not in kept]
        for name in done:
            with suppress(NoNode):  # the other check, of a new session or of the time, was faster
                await self._store.delete(f"{self._path}/{name}")
        if done:
            _logger.info(
                "logs of %s were deleted: their queues were deleted while this broker was down",
                counted(len(done), "topic"),
            )
