"""Random lives of a share group on a whole broker, through kills and power cuts.

Whatever members do and whenever the broker ends: what was answered as accepted or rejected is never
handed out again, no record is with two members at once, and nothing is lost.
"""

import asyncio
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.cluster.topics.creation import NewTopic
from headrace.config.keys.share import ShareKeys
from headrace.coordination.groups.modern.heartbeat import HeartbeatAnswer
from headrace.coordination.groups.share.heartbeat import Heartbeat
from headrace.coordination.groups.share.model import Assigned
from headrace.coordination.share.acknowledgements import Ack, AckKind
from headrace.coordination.share.keys import ShareKey
from headrace.coordination.share.share_partition import SharePartition
from headrace.log.segment.batch_reader import NeedsDisk, ReadResult
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import OFFSETS_TOPIC, SHARE_STATE_TOPIC
from headrace.testing.disk import SimDisk
from headrace.testing.disk_crash import crash_states
from tests.support.coordination.share_room import kept, loaded
from tests.support.processes.broker import Room, play, room, until

GROUP, TOPIC = "g", "t"
MEMBERS = ("a", "b")
LOCK_SECONDS = 30.0
SETTINGS: dict[str, Any] = {
    "offsets_topic_num_partitions": "1",
    "group_share_assignment_interval_ms": "0",
    "share_coordinator_state_topic_num_partitions": "1",
    "share_coordinator_snapshot_update_records_per_snapshot": "3",
}
assert {name.replace("_", ".") for name in SETTINGS if name.startswith("share")} <= {
    *ShareKeys.KEYS
}


class Life(NamedTuple):
    """What happens, and how the broker ends."""

    steps: list[tuple[Any, ...]]
    end: str
    seed: int


members = st.sampled_from(MEMBERS)
steps = st.one_of(
    st.tuples(st.just("produce"), st.integers(1, 6)),
    st.tuples(st.just("fetch"), members, st.integers(1, 4), st.booleans()),
    st.tuples(
        st.just("ack"), members, st.integers(0, 9), st.integers(1, 5), st.sampled_from(AckKind)
    ),
    st.tuples(st.just("hasty"), members, st.integers(0, 9), st.integers(1, 5)),
    st.tuples(st.just("gone"), members),
    st.tuples(st.just("wait"), st.sampled_from([1.0, LOCK_SECONDS, 301.0])),
)
lives = st.builds(
    Life,
    st.lists(steps, min_size=3, max_size=14),
    st.sampled_from(["clean", "kill", "cut"]),
    st.integers(0, 1000),
)


class Story:
    """What is known over all lives."""

    def __init__(self) -> None:
        self.produced = 0
        self.settled: set[int] = set()
        """Accepted or rejected, and answered so."""
        self.unsure: set[int] = set()
        """Accepted, and not answered: may come again or not."""
        self.held: dict[int, str] = {}
        self.counts: dict[int, int] = {}

    async def live(self, here: Room, life: Life) -> None:
        """One life of the broker, up to but without its end."""
        self.held = {}
        self.here = here
        await self.begin()
        for step in life.steps:
            await getattr(self, step[0])(*step[1:])

    async def begin(self) -> None:
        """Have the topic, the group and its members."""
        here = self.here
        if TOPIC not in here.broker.image.topics:
            await here.controller.create_topics([NewTopic(TOPIC, 1, 1)])
            for name in (OFFSETS_TOPIC, SHARE_STATE_TOPIC):
                await here.controller.ensure_internal_topic(name)
        here.broker.group_configs.put(GROUP, {"share.auto.offset.reset": "earliest"})
        await loaded(here)
        for member in MEMBERS:
            answer = await self.heartbeat(member)
            assert answer.error is ErrorCode.NONE, answer
        share = here.coordinators.share
        topic_id = here.broker.image.topics[TOPIC].topic_id
        await until(lambda: kept(share.states, ShareKey(GROUP, topic_id, 0)) is not None)

    async def heartbeat(self, member: str) -> HeartbeatAnswer[Assigned]:
        """Join, or be in the group already."""
        answers: list[HeartbeatAnswer[Assigned]] = []
        one = Heartbeat(GROUP, member, 0, None, (TOPIC,), "c", "/h")
        self.here.coordinators.share.heartbeat(one, answers.append)
        await until(lambda: bool(answers))
        return answers[0]

    async def partition(self) -> SharePartition:
        """The share partition, loaded."""
        topic = self.here.broker.image.topics[TOPIC]
        one = self.here.coordinators.share.partitions.get(ShareKey(GROUP, topic.topic_id, 0))
        loaded: list[object] = []
        one.when_loaded(loaded.append)
        await until(lambda: bool(loaded))
        assert loaded == [None]
        return one

    async def produce(self, count: int) -> None:
        for _ in range(count):
            self.here.write(TOPIC)
        partition = self.here.broker.partition(TOPIC, 0)
        await until(lambda: partition.high_watermark == partition.log.end_offset)
        self.produced = partition.log.end_offset

    async def fetch(self, member: str, records: int, exactly: bool) -> list[int]:
        one = await self.partition()
        look = one.look(1 << 20, records, at_least_one=True)
        if look is None:
            return []
        found = look.found
        if isinstance(found, NeedsDisk):
            below: Any = look.below
            found = one.partition.log.read_from_disk(found.offset, 1 << 20, below=below)
        assert isinstance(found, ReadResult)
        taken = one.take(look, found, member, records_max=records, exactly=exactly)
        offsets = []
        for first, last, count in taken.acquired:
            for offset in range(first, last + 1):
                assert offset not in self.settled, "settled, and answered so"
                assert offset not in self.held, "with two members"
                assert count <= 5
                self.held[offset] = member
                self.counts[offset] = count
                offsets.append(offset)
        if exactly:
            assert len(offsets) <= records
        return offsets

    async def ack(self, member: str, at: int, length: int, kind: AckKind) -> None:
        answers = await self.ask(member, at, length, kind)
        await until(lambda: not answers or answers[1] is not None)
        assert not answers or answers[0] is None, answers

    async def hasty(self, member: str, at: int, length: int) -> None:
        """An acknowledgement that nobody waits for: the broker may end before it is durable."""
        await self.ask(member, at, length, AckKind.ACCEPT)

    async def ask(self, member: str, at: int, length: int, kind: AckKind) -> list[Any]:
        mine = sorted(offset for offset, holder in self.held.items() if holder == member)
        if not mine:
            return []
        first = mine[min(at, len(mine) - 1)]
        last = first
        while last + 1 in mine and last - first + 1 < length:
            last += 1
        one = await self.partition()
        state: list[Any] = [None, None]
        offsets = range(first, last + 1)
        final = kind in (AckKind.ACCEPT, AckKind.REJECT, AckKind.GAP)
        if final:
            self.unsure.update(offsets)

        def answered(error: ApiError | None) -> None:
            state[:] = [error, True]
            if error is not None:
                # The broker ends with this on its way: it may be kept, or not.
                assert error.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
            elif final:
                self.settled.update(offsets)

        one.acknowledge(member, [Ack(first, last, kind)], answered)
        if kind is not AckKind.RENEW:
            for offset in offsets:
                self.held.pop(offset, None)
        return state

    async def gone(self, member: str) -> None:
        one = await self.partition()
        answers: list[object] = []
        one.release_member(member, answers.append)
        await until(lambda: bool(answers))
        self.held = {at: holder for at, holder in self.held.items() if holder != member}

    async def wait(self, seconds: float) -> None:
        clock: Any = self.here.broker.clock
        clock.advance(seconds)
        await asyncio.sleep(0)
        if seconds >= LOCK_SECONDS:
            self.held = {}

    async def drain(self, here: Room) -> None:
        """In the end everything that is not settled can still be had."""
        self.held = {}
        self.here = here
        await self.begin()
        seen: set[int] = set()
        for _ in range(200):
            got = await self.fetch("a", 50, False)
            if not got:
                break
            seen.update(got)
        given_up = {at for at, count in self.counts.items() if count >= 5}
        missing = set(range(self.produced)) - seen - self.settled - self.unsure - given_up
        assert not missing


@settings(max_examples=15, suppress_health_check=list(HealthCheck))
@given(st.lists(lives, min_size=1, max_size=3))
def test_nothing_settled_comes_again_and_nothing_is_lost(whole: list[Life]) -> None:
    with tempfile.TemporaryDirectory() as place:
        play(tell(Path(place), whole))


async def tell(place: Path, whole: list[Life]) -> None:
    story, disk = Story(), SimDisk()
    for life in whole:
        async with room(place, disk, kill=life.end != "clean", **SETTINGS) as here:
            await story.live(here, life)
        if life.end == "cut":
            disk = next(iter(crash_states(disk, len(disk.ops), life.seed, samples=1)))
    async with room(place, disk, **SETTINGS) as here:
        await story.drain(here)


@pytest.mark.parametrize("end", ["kill", "cut"])
@pytest.mark.parametrize("kind", [AckKind.ACCEPT, AckKind.REJECT])
def test_what_is_answered_is_durable_at_that_moment(
    tmp_path: Path, end: str, kind: AckKind
) -> None:
    steps = [("produce", 5), ("fetch", "a", 5, False), ("ack", "a", 1, 3, kind)]
    play(tell(tmp_path, [Life(list(steps), end, 0)]))
