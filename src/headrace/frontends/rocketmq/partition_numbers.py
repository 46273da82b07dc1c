"""Numbers of partitions, unique in the cluster and never given again (ADR 74).

    /headrace-rocketmq/numbered                   the next free number
    /headrace-rocketmq/partitions/<topic id>      of each partition in order: [number, added ms]

A topic's numbers are assigned when RocketMQ first uses it, and more when it grows; the time of
adding is 0 for the first ones. Both nodes are written together, so that a crash or a second broker
gives no number twice. The node of a deleted topic is deleted: the counter alone never goes back.
"""

import asyncio
import contextlib
import json
from typing import TYPE_CHECKING

from headrace.broker.metadata_image import TopicInfo
from headrace.model.errors import ApiError, ErrorCode
from headrace.ports.store import (
    BadVersion,
    Create,
    NodeExists,
    NoNode,
    Operation,
    Set,
    Store,
    StoreError,
)
from headrace.wire.rocketmq.message_ids import PARTITION_NUMBER_MAX

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from headrace.ports.clock import Clock

ROOT = "/headrace-rocketmq"
NEXT = f"{ROOT}/numbered"
TOPICS = f"{ROOT}/partitions"
_ATTEMPTS_MAX = 20
"""Attempts while other brokers assign numbers, too."""


class PartitionNumbers:
    """The numbers of the partitions that this broker's clients have used."""

    def __init__(self, store: Store, clock: "Clock") -> None:
        self._store = store
        self._clock = clock
        self._known: dict[bytes, tuple[int, ...]] = {}
        """By topic id; complete as of the topic's size then."""
        self._added: dict[bytes, tuple[int, ...]] = {}
        """By topic id: when each partition was added, in ms since 1970; 0: before the first use."""
        self._lock = asyncio.Lock()

    def known(self, topic: TopicInfo) -> "Sequence[int] | None":
        """Return the numbers of a topic's partitions; None: `assigned` must be awaited."""
        numbers = self._known.get(topic.topic_id)
        return None if numbers is None or len(numbers) < len(topic.partitions) else numbers

    async def assigned(self, topic: TopicInfo) -> "Sequence[int]":
        """Return the numbers of a topic's partitions, assigned if they were not.

        ApiError: the store is away, or all numbers are given.
        """
        async with self._lock:
            numbers = self.known(topic)
            if numbers is None:
                try:
                    numbers = await self._assign(topic)
                except StoreError as error:
                    text = f"the metadata store is not available: {error}"
                    raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, text) from error
            return numbers

    def added_ms(self, topic: TopicInfo, partition: int) -> int:
        """Return when a partition was added to a topic in use; 0: before that, or not known."""
        added = self._added.get(topic.topic_id, ())
        return added[partition] if partition < len(added) else 0

    def is_used(self, topic: TopicInfo) -> bool:
        """Return whether clients have used a topic since the start."""
        return topic.topic_id in self._known

    def forget(self, topic_ids: "set[bytes]") -> "set[bytes]":
        """Keep the numbers of these topics only; return the ids of the others, to be deleted."""
        gone = self._known.keys() - topic_ids
        for topic_id in gone:
            del self._known[topic_id], self._added[topic_id]
        return gone

    async def delete(self, topic_ids: "Iterable[bytes]") -> None:
        """Delete the numbers of deleted topics from the store.

        The counter stays, so no number is given again; nor is the id of a topic. What the store
        does not delete now, `prune` deletes at the next start.
        """
        async with self._lock:
            with contextlib.suppress(StoreError):
                for topic_id in topic_ids:
                    with contextlib.suppress(NoNode):
                        await self._store.delete(f"{TOPICS}/{topic_id.hex()}")

    async def prune(self, topic_ids: "Iterable[bytes]") -> None:
        """Delete the numbers of all topics but these, once at a start.

        Only for a broker that has its store alone: another one may know newer topics.
        """
        with contextlib.suppress(StoreError):
            stored = set(await self._store.children(TOPICS))
            gone = stored - {topic_id.hex() for topic_id in topic_ids}
            await self.delete([bytes.fromhex(name) for name in gone])

    def _keep(self, topic: TopicInfo, pairs: list[list[int]]) -> "Sequence[int]":
        numbers = self._known[topic.topic_id] = tuple(number for number, _ in pairs)
        self._added[topic.topic_id] = tuple(added for _, added in pairs)
        return numbers

    async def _assign(self, topic: TopicInfo) -> "Sequence[int]":
        await self._make_parents()
        path = f"{TOPICS}/{topic.topic_id.hex()}"
        for _ in range(_ATTEMPTS_MAX):
            counter = await self._store.get(NEXT)
            free = int(counter.value)
            (node,) = await self._store.get_all([path])
            pairs: list[list[int]] = [] if node is None else json.loads(node.value)
            missing = len(topic.partitions) - len(pairs)
            if missing <= 0:
                return self._keep(topic, pairs)
            if free + missing - 1 > PARTITION_NUMBER_MAX:
                raise ApiError(
                    ErrorCode.POLICY_VIOLATION,
                    f"all {PARTITION_NUMBER_MAX + 1} partition numbers of the cluster are given",
                )
            added_ms = self._clock.wall_ms() if pairs else 0
            pairs += [[number, added_ms] for number in range(free, free + missing)]
            value = json.dumps(pairs).encode()
            write: Operation = (
                Create(path, value) if node is None else Set(path, value, node.version)
            )
            try:
                await self._store.multi(
                    [Set(NEXT, str(free + missing).encode(), counter.version), write]
                )
            except (BadVersion, NodeExists, NoNode):
                continue
            return self._keep(topic, pairs)
        raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "other brokers assign numbers, too")

    async def _make_parents(self) -> None:
        for path, value in ((TOPICS, b""), (NEXT, b"0")):
            with contextlib.suppress(NodeExists):
                await self._store.create(path, value, parents=True)
