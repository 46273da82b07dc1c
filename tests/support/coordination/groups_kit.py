"""What the group tests stand on: a clock moved by hand, a partition in memory, a coordinator."""

import heapq
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from headrace.broker.metadata_image import MetadataImage
from headrace.config.keys.groups import GroupKeys
from headrace.config.value_types import Value
from headrace.coordination.groups.classic.group import ClassicGroup
from headrace.coordination.groups.group_coordinators import GroupCoordinators
from headrace.coordination.groups.messages import (
    CommitRequest,
    JoinAnswer,
    JoinRequest,
    OffsetToCommit,
    SyncAnswer,
    SyncRequest,
)
from headrace.log.segment.batch_reader import NeedsDisk, ReadResult
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import Offset
from headrace.record.batch import iterate, next_offset, records, size_of, stamp
from headrace.shards.shard import World

T = TypeVar("T")
RANGE = (("range", b"r"),)


class HandTimer:
    """A timer that only `HandClock.advance` fires."""

    def __init__(self) -> None:
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class HandClock:
    """`ports.clock.Clock`: time passes when the test says so."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.wall = 1_700_000_000_000
        self._heap: list[tuple[float, int, HandTimer, Callable[[], None]]] = []
        self._count = 0

    def wall_ms(self) -> int:
        return self.wall

    def monotonic(self) -> float:
        return self.now

    def call_later(self, seconds: float, callback: Callable[[], None]) -> HandTimer:
        timer = HandTimer()
        self._count += 1
        heapq.heappush(self._heap, (self.now + seconds, self._count, timer, callback))
        return timer

    @property
    def timers(self) -> int:
        """How many timers are armed."""
        return sum(not timer.cancelled for _, _, timer, _ in self._heap)

    def advance(self, seconds: float = 0.0) -> None:
        """Let time pass, and everything happen that is due in it, in its order."""
        end = self.now + seconds
        while self._heap and self._heap[0][0] <= end:
            at, _, timer, callback = heapq.heappop(self._heap)
            self._move(max(at, self.now))
            if not timer.cancelled:
                callback()
        self._move(end)

    def _move(self, to: float) -> None:
        self.wall += round((to - self.now) * 1000)
        self.now = to


class CountingRandom:
    """`ports.clock.Random`: every id differs, and is the same in every run."""

    def __init__(self) -> None:
        self._count = 0

    def uuid(self) -> bytes:
        self._count += 1
        return self._count.to_bytes(16, "big")

    def uniform(self, low: float, high: float) -> float:
        return low


class InlineDisk:
    """The part of `ports.disk.Disk` a loader needs: work is done at once."""

    def run(self, work: Callable[[], T], done: Callable[[T | BaseException], None]) -> None:
        try:
            result: T | BaseException = work()
        except Exception as error:  # noqa: BLE001 - handed on, as the real one does
            result = error
        done(result)


class HeldDisk(InlineDisk):
    """Its threads end their work when the test says so: `hold`, then `release`."""

    def __init__(self) -> None:
        self.hold = False
        self._held: list[Callable[[], None]] = []

    def run(self, work: Callable[[], T], done: Callable[[T | BaseException], None]) -> None:
        if self.hold:
            self._held.append(lambda: InlineDisk.run(self, work, done))
        else:
            super().run(work, done)

    def release(self) -> None:
        """All that was held is done, and nothing is held any more."""
        self.hold = False
        while self._held:
            self._held.pop(0)()


class MemoryAppended(NamedTuple):
    base_offset: Offset
    commit_offset: Offset


class MemoryLog:
    """A log of whole batches in memory. With `cold` set nothing is in the page cache."""

    def __init__(self) -> None:
        self.batches: list[bytes] = []
        self.start_offset = Offset(0)
        self.end_offset = Offset(0)
        self.cold = False

    def append(self, batch: bytes) -> Offset:
        """Append as the partition does: stamped with the next offset."""
        base = self.end_offset
        own = bytearray(batch)
        stamp(own, base, 0)
        self.batches.append(bytes(own))
        (_, header), *_ = iterate(own)
        self.end_offset = Offset(next_offset(header))
        return base

    def adopt(self, raw: bytes) -> None:
        """Take over a segment's bytes as they are."""
        for at, header in iterate(raw):
            self.batches.append(raw[at : at + size_of(header)])
            self.end_offset = Offset(next_offset(header))

    def read(self, offset: Offset, max_bytes: int, *, below: Offset) -> ReadResult | NeedsDisk:
        return (
            NeedsDisk(offset) if self.cold else self.read_from_disk(offset, max_bytes, below=below)
        )

    def read_from_disk(self, offset: Offset, max_bytes: int, *, below: Offset) -> ReadResult:
        taken, after = b"", offset
        for batch in self.batches:
            (_, header), *_ = iterate(batch)
            following = Offset(next_offset(header))
            if following <= offset or header.base_offset >= below:
                continue
            if taken and len(taken) + len(batch) > max_bytes:
                break
            taken, after = taken + batch, following
        return ReadResult(taken, after)


class MemoryPartition:
    """A partition whose flushes the test decides: `hold` keeps commits back until `flush`."""

    def __init__(self, log: MemoryLog | None = None) -> None:
        self.log = log or MemoryLog()
        self.hold = False
        self.refusal: ErrorCode | None = None
        self.committed = self.log.end_offset
        self._waiting: deque[tuple[Offset, Callable[[ApiError | None], None]]] = deque()

    def append_internal(self, batch: bytes, *, now_ms: int) -> MemoryAppended:
        if self.refusal is not None:
            raise ApiError(self.refusal)
        base = self.log.append(batch)
        return MemoryAppended(base, self.log.end_offset)

    def when_committed(
        self, commit_offset: Offset, callback: Callable[[ApiError | None], None]
    ) -> None:
        self._waiting.append((commit_offset, callback))
        if not self.hold:
            self.flush()

    def flush(self) -> None:
        """All that was appended is committed."""
        self.committed = self.log.end_offset
        while self._waiting:
            self._waiting.popleft()[1](None)

    def flush_first(self) -> None:
        """Commit the oldest batch that waits, and no other."""
        self.committed, callback = self._waiting.popleft()
        callback(None)

    def fail(self, code: ErrorCode) -> None:
        """The flush failed."""
        while self._waiting:
            self._waiting.popleft()[1](ApiError(code))

    def pairs(self) -> list[tuple[bytes | None, bytes | None]]:
        """Keys and values of all records in the log."""
        return [(one.key, one.value) for batch in self.log.batches for one in records(batch)]


class Settings(GroupKeys):
    """The configuration, as tests like it: nothing waits, nothing is large."""

    def __init__(self, **values: Value) -> None:
        likings: dict[str, Value] = {
            "group_consumer_assignment_interval_ms": 0,
            "group_consumer_max_size": 1000,
            "group_initial_rebalance_delay_ms": 0,
            "group_max_size": 1000,
            "groups_max": 1000,
            "offsets_topic_num_partitions": 1,
        }
        super().__init__(**(likings | values))


@dataclass
class Room:
    """One coordinator over one partition, and the requests tests make of it."""

    settings: Settings = field(default_factory=Settings)
    clock: HandClock = field(default_factory=HandClock)
    partition: MemoryPartition = field(default_factory=MemoryPartition)
    random: CountingRandom = field(default_factory=CountingRandom)
    epoch: int = 0
    image: MetadataImage = field(default_factory=lambda: MetadataImage("cluster"))
    group_settings: dict[str, dict[str, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.disk = HeldDisk()
        disk: Any = self.disk
        self.world = World(self.clock, self.random, disk)
        self.groups = GroupCoordinators(
            world=self.world,
            config=lambda: self.settings,
            image=lambda: self.image,
            group_setting=self.group_setting,
        )
        self.groups.led.lead(0, self.partition, self.epoch)
        self.clock.advance()

    def group_setting(self, group_id: str, key: str) -> int:
        """A group's own number, the broker's by default."""
        own = self.group_settings.get(group_id, {}).get(key)
        default: int = getattr(self.settings, "group_" + key.replace(".", "_"))
        return default if own is None else int(own)

    def restart(self) -> "Room":
        """What a broker is that starts with this one's committed log after a kill."""
        log = MemoryLog()
        for batch in self.partition.log.batches:
            (_, header), *_ = iterate(batch)
            if header.base_offset < self.partition.committed:
                log.adopt(batch)
        # A clock of its own: what was to happen in the old process never does.
        clock = HandClock()
        clock.now, clock.wall = self.clock.now, self.clock.wall
        return Room(
            self.settings, clock, MemoryPartition(log), self.random, self.epoch + 1, self.image,
            self.group_settings,
        )  # fmt: skip

    def group(self, name: str = "g") -> ClassicGroup:
        """The group's insides."""
        return self.groups.shard(name).groups[name]

    def join(
        self,
        member_id: str = "",
        *,
        group: str = "g",
        instance: str | None = None,
        protocols: tuple[tuple[str, bytes], ...] = RANGE,
        kind: str = "consumer",
        session_ms: int = 10_000,
        rebalance_ms: int = 20_000,
        version: int = 9,
    ) -> list[JoinAnswer]:
        """Ask to join; the list holds the answer once there is one."""
        answers: list[JoinAnswer] = []
        request = JoinRequest(
            group, member_id, instance, "client", "/127.0.0.1", session_ms, rebalance_ms, kind,
            protocols, needs_member_id=version >= 4, skips_assignment=version >= 9,
        )  # fmt: skip
        self.groups.join(request, answers.append)
        return answers

    def new_member(self, **asked: Any) -> tuple[str, list[JoinAnswer]]:
        """Join as a new dynamic member does: once for an id, once with it."""
        (first,) = self.join(**asked)
        assert first.error is ErrorCode.MEMBER_ID_REQUIRED
        return first.member_id, self.join(first.member_id, **asked)

    def sync(
        self,
        member_id: str,
        generation: int,
        assignments: dict[str, bytes] | None = None,
        *,
        group: str = "g",
        instance: str | None = None,
        kind: str | None = None,
        protocol: str | None = None,
    ) -> list[SyncAnswer]:
        """Ask for the assignment; the leader brings all."""
        answers: list[SyncAnswer] = []
        request = SyncRequest(
            group, generation, member_id, instance, kind, protocol,
            tuple((assignments or {}).items()),
        )  # fmt: skip
        self.groups.sync(request, answers.append)
        return answers

    def beat(
        self, member_id: str, generation: int, *, instance: str | None = None, group: str = "g"
    ) -> ErrorCode:
        """Heartbeat."""
        return self.groups.heartbeat(group, member_id, instance, generation)

    def commit(
        self,
        member_id: str = "",
        generation: int = -1,
        offsets: Sequence[OffsetToCommit] = (OffsetToCommit("t", 0, 7),),
        *,
        group: str = "g",
        instance: str | None = None,
        retention_ms: int = -1,
        version: int = 8,
        turn: bool = True,
    ) -> list[ErrorCode]:
        """Commit offsets; `turn` ends the turn, in which they are appended."""
        codes: list[ErrorCode] = []
        request = CommitRequest(
            group, generation, member_id, instance, list(offsets), retention_ms, version
        )
        self.groups.commit(request, codes.append)
        if turn:
            self.clock.advance()
        return codes

    def committed(self, topic: str = "t", partition: int = 0, group: str = "g") -> int | None:
        """The offset a client would fetch."""
        found = self.groups.offset(group, topic, partition)
        return None if found is None else found.offset

    def stable(self, members: int = 1, *, group: str = "g", **asked: Any) -> tuple[list[str], int]:
        """A new group of so many members, Stable; the leader's id comes first."""
        joining = [self.new_member(group=group, **asked) for _ in range(members)]
        self.clock.advance()
        answers = {name: got[0] for name, got in joining}
        (generation,) = {answer.generation for answer in answers.values()}
        leader = joining[0][1][0].leader
        plan = {name: name.encode() for name in answers}
        waiting = [self.sync(name, generation, group=group) for name in answers if name != leader]
        waiting.append(self.sync(leader, generation, plan, group=group))
        assert all(got[0].error is ErrorCode.NONE for got in waiting)
        return [leader, *(name for name in answers if name != leader)], generation

    def rejoined(self, members: Sequence[str], *, group: str = "g") -> int:
        """All of `members` join and sync again; the generation they are in then."""
        joining = {name: self.join(name, group=group) for name in members}
        self.clock.advance()
        answers = {name: got[0] for name, got in joining.items()}
        (generation,) = {answer.generation for answer in answers.values()}
        leader = next(iter(answers.values())).leader
        self.sync(leader, generation, {name: name.encode() for name in answers}, group=group)
        for name in members:
            (got,) = self.sync(name, generation, group=group)
            assert (got.error, got.assignment) == (ErrorCode.NONE, name.encode())
        return generation
