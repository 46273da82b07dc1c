"""Numbers of partitions, unique in the cluster and never given again (ADR 74).

    /headrace-rocketmq/numbered                   the next free number
    /headrace-rocketmq/partitions/<topic id>      of each partition in order: [number, added ms]

A topic's numbers are assigned when RocketMQ first uses it, and more when it grows; the time of
adding is 0 for the first ones, unless groups subscribed to the topic before it was created. Both
nodes are written together, so that a crash or a second broker gives no number twice. The node of a
deleted topic is deleted: the counter alone never goes back.
"""

import asyncio
import contextlib
import json
from typing import TYPE_CHECKING, NamedTuple

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


class PartitionPlace(NamedTuple):
    """A partition by the id of its topic, which may be deleted."""

    topic_id: bytes
    partition: int


class PartitionNumbers:
    """The numbers of the partitions that this broker's clients have used."""

    def __init__(self, store: Store, clock: "Clock") -> None:
        self._store = store
        self._clock = clock
        self._known: dict[bytes, tuple[int, ...]] = {}
        """By topic id; complete as of the topic's size then."""
        self._added: dict[bytes, tuple[int, ...]] = {}
        """By topic id: when each partition was added, in ms since 1970; 0: before the first use."""
        self._created: dict[bytes, int] = {}
        """By topic id without numbers: when it was created, in ms since 1970, if that counts."""
        self._stored: set[bytes] = set()
        """The topics that had numbers at the start."""
        self._places: dict[int, PartitionPlace] = {}
        """By number; those of known topics, and all others once one of them was asked for."""
        self._searched_below = 0
        """The number below which the store was searched for numbers of other topics."""
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
        """Return whether clients have used a topic, now or before the start."""
        return topic.topic_id in self._known or topic.topic_id in self._stored

    def note_created(self, topic: TopicInfo) -> None:
        """Note that a topic without numbers is created now: its queues are added to its groups."""
        self._created[topic.topic_id] = self._clock.wall_ms()

    def forget(self, topic_ids: "set[bytes]") -> "set[bytes]":
        """Keep the numbers of these topics only; return the ids of the others, to be deleted."""
        gone = self._known.keys() - topic_ids
        for topic_id in gone:
            del self._known[topic_id], self._added[topic_id]
        self._stored &= topic_ids
        self._created = {each: at for each, at in self._created.items() if each in topic_ids}
        self._places = {
            number: place for number, place in self._places.items() if place.topic_id in topic_ids
        }
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
            stored = set(map(bytes.fromhex, await self._store.children(TOPICS)))
            self._stored = stored.intersection(topic_ids)
            await self.delete(stored - self._stored)

    async def located(self, number: int) -> "PartitionPlace | None":
        """Return the partition of a number; None if it was never given, or its topic is deleted.

        A topic that was deleted just now may still have it. ApiError: the store is away.
        """
        if number not in self._places and number >= self._searched_below:
            async with self._lock:
                try:
                    await self._search(number)
                except StoreError as error:
                    text = f"the metadata store is not available: {error}"
                    raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, text) from error
        return self._places.get(number)

    async def _search(self, number: int) -> None:
        """Read the numbers of all topics, unless this one was never given."""
        await self._make_parents()
        given = int((await self._store.get(NEXT)).value)
        if number >= given or number < self._searched_below:
            return
        topic_ids = await self._store.children(TOPICS)
        nodes = await self._store.get_all([f"{TOPICS}/{topic_id}" for topic_id in topic_ids])
        for topic_id, node in zip(topic_ids, nodes, strict=True):
            if node is not None:
                self._place(bytes.fromhex(topic_id), json.loads(node.value))
        self._searched_below = given

    def _place(self, topic_id: bytes, pairs: list[list[int]]) -> None:
        for partition, (number, _) in enumerate(pairs):
            self._places[number] = PartitionPlace(topic_id, partition)

    def _keep(self, topic: TopicInfo, pairs: list[list[int]]) -> "Sequence[int]":
        numbers = self._known[topic.topic_id] = tuple(number for number, _ in pairs)
        self._added[topic.topic_id] = tuple(added for _, added in pairs)
        self._created.pop(topic.topic_id, None)
        self._place(topic.topic_id, pairs)
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
            created_ms = self._created.get(topic.topic_id, 0)
            added_ms = self._clock.wall_ms() if pairs else created_ms
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
