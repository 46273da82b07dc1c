"""`GroupMirror`: consumer groups in the layout of Kafka before 0.9, for tools that read ZooKeeper.

    /consumers/GROUP/ids/MEMBER               ephemeral: the member's subscription
    /consumers/GROUP/owners/TOPIC/PARTITION   ephemeral: the member that has the partition
    /consumers/GROUP/offsets/TOPIC/PARTITION  the committed offset, in digits

A group's coordinator periodically writes what has changed; a commit does not wait for it, and
nothing is read back. Groups and topics whose names a znode cannot have are left out; in member ids
such characters become `_`. The layout is that of ZkUtils of Kafka 0.8.
"""

import asyncio
import json
import logging
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import NamedTuple

from headrace.broker.broker import Broker
from headrace.coordination.groups.classic.states import GroupState
from headrace.coordination.groups.classic.subscription import CONSUMER_PROTOCOL, subscribed_topics
from headrace.coordination.groups.consumer.group import ConsumerGroup
from headrace.coordination.groups.context import ShardContext
from headrace.coordination.groups.group_coordinators import GroupCoordinators
from headrace.model.errors import Malformed
from headrace.ports.store import NodeExists, NoNode, NotEmpty, Store, StoreError
from headrace.shards.shard import ShardState
from headrace.wire.kafka.consumer_protocol import read_assignment

_logger = logging.getLogger(__name__)
ROOT = "/consumers"
NODES_MAX = 100_000
"""Znodes that one broker writes at most; groups beyond that are left out."""
GROUPS_PER_TURN = 100
_OPEN_END = '"pattern":"static"}'
"""End of a member's znode value before its timestamp is appended."""
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")
_ILLEGAL = re.compile(r"[^a-zA-Z0-9._-]")


class Shown(NamedTuple):
    """The content of a znode to write."""

    value: str
    ephemeral: bool
    shard: int
    """Index of the partition of `__consumer_offsets` that has the group."""


class GroupMirror:
    """Writes `/consumers` for the groups coordinated by this broker. On the event loop."""

    def __init__(
        self, broker: Broker, store: Store, groups: Callable[[], GroupCoordinators | None]
    ) -> None:
        """Create the mirror. `groups` returns None while no group coordinator exists."""
        self._broker = broker
        self._store = store
        self._groups = groups
        self._written: dict[str, Shown] = {}
        """Content written in this session, by path."""
        self._session = 0
        self._is_full = False
        self._is_failing = False

    async def keep_up(self) -> None:
        """Write changes periodically, until cancelled.

        Errors of the store are logged and retried.
        """
        config = self._broker.config
        while True:
            await asyncio.sleep(config.zookeeper_consumers_mirror_interval_ms / 1000)
            try:
                await self.bring_up_to_date()
                self._is_failing = False
            except StoreError as error:
                if not self._is_failing:
                    _logger.warning("%s: update failed, retrying: %s", ROOT, error)
                self._is_failing = True

    async def bring_up_to_date(self) -> None:
        """Write what changed since the last call. Raises StoreError."""
        if self._store.session != self._session:
            self._session = self._store.session
            self._written.clear()
        wanted, led = await self._wanted()
        for path, shown in wanted.items():
            if self._written.get(path) != shown:
                await self._put(path, shown)
                self._written[path] = shown
                await self._pause()
        for path, shown in [*self._written.items()]:
            if path not in wanted:
                # Another broker may coordinate the group now: its offsets must not be removed.
                if shown.ephemeral or shown.shard in led:
                    await self._remove(path, shown)
                    await self._pause()
                del self._written[path]

    async def _pause(self) -> None:
        most = self._broker.config.zookeeper_consumers_mirror_writes_per_second_max
        await asyncio.sleep(1 / most)

    # --- what is to be there -------------------------------------------------------------------

    async def _wanted(self) -> tuple[dict[str, Shown], set[int]]:
        """Return the content to write, by path, and the partitions whose groups it has."""
        groups = self._groups()
        wanted: dict[str, Shown] = {}
        led: set[int] = set()
        for shard in () if groups is None else groups.led:
            if shard.state is not ShardState.ACTIVE:
                # Not loaded yet: the group's znodes stay as they are.
                kept = self._written.items()
                wanted.update((at, shown) for at, shown in kept if shown.shard == shard.index)
                continue
            led.add(shard.index)
            for done, (group_id, found) in enumerate(self._of_shard(shard.context), 1):
                for path, value, ephemeral in found:
                    at = f"{ROOT}/{group_id}/{path}"
                    wanted[at] = Shown(value, ephemeral, shard.index)
                if len(wanted) >= NODES_MAX:
                    self._say_full()
                    return wanted, led
                if done % GROUPS_PER_TURN == 0:
                    await asyncio.sleep(0)
        return wanted, led

    def _say_full(self) -> None:
        if not self._is_full:
            self._is_full = True
            _logger.warning(
                "%s: more than %d znodes would show the groups coordinated here: some are left out",
                ROOT, NODES_MAX,
            )  # fmt: skip

    def _of_shard(
        self, shard: ShardContext
    ) -> Iterator[tuple[str, Iterator[tuple[str, str, bool]]]]:
        """Yield for each group its id, and its znodes: (path, value, whether it is ephemeral)."""
        names = {**shard.offsets.by_group, **shard.groups}
        names.update({group.group_id: None for group in shard.modern.all_of(ConsumerGroup)})
        for group_id in list(names):
            if _is_legal(group_id):
                yield group_id, self._of_group(shard, group_id)

    def _of_group(self, shard: ShardContext, group_id: str) -> Iterator[tuple[str, str, bool]]:
        group = shard.groups.get(group_id)
        modern = shard.modern.find(ConsumerGroup, group_id)
        if modern is not None:
            yield from self._of_modern(modern)
        elif group is not None and group.protocol_type == CONSUMER_PROTOCOL:
            stable = group.state is GroupState.STABLE
            for member in [*group.members.values()]:
                if stable:
                    topics = subscribed_topics(member.metadata(group.protocol_name))
                    owned: dict[str, tuple[int, ...]] = {}
                    with suppress(Malformed):
                        owned = dict(read_assignment(member.assignment))
                    yield from _of_member(member.member_id, topics or frozenset(), owned)
        for topic, partitions in [*shard.offsets.by_group.get(group_id, {}).items()]:
            for index, committed in [*partitions.items()]:
                yield f"offsets/{topic}/{index}", str(committed.offset), False

    def _of_modern(self, group: ConsumerGroup) -> Iterator[tuple[str, str, bool]]:
        by_id = self._broker.image.topics_by_id
        for member_id, member in [*group.members.items()]:
            owned = {
                topic.name: tuple(partitions)
                for topic_id, partitions in member.standing.assigned.items()
                if (topic := by_id.get(topic_id)) is not None
            }
            yield from _of_member(member_id, frozenset(owned) | member.subscription.topics, owned)

    # --- writing -------------------------------------------------------------------------------

    async def _put(self, path: str, shown: Shown) -> None:
        """Write a znode; an ephemeral one is owned by this session. Raises StoreError."""
        store, text = self._store, shown.value
        if text.endswith(_OPEN_END):
            text = f'{text[:-1]},"timestamp":"{self._broker.clock.wall_ms()}"}}'
        value = text.encode()
        if not shown.ephemeral:
            with suppress(NoNode):
                await store.set(path, value)
                return
        try:
            await store.create(path, value, ephemeral=shown.ephemeral, parents=True)
        except NodeExists:
            node = await store.get(path)
            if shown.ephemeral and node.owner != store.session:
                # Of the broker that coordinated the group before.
                await store.delete(path, node.version)
                await store.create(path, value, ephemeral=True, parents=True)
            else:
                await store.set(path, value)

    async def _remove(self, path: str, shown: Shown) -> None:
        """Delete a znode of this broker, and its parents that are empty then. Raises StoreError."""
        with suppress(NoNode):
            node = await self._store.get(path)
            if shown.ephemeral and node.owner != self._store.session:
                return
            await self._store.delete(path, node.version)
        above = path.rpartition("/")[0]
        with suppress(NoNode, NotEmpty):
            while above != ROOT:
                await self._store.delete(above)
                above = above.rpartition("/")[0]


def _of_member(
    member_id: str, topics: frozenset[str], owned: dict[str, tuple[int, ...]]
) -> Iterator[tuple[str, str, bool]]:
    name = _ILLEGAL.sub("_", member_id)
    if not _is_legal(name):
        return
    threads = json.dumps(dict.fromkeys(sorted(topics), 1), separators=(",", ":"))
    yield f"ids/{name}", f'{{"version":1,"subscription":{threads},{_OPEN_END}', True
    for topic, partitions in owned.items():
        for index in partitions:
            yield f"owners/{topic}/{index}", f"{name}-0", True


def _is_legal(name: str) -> bool:
    return bool(_LEGAL.fullmatch(name)) and name not in (".", "..")
