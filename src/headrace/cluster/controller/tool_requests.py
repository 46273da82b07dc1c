"""`ToolRequests`: requests to the controller that tools write into the store, as for Kafka.

    /brokers/topics                     topics to create, and partitions to add
    /admin/delete_topics                topics to delete
    /admin/preferred_replica_election   elections
    /admin/reassign_partitions          reassignments

The controller carries out those left by its predecessor too. A request is removed once it is
carried out, a reassignment once it has ended.
"""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType

from headrace.broker.broker import Broker
from headrace.broker.metadata_image import ImageDelta
from headrace.cluster.controller.replica_requests import ReplicaRequests
from headrace.cluster.controller.term import Result
from headrace.cluster.decisions.events import ElectionType, Event, TopicsDeleted, TopicsFound
from headrace.cluster.decisions.facts import ClusterFacts
from headrace.cluster.store import znodes
from headrace.cluster.store.catalog import Catalog
from headrace.cluster.store.reaction import Reaction
from headrace.cluster.store.stored_topic import StoredTopic
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import BrokerId, TopicPartition
from headrace.ports.store import BadVersion, NoNode

_logger = logging.getLogger(__name__)

WATCHED = (znodes.TOPICS, znodes.DELETE_TOPICS, znodes.ELECTIONS, znodes.REASSIGNMENTS)


class ToolRequests:
    """Watches the store for tools' requests, and carries them out as the controller."""

    def __init__(
        self,
        broker: Broker,
        catalog: Catalog,
        replicas: ReplicaRequests,
        carry_out: Callable[[Event], Awaitable[Result]],
        facts: Callable[[], ClusterFacts],
        change: asyncio.Lock,
    ) -> None:
        """Create the watch, without starting it.

        `facts` returns the present term's facts. `change`: lock held by each writer.
        """
        self._broker = broker
        self._catalog = catalog
        self._replicas = replicas
        self._carry_out = carry_out
        self._facts = facts
        self._change = change
        self._reaction = Reaction(
            self._take, "requests of tools in the metadata store are not carried out yet"
        )
        self._unwatch: list[Callable[[], None]] = []
        self._topics: dict[str, Callable[[], None]] = {}
        """Cancels the watch of each topic's node, while this broker is the controller."""
        self._altered: dict[str, None] = {}
        """Topics whose nodes were written."""
        self._moving = False
        """Whether reassignments that a tool requested are running."""
        self.look = self._reaction.ask
        """Carry out requests in the store; called when this broker becomes the controller."""

    def start(self) -> None:
        """Begin to watch the store."""
        store = self._catalog.store
        self._unwatch = [store.watch(path, lambda _: self.look()) for path in WATCHED]
        self._broker.image.observers.append(self._picture_changed)

    def stop(self) -> None:
        """Cancel all watches."""
        for cancel in (*self._unwatch, *self._topics.values()):
            cancel()
        self._reaction.cancel()

    def _picture_changed(self, delta: ImageDelta, structural: bool) -> None:
        if self._moving and delta.partitions:
            self.look()

    async def _take(self) -> None:
        try:
            self._facts()
            async with self._change:
                pass  # wait until this broker's own writes are in the facts
            await self._take_topics()
            await self._take_deletions()
            await self._take_elections()
            await self._take_reassignments()
        except ApiError as error:
            if error.code is not ErrorCode.NOT_CONTROLLER:  # the controller reads it as well
                raise
            self._watch_topics(())

    async def _take_topics(self) -> None:
        """Adopt new topics: give them leaders, and ids if they have none."""
        names = await self._catalog.store.children(znodes.TOPICS)
        facts = self._facts()
        known = facts.topics
        self._watch_topics(names)
        altered, self._altered = self._altered, {}
        new = [name for name in names if name not in known and name not in facts.passed_over]
        new += await self._grown([name for name in altered if name in known])
        found = list((await self._catalog.topics(new, passed_over=facts.passed_over)).values())
        if found:
            await self._catalog.complete_partitions(found)
            ids = {topic.name: self._id_for(known.get(topic.name)) for topic in found}
            await self._carry_out(TopicsFound(found, ids))

    async def _grown(self, names: Sequence[str]) -> list[str]:
        """Return the topics to which a tool added partitions in the store; log malformed nodes."""
        paths = [znodes.topic_path(name) for name in names]
        grown = []
        for name, path, node in zip(
            names, paths, await self._catalog.store.get_all(paths), strict=True
        ):
            known = self._facts().topics.get(name)
            if node is None or known is None or node.version <= known.version:
                continue
            try:
                read = znodes.decode_topic(path, node.value)
            except znodes.BadPayload as error:
                _logger.error(
                    "topic %s: changes of its node are ignored, as the node is malformed: %s."
                    " Correct the node", name, error,
                )  # fmt: skip
                continue
            if len(read.partitions) > len(known.node.partitions):
                grown.append(name)
        return grown

    def _id_for(self, known: StoredTopic | None) -> bytes:
        return self._broker.random.uuid() if known is None else known.topic_id

    def _watch_topics(self, names: Sequence[str]) -> None:
        """Watch exactly the nodes of these topics."""
        for name in self._topics.keys() - set(names):
            self._topics.pop(name)()
        for name in names:
            if name not in self._topics:
                watch = self._catalog.store.watch
                self._topics[name] = watch(znodes.topic_path(name), self._topic_changed)
                self._altered[name] = None  # it may have been written before the watch

    def _topic_changed(self, path: str) -> None:
        self._altered[path.removeprefix(f"{znodes.TOPICS}/")] = None
        self.look()

    async def _take_deletions(self) -> None:
        names = await self._catalog.deletions()
        facts = self._facts()
        unknown = [name for name in names if name not in facts.topics]
        wanted = [name for name in names if name in facts.topics and name not in facts.deleting]
        if not self._broker.config.delete_topic_enable:
            unknown, wanted = unknown + wanted, []
        for name in unknown:
            _logger.warning(
                "topic %s is not deleted as requested in %s: it does not exist, or"
                " delete.topic.enable=false. The request is removed", name, znodes.DELETE_TOPICS,
            )  # fmt: skip
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
        """Begin requested reassignments; remove those that have ended from the request."""
        left: dict[TopicPartition, tuple[BrokerId, ...]] = {}

        async def reassign(value: bytes) -> Mapping[TopicPartition, ApiError | None]:
            asked = znodes.decode_partitions(znodes.REASSIGNMENTS, value)
            outcome = await self._replicas.reassign(asked)
            running = {moving.topic_partition for moving in self._replicas.reassigning()}
            left.update(
                (partition, target)
                for partition, target in asked.items()
                if outcome[partition] is None and partition in running
            )
            return outcome

        await self._take_request(znodes.REASSIGNMENTS, reassign, left)
        self._moving = bool(left)

    async def _take_request(
        self,
        path: str,
        take: Callable[[bytes], Awaitable[Mapping[TopicPartition, ApiError | None]]],
        left: Mapping[TopicPartition, tuple[BrokerId, ...]] = MappingProxyType({}),
    ) -> None:
        """Carry out the request in the node at `path`.

        Then delete it, or write `left` if that is not empty.

        A node that was written again in the meantime stays.
        """
        store = self._catalog.store
        (node,) = await store.get_all([path])
        if node is None:
            return
        try:
            _log_refused(path, await take(node.value))
        except znodes.BadPayload as error:
            _logger.error("a tool's request is malformed, ignored and removed: %s", error)
        with suppress(NoNode, BadVersion):
            if not left:
                await store.delete(path, node.version)
            elif left != znodes.decode_partitions(path, node.value):
                await store.set(path, _encoded(left), node.version)


def _encoded(moves: Mapping[TopicPartition, tuple[BrokerId, ...]]) -> bytes:
    """Encode reassignments in the JSON that Kafka's tools write to `/admin/reassign_partitions`."""
    partitions = [
        {"topic": topic, "partition": index, "replicas": list(replicas)}
        for (topic, index), replicas in moves.items()
    ]
    return json.dumps({"version": 1, "partitions": partitions}).encode()


def _log_refused(path: str, outcome: Mapping[TopicPartition, ApiError | None]) -> None:
    refused: Sequence[str] = [
        f"{partition}: {error}" for partition, error in outcome.items() if error is not None
    ]
    if refused:
        _logger.warning("%s: requests of a tool are refused: %s", path, "; ".join(refused))
