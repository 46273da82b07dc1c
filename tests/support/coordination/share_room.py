"""A share group on a broker without sockets, whose time a test moves."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from headrace.cluster.topics.creation import NewTopic
from headrace.coordination.groups.modern.heartbeat import HeartbeatAnswer
from headrace.coordination.groups.share.heartbeat import Heartbeat
from headrace.coordination.groups.share.model import Assigned
from headrace.coordination.share.acknowledgements import Ack, AckKind
from headrace.coordination.share.keys import ShareKey
from headrace.coordination.share.share_partition import SharePartition
from headrace.coordination.share.share_states import ShareStates
from headrace.coordination.share.state_shard import KeptState
from headrace.log.segment.batch_reader import ReadResult
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import OFFSETS_TOPIC, SHARE_STATE_TOPIC
from headrace.record.batch import Record, build, parse_header
from headrace.shards.shard import ShardState
from headrace.testing.disk import SimDisk
from tests.support.processes.broker import Room, room, until

GROUP, TOPIC = "g", "t"
_SETTINGS: dict[str, Any] = {
    "offsets_topic_num_partitions": "1",
    "share_coordinator_state_topic_num_partitions": "1",
}


async def loaded(here: Room) -> None:
    """Wait until the shards of groups and of share groups' state, of one each, are loaded.

    Shards take turns at loading: when the groups can be joined, the state may still be loading.
    """
    leds = (here.coordinators.groups.led, here.coordinators.share.states.led)
    await until(lambda: all(led.at(0) is not None for led in leds))
    await until(lambda: all(shard.state is ShardState.ACTIVE for led in leds for shard in led))


def kept(states: ShareStates, key: ShareKey) -> KeptState | None:
    """What the shard that has `key` keeps of it."""
    return states.led.of(key.coordinated_by).read(key)


class ShareRoom:
    """One group and one topic on one broker. Times are seconds of the test's clock."""

    def __init__(self, here: Room) -> None:
        self.here = here
        self.share = here.coordinators.share

    async def begin(self, partitions: int, **settings: str) -> None:
        """Have the topics; `settings` are the group's, with underscores for dots."""
        if TOPIC not in self.here.broker.image.topics:
            await self.here.controller.create_topics([NewTopic(TOPIC, partitions, 1)])
        for name in (OFFSETS_TOPIC, SHARE_STATE_TOPIC):
            await self.here.controller.ensure_internal_topic(name)
        self.configure(share_auto_offset_reset="earliest", **settings)
        await loaded(self.here)

    def configure(self, **settings: str) -> None:
        """Let these be the group's settings, and no others."""
        wanted = {name.replace("_", "."): value for name, value in settings.items()}
        self.here.broker.group_configs.put(GROUP, wanted)

    async def advance(self, seconds: float) -> None:
        """Let time pass, and what falls due happen."""
        clock: Any = self.here.broker.clock
        clock.advance(seconds)
        for _ in range(50):
            await asyncio.sleep(0)

    async def beat(self, member: str, epoch: int = 0) -> HeartbeatAnswer[Assigned]:
        """ShareGroupHeartbeat: 0 joins, -1 leaves."""
        answers: list[HeartbeatAnswer[Assigned]] = []
        topics = (TOPIC,) if epoch == 0 else None
        self.share.heartbeat(
            Heartbeat(GROUP, member, epoch, None, topics, "c", "/h"), answers.append
        )
        await until(lambda: bool(answers))
        return answers[0]

    async def join(self, *members: str) -> None:
        """Have members, and the state of the topic's partitions."""
        for member in members:
            assert (await self.beat(member)).error is ErrorCode.NONE
        await until(lambda: self.kept() is not None)

    def members(self) -> list[str]:
        """Who is in the group."""
        group = self.share.describe(GROUP).group
        return [] if group is None else sorted(group.members)

    def key(self, index: int) -> ShareKey:
        """The share partition's key."""
        return ShareKey(GROUP, self.here.broker.image.topics[TOPIC].topic_id, index)

    def state_epoch(self) -> int:
        """Of what is kept of the first partition."""
        found = self.kept()
        assert found is not None
        return found.state_epoch

    def kept(self, index: int = 0) -> KeptState | None:
        """What is kept of a partition."""
        return kept(self.share.states, self.key(index))

    async def partition(self, index: int = 0) -> SharePartition:
        """The share partition, loaded."""
        found = self.share.partitions.get(self.key(index))
        loaded: list[ApiError | None] = []
        found.when_loaded(loaded.append)
        await until(lambda: bool(loaded))
        assert loaded == [None]
        return found

    async def write(self, count: int, *, batches: int = 1) -> None:
        """Append that many batches of `count` records each."""
        partition = self.here.broker.partition(TOPIC, 0)
        now = 1_780_000_000_000
        for _ in range(batches):
            records = [Record(at, now, None, b"v", ()) for at in range(count)]
            view = memoryview(bytearray(build(records)))
            partition.append(view, parse_header(view), now_ms=now)
        await until(lambda: partition.high_watermark == partition.log.end_offset)

    async def fetch(
        self, member: str, records: int = 10_000, *, exactly: bool = False
    ) -> dict[int, int]:
        """What the member is handed out: offsets, and how often each was."""
        one = await self.partition()
        look = one.look(1 << 20, records, at_least_one=True)
        if look is None:
            return {}
        assert isinstance(look.found, ReadResult)
        taken = one.take(look, look.found, member, records_max=records, exactly=exactly)
        return {
            offset: tries
            for first, last, tries in taken.acquired
            for offset in range(first, last + 1)
        }

    async def ack(self, member: str, first: int, last: int, kind: AckKind) -> ErrorCode:
        """What an acknowledgement is answered."""
        answers: list[ApiError | None] = []
        one = await self.partition()
        one.acknowledge(member, [Ack(first, last, kind)], answers.append)
        await until(lambda: bool(answers))
        return ErrorCode.NONE if answers[0] is None else answers[0].code


@asynccontextmanager
async def share_room(
    place: Path,
    disk: SimDisk | None = None,
    *,
    partitions: int = 1,
    kill: bool = False,
    of_broker: dict[str, Any] | None = None,
    **settings: str,
) -> AsyncIterator[ShareRoom]:
    """A broker with the topic and the group's `settings`; nobody has joined."""
    theirs = {**_SETTINGS, **(of_broker or {})}
    async with room(place, disk or SimDisk(), kill=kill, **theirs) as here:
        share = ShareRoom(here)
        await share.begin(partitions, **settings)
        yield share
