"""A stream's readers on a replica that follows, leads, has no leader, is truncated or closed."""

from typing import TYPE_CHECKING

from headrace.broker.partition import Partition
from headrace.model.errors import ApiError, ErrorCode, HeadraceError
from headrace.model.nouns import BrokerId, LeaderEpoch, Offset
from headrace.queue_stores.queue_settings import StreamOffset, StreamStart
from headrace.queue_stores.stream.replica_log import ReplicaLog
from headrace.queue_stores.stream.stream_reader import StreamReader
from tests.support.log.log import PLACE, World, append, batch_of
from tests.support.log.log import read as read_log

if TYPE_CHECKING:
    from headrace.queue_stores.stream.stream_chunk import Chunk


class Replica:
    """A replica and one reader. Implements `ReplicaListener` and `ReadStream`."""

    def __init__(self) -> None:
        self.world = World()
        log = self.world.log(PLACE)
        self.partition = Partition(log, flusher=self.world.directory.flusher)
        self.partition.role.follow(BrokerId(1), LeaderEpoch(1))
        self.woken = 0
        self.errors: list[HeadraceError] = []
        self.reader = StreamReader(self, None)
        self.reader.begin(0)
        self.log = ReplicaLog(
            self.partition, self.world.disk, self.world.clock, self, {self.reader: None}
        )

    @property
    def end(self) -> int:
        return self.log.end

    def readable(self) -> None:
        self.woken += 1

    def failed(self, error: HeadraceError) -> None:
        self.errors.append(error)

    def copied(self, *values: bytes, epoch: int = 1, mark: int | None = None) -> None:
        """Append what a leader has; `mark`: its high watermark."""
        follower = self.partition.role.follower
        assert follower is not None
        at = self.partition.log.end_offset
        leader = World().log(PLACE)
        if at:
            append(leader, *[b"before"] * at, epoch=epoch)
        append(leader, *values, epoch=epoch)
        data = read_log(leader, at, 1 << 20, below=leader.end_offset).data
        end = follower.append(memoryview(bytearray(data)), Offset(0), 0)
        self.learned(end if mark is None else mark)

    def learned(self, mark: int) -> None:
        """Learn the leader's high watermark."""
        follower = self.partition.role.follower
        assert follower is not None
        self.world.settle()
        follower.append(memoryview(b""), Offset(mark), 0)

    def read(self) -> list[bytes]:
        """Return the bodies of what is readable from the reader's offset on."""
        self.world.settle()
        positions, messages = self.reader.read(0, 100)
        if positions:
            self.reader.note_handed_out(positions[-1] + 1)
        return [message.body for message in messages]


def test_reads_what_is_below_the_high_watermark_of_the_follower() -> None:
    here = Replica()
    here.copied(b"a")
    here.copied(b"b", mark=1)
    assert (here.read(), here.read()) == ([b"a"], [])
    woken = here.woken
    here.learned(2)
    assert here.woken > woken
    assert here.read() == [b"b"]


def test_reads_on_through_changes_of_roles() -> None:
    here = Replica()
    here.copied(b"a")
    role = here.partition.role
    role.resign()
    assert here.read() == [b"a"]
    role.lead(LeaderEpoch(2))
    here.partition.append_internal(batch_of(b"b"))
    assert here.read() == [b"b"]
    role.follow(BrokerId(2), LeaderEpoch(3))
    here.copied(b"c", epoch=3)
    assert here.read() == [b"c"]
    assert here.errors == []


def test_closed_partition_fails_its_readers_once() -> None:
    here = Replica()
    here.copied(b"a")
    here.partition.close(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    (error,) = here.errors
    assert isinstance(error, ApiError)
    assert here.read() == []
    assert here.partition._watchers == {}


def test_truncated_messages_are_not_read_from_memory() -> None:
    here = Replica()
    here.copied(b"a")
    here.copied(b"lost")
    assert here.read() == [b"a", b"lost"]
    here.reader.begin(1)  # as another reader does
    chunk: Chunk | None = here.log.chunk(1, here.reader)
    assert chunk is not None
    done: list[object] = []
    here.world.directory.truncate_logs([(here.partition.log, Offset(1))], done.append, unclean=True)
    here.world.settle()
    assert here.log.chunk(1, here.reader) is None
    here.copied(b"b")
    assert here.read() == [b"b"]


def test_starts_are_those_of_the_replica() -> None:
    here = Replica()
    here.copied(b"a")
    here.copied(b"b", mark=1)
    found: list[int] = []
    for start in (StreamStart.NEXT, StreamStart.LAST, StreamStart.FIRST):
        here.log.find(StreamOffset(start), found.append)
        here.world.settle()
    assert found == [1, 0, 0]
