"""What tools write into the store for the controller to do: those that do not ask a broker.

As Kafka's controller with ZooKeeper: topics made in `/brokers/topics`, and what is asked for in
`/admin/delete_topics`, `/admin/preferred_replica_election` and `/admin/reassign_partitions`. Taken
by whoever is the controller, what its predecessor left included; what was asked for is removed once
it has been taken.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress

from headrace.broker.broker import Broker
from headrace.cluster import znodes
from headrace.cluster.catalog import Catalog
from headrace.cluster.cluster_facts import ClusterFacts
from headrace.cluster.controller_term import Result
from headrace.cluster.events import ElectionType, Event, TopicsDeleted, TopicsFound
from headrace.cluster.reaction import Reaction
from headrace.cluster.replica_requests import ReplicaRequests
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import TopicPartition
from headrace.ports.store import BadVersion, NoNode

_logger = logging.getLogger(__name__)

WATCHED = (znodes.TOPICS, znodes.DELETE_TOPICS, znodes.ELECTIONS, znodes.REASSIGNMENTS)


class ToolRequests:
    """The controller's eye on what tools write."""

    def __init__(
        self,
        broker: Broker,
        catalog: Catalog,
        replicas: ReplicaRequests,
        carry_out: Callable[[Event], Awaitable[Result]],
        facts: Callable[[], ClusterFacts],
        change: asyncio.Lock,
    ) -> None:
        """`facts` are the present term's; ApiError NOT_CONTROLLER. `change`: held by who writes."""
        self._broker = broker
        self._catalog = catalog
        self._replicas = replicas
        self._carry_out = carry_out
        self._facts = facts
        self._change = change
        self._reaction = Reaction(self._take, "what tools wrote into the store waits")
        self._unwatch: list[Callable[[], None]] = []
        self.look = self._reaction.ask
        """Take what was written already: who becomes the controller does that."""

    def start(self) -> None:
        """Watch from now on."""
        store = self._catalog.store
        self._unwatch = [store.watch(path, lambda _: self.look()) for path in WATCHED]

    def stop(self) -> None:
        """Watch no more."""
        for cancel in self._unwatch:
            cancel()
        self._reaction.cancel()

    async def _take(self) -> None:
        try:
            self._facts()
            async with self._change:
                pass  # what this broker is just writing itself, it knows then
            await self._take_topics()
            await self._take_deletions()
            await self._take_elections()
            await self._take_reassignments()
        except ApiError as error:
            if error.code is not ErrorCode.NOT_CONTROLLER:  # the controller sees it too
                raise

    async def _take_topics(self) -> None:
        """Give leaders, and ids where they have none, to topics that are new in the store."""
        names = await self._catalog.store.children(znodes.TOPICS)
        facts = self._facts()
        known = facts.topics
        new = [name for name in names if name not in known and name not in facts.passed_over]
        found = list((await self._catalog.topics(new, passed_over=facts.passed_over)).values())
        if found:
            await self._catalog.complete_partitions(found)
            ids = {topic.name: self._broker.random.uuid() for topic in found}
            await self._carry_out(TopicsFound(found, ids))

    async def _take_deletions(self) -> None:
        names = await self._catalog.deletions()
        facts = self._facts()
        unknown = [name for name in names if name not in facts.topics]
        wanted = [name for name in names if name in facts.topics and name not in facts.deleting]
        if not self._broker.config.delete_topic_enable:
            unknown, wanted = unknown + wanted, []
        for name in unknown:
            _logger.warning("topic %s is not there, or may not be deleted: it is not", name)
            with suppress(NoNode):
                await self._catalog.store.delete(f"{znodes.DELETE_TOPICS}/{name}")
        if wanted:
            await self._carry_out(TopicsDeleted(wanted, marked=True))

    async def _take_elections(self) -> None:
        async def elect(value: bytes) -> Mapping[TopicPartition, ApiError | None]:
            partitions = list(znodes.decode_partitions(znodes.ELECTIONS, value))
            return await self._replicas.elect(ElectionType.PREFERRED, partitions)

        await self._take_request(znodes.ELECTIONS, elect)

    async def _take_reassignments(self) -> None:
        async def reassign(value: bytes) -> Mapping[TopicPartition, ApiError | None]:
            asked = znodes.decode_partitions(znodes.REASSIGNMENTS, value)
            return await self._replicas.reassign(asked)

        await self._take_request(znodes.REASSIGNMENTS, reassign)

    async def _take_request(
        self,
        path: str,
        take: Callable[[bytes], Awaitable[Mapping[TopicPartition, ApiError | None]]],
    ) -> None:
        """Do what the node at `path` asks for, and remove it; written again meanwhile: it stays."""
        store = self._catalog.store
        (node,) = await store.get_all([path])
        if node is None:
            return
        try:
            _log_refused(path, await take(node.value))
        except znodes.BadPayload as error:
            _logger.error("what a tool asks for cannot be understood: %s", error)
        with suppress(NoNode, BadVersion):
            await store.delete(path, node.version)


def _log_refused(path: str, outcome: Mapping[TopicPartition, ApiError | None]) -> None:
    refused: Sequence[str] = [
        f"{partition}: {error}" for partition, error in outcome.items() if error is not None
    ]
    if refused:
        _logger.warning("%s: not done: %s", path, "; ".join(refused))
