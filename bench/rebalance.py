"""How long a group takes to settle: members as clients behave by default, without their libraries.

A hundred real clients would measure themselves on two cores. These send what a client sends, at
the intervals a client keeps (3 s in the classic protocol, what the broker says in the newer one),
and obey at once.
"""

import asyncio
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from headrace.client.calls.call import Maker
from headrace.wire.kafka import kio_codec
from headrace.wire.kafka.api import FLEXIBLE_FROM, ApiKey

SECONDS_MAX = 120.0
_CLASSIC_BEAT_SECONDS = 3.0
_MEMBER_ID_REQUIRED, _REBALANCE_IN_PROGRESS, _NOT_YET = 79, 27, (14, 15, 16)
_SESSION, _REBALANCE = timedelta(seconds=45), timedelta(seconds=60)
_UNCHANGED = timedelta(milliseconds=-1)


@dataclass(frozen=True)
class Settled:
    """Seconds until all were assigned."""

    all_in: float
    """From the first member's first request, all coming at once."""
    one_more: float
    """From the first request of one more member in a settled group."""


class Wire:
    """One connection, one request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def open(cls, bootstrap: str) -> "Wire":
        host, _, port = bootstrap.rpartition(":")
        return cls(*await asyncio.open_connection(host, int(port)))

    async def call(self, key: ApiKey, version: int, build: Callable[[Maker], Any]) -> Any:  # noqa: ANN401
        frame = await self.exchange(
            kio_codec.encode_request(build(Maker(key, version)), 1, "bench")
        )
        head = 5 if version >= FLEXIBLE_FROM[key] else 4
        return kio_codec.decode_response(key, version, frame[head:])

    async def exchange(self, request: bytes) -> memoryview:
        """Send a whole frame; what is answered, without its length."""
        self._writer.write(request)
        size = int.from_bytes(await self._reader.readexactly(4), "big")
        return memoryview(await self._reader.readexactly(size))

    async def find_group_coordinator(self) -> None:
        """Ask for one, as clients do first: a broker makes the groups' topic at that."""
        await self.call(
            ApiKey.FIND_COORDINATOR,
            4,
            lambda make: make.request(key_type=0, coordinator_keys=("bench",)),
        )

    def close(self) -> None:
        self._writer.close()


@dataclass
class Group:
    """What all members of one measurement share."""

    bootstrap: str
    topic: str
    topic_id: uuid.UUID
    partitions: int
    name: str = field(default_factory=lambda: f"bench-{uuid.uuid4()}")
    owned: dict[int, frozenset[int]] = field(default_factory=dict)
    """By the member's number."""
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def has(self, number: int, parts: frozenset[int]) -> None:
        self.owned[number] = parts
        self.changed.set()

    async def settled(self, members: int) -> None:
        """Return when every partition is with one member, and evenly."""
        everything = list(range(self.partitions))
        least = self.partitions // members
        while True:
            counts = [len(parts) for parts in self.owned.values()]
            if len(counts) == members and max(counts) - min(counts) <= 1 and min(counts) >= least:
                parts = sorted(part for owned in self.owned.values() for part in owned)
                if parts == everything:
                    return
            self.changed.clear()
            await self.changed.wait()


async def classic(group: Group, number: int) -> None:
    """One member of the classic protocol; the leader deals the partitions out in turn."""
    wire = await Wire.open(group.bootstrap)
    member_id = ""
    while True:
        joined = await wire.call(ApiKey.JOIN_GROUP, 9, _join(group, member_id))
        if joined.error_code in _NOT_YET:
            await asyncio.sleep(0.1)
            continue
        member_id = joined.member_id
        if joined.error_code in (_MEMBER_ID_REQUIRED, _REBALANCE_IN_PROGRESS):
            continue
        synced = await wire.call(ApiKey.SYNC_GROUP, 5, _sync(group, joined))
        if synced.error_code == _REBALANCE_IN_PROGRESS:
            continue
        words = synced.assignment.decode().split(",") if synced.assignment else []
        group.has(number, frozenset(map(int, filter(None, words))))
        while True:
            await asyncio.sleep(_CLASSIC_BEAT_SECONDS)
            generation = joined.generation_id
            beat = await wire.call(ApiKey.HEARTBEAT, 4, _beat(group, member_id, generation))
            if beat.error_code:
                break


def _join(group: Group, member_id: str) -> Callable[[Maker], Any]:
    return lambda make: make.request(
        group_id=group.name,
        session_timeout=_SESSION,
        rebalance_timeout=_REBALANCE,
        member_id=member_id,
        group_instance_id=None,
        protocol_type="bench",
        protocols=(make.part("JoinGroupRequestProtocol", name="deal", metadata=b""),),
        reason=None,
    )


def _sync(group: Group, joined: Any) -> Callable[[Maker], Any]:  # noqa: ANN401
    names = [one.member_id for one in joined.members]

    def build(make: Maker) -> Any:  # noqa: ANN401
        shares = tuple(
            make.part(
                "SyncGroupRequestAssignment",
                member_id=name,
                assignment=",".join(
                    str(one) for one in range(at, group.partitions, len(names))
                ).encode(),
            )
            for at, name in enumerate(names)
        )
        return make.request(
            group_id=group.name,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            group_instance_id=None,
            protocol_type="bench",
            protocol_name="deal",
            assignments=shares,
        )

    return build


def _beat(group: Group, member_id: str, generation: int) -> Callable[[Maker], Any]:
    return lambda make: make.request(
        group_id=group.name,
        generation_id=generation,
        member_id=member_id,
        group_instance_id=None,
    )


async def newer(group: Group, number: int) -> None:
    """One member of KIP-848's protocol."""
    wire = await Wire.open(group.bootstrap)
    member_id, epoch = str(uuid.uuid4()), 0
    owned: frozenset[int] = frozenset()
    said: frozenset[int] | None = None
    while True:
        build = _heartbeat(group, member_id, epoch, None if said == owned else owned)
        answer = await wire.call(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, build)
        if answer.error_code in _NOT_YET:
            await asyncio.sleep(0.1)
            continue
        if answer.error_code:
            raise RuntimeError(f"heartbeat: {answer.error_code} {answer.error_message}")
        epoch, said = answer.member_epoch, owned
        if answer.assignment is not None:
            parts = [one.partitions for one in answer.assignment.topic_partitions]
            owned = frozenset(one for some in parts for one in some)
            group.has(number, owned)
        if owned == said:
            await asyncio.sleep(answer.heartbeat_interval.total_seconds())


def _heartbeat(
    group: Group, member_id: str, epoch: int, owned: frozenset[int] | None
) -> Callable[[Maker], Any]:
    joins = epoch == 0

    def build(make: Maker) -> Any:  # noqa: ANN401
        parts: tuple[Any, ...] | None = ()
        if not joins and owned is None:
            parts = None
        elif owned and not joins:
            numbers = tuple(sorted(owned))
            parts = (make.part("TopicPartitions", topic_id=group.topic_id, partitions=numbers),)
        return make.request(
            group_id=group.name,
            member_id=member_id,
            member_epoch=epoch,
            instance_id=None,
            rack_id=None,
            rebalance_timeout=_REBALANCE if joins else _UNCHANGED,
            subscribed_topic_names=(group.topic,) if joins else None,
            subscribed_topic_regex=None,
            server_assignor=None,
            topic_partitions=parts,
        )

    return build


async def _topic_id(bootstrap: str, topic: str) -> uuid.UUID:
    wire = await Wire.open(bootstrap)
    found = await wire.call(
        ApiKey.METADATA,
        12,
        lambda make: make.request(
            topics=(make.part("MetadataRequestTopic", topic_id=None, name=topic),),
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=False,
        ),
    )
    await wire.find_group_coordinator()
    wire.close()
    topic_id: uuid.UUID = found.topics[0].topic_id
    return topic_id


async def _measure(bootstrap: str, topic: str, partitions: int, members: int, kind: str) -> Settled:
    member = classic if kind == "classic" else newer
    group = Group(bootstrap, topic, await _topic_id(bootstrap, topic), partitions)
    tasks: list[asyncio.Task[None]] = []

    async def settle(count: int) -> float:
        began = time.monotonic()
        group.owned.clear()
        while len(tasks) < count:
            tasks.append(asyncio.create_task(member(group, len(tasks))))
        done = asyncio.create_task(group.settled(count))
        finished, _ = await asyncio.wait(
            [done, *tasks], timeout=SECONDS_MAX, return_when=asyncio.FIRST_COMPLETED
        )
        if done not in finished:
            for task in finished:
                task.result()
            raise TimeoutError(f"{kind}: the group has not settled in {SECONDS_MAX:.0f} s")
        return time.monotonic() - began

    try:
        all_in = await settle(members)
        kept = dict(group.owned)
        await asyncio.sleep(1.0)
        began = time.monotonic()
        group.owned = kept
        tasks.append(asyncio.create_task(member(group, members)))
        await asyncio.wait_for(group.settled(members + 1), SECONDS_MAX)
        return Settled(all_in, time.monotonic() - began)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def measure(bootstrap: str, topic: str, *, partitions: int, members: int, kind: str) -> Settled:
    """`kind`: classic or consumer."""
    return asyncio.run(_measure(bootstrap, topic, partitions, members, kind))
