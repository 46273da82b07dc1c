"""How a share partition comes to be, and what ends it, whatever keeps its state."""

import struct
from collections.abc import Callable
from typing import Any

import pytest

from headrace.broker.watchable import Watched
from headrace.coordination.share.acknowledgements import Ack, AckKind
from headrace.coordination.share.counts import ShareCounts
from headrace.coordination.share.keys import NOT_SET, ShareKey
from headrace.coordination.share.share_partition import SharePartition, SharePartitionState
from headrace.coordination.share.state_port import StateRead
from headrace.delivery.cursor_state import CursorState
from headrace.delivery.partition_delivery import Look
from headrace.delivery.record_states import RecordState, StateBatch
from headrace.log.segment.batch_reader import ReadResult
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import Offset
from headrace.ports.deadlines import Deadlines
from headrace.record.batch import Record, build
from headrace.testing.clock import SimClock
from headrace.testing.disk import SimDisk

KEY = ShareKey("g", bytes(16), 0)


class HandStates:
    """Keeps what a test says, and does what it says to what is written."""

    def __init__(self, known: CursorState | None) -> None:
        self.known = known
        self.error: ApiError | None = None
        self.written: list[tuple[int, int, CursorState]] = []
        self.answers: list[Callable[[ErrorCode | None], None]] = []
        self.begun: list[int] = []

    def read(
        self, key: ShareKey, leader_epoch: int, done: Callable[[StateRead | ApiError | None], None]
    ) -> None:
        assert key == KEY
        if self.error is not None or self.known is None:
            done(self.error)
        else:
            done(StateRead(7, self.known))

    def initialize(
        self, wanted: list[tuple[ShareKey, int]], epoch: int, done: Callable[[Any], None]
    ) -> None:
        assert epoch == 8  # the one behind what was read: asked twice, it begins once
        self.begun += [start for _, start in wanted]
        self.answers.append(done)

    def write(
        self, key: ShareKey, state_epoch: int, epoch: int, change: CursorState, done: Any
    ) -> None:
        assert key == KEY
        self.written.append((state_epoch, epoch, change))
        self.answers.append(done)

    def when_settled(self, key: ShareKey, done: Callable[[], None]) -> None:
        done()


class HandSettings:
    """Of the group."""

    strategy = "earliest"

    def offset_reset(self, group: str) -> str:
        assert group == "g"
        return self.strategy

    def lock_seconds(self, group: str) -> float:
        return 30.0

    def renews(self, group: str) -> bool:
        return True

    def window(self, group: str) -> int:
        return 5

    def deliveries_max(self, group: str) -> int:
        return 5

    def read_committed(self, group: str) -> bool:
        return False


class HandLog:
    """Of the partition: it ends at 100."""

    end_offset = 100


class HandPartition(Watched):
    """Offsets 10 to 99, of which 90 and above are not committed."""

    log = HandLog()
    log_start_offset = 10
    high_watermark = 90
    leader_epoch = 3

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[object, ...]] = []

    def readable_end(self, committed: bool) -> int:
        return 90

    def read(
        self, offset: int, size: int, *, read_committed: bool, at_least_one: bool
    ) -> ReadResult:
        self.asked.append((offset, size, read_committed, at_least_one))
        return ReadResult(b"", Offset(offset))


class Here:
    """A share partition whose state is kept by hand."""

    def __init__(self, known: CursorState | None = None) -> None:
        self.states = HandStates(known)
        self.clock = SimClock()
        self.ended: list[SharePartition] = []
        self.loaded: list[ApiError | None] = []
        self.woken: list[SharePartitionState] = []
        self.partition = HandPartition()
        parts: Any = (self.partition, self.states, HandSettings())
        self.shared = SharePartition(
            KEY,
            parts[0],
            states=parts[1],
            settings=parts[2],
            deadlines=Deadlines(self.clock),
            disk=SimDisk(),
            ended=self.ended.append,
            counts=ShareCounts(),
        )
        self.shared.delivery.watch(lambda: self.woken.append(self.shared.state))

    def load(self) -> None:
        self.shared.when_loaded(self.loaded.append)
        self.shared.load()

    def codes(self) -> list[ErrorCode | None]:
        """What those who waited for it to be loaded were told."""
        return [None if error is None else error.code for error in self.loaded]


def test_what_cannot_be_read_ends_it_and_all_who_wait_are_told() -> None:
    here = Here()
    here.states.error = ApiError(ErrorCode.NOT_COORDINATOR)
    here.load()
    assert here.codes() == [ErrorCode.NOT_COORDINATOR]
    assert here.ended == [here.shared]
    assert here.woken == [SharePartitionState.ENDED]
    here.shared.when_loaded(here.loaded.append)
    assert len(here.loaded) == 2, "who comes later is told at once"
    with pytest.raises(ApiError):
        here.shared.look(1, 1, at_least_one=True)
    here.shared.end(ApiError(ErrorCode.UNKNOWN_SERVER_ERROR))
    assert len(here.ended) == 1, "it ends once"


def test_a_partition_of_which_nothing_is_kept_is_none_of_the_groups() -> None:
    here = Here(None)
    here.load()
    assert here.codes() == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert str(here.shared.error).endswith("the group has no state there")


def test_where_a_group_begins_is_kept_before_anything_is_handed_out() -> None:
    here = Here(CursorState(NOT_SET))
    here.load()
    assert here.states.written == [(7, 3, CursorState(10))]
    assert here.loaded == []
    assert here.shared.look(1, 1, at_least_one=True) is None
    here.states.answers.pop()(None)
    assert here.loaded == [None]
    assert here.shared.state is SharePartitionState.ACTIVE
    assert here.shared.start == 10
    assert here.woken == [SharePartitionState.ACTIVE]


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.FENCED_STATE_EPOCH, ErrorCode.FENCED_STATE_EPOCH),
    ],
)
def test_a_beginning_that_cannot_be_kept_ends_it(code: ErrorCode, told: ErrorCode) -> None:
    here = Here(CursorState(NOT_SET))
    here.load()
    here.states.answers.pop()(code)
    assert here.codes() == [told]
    assert here.ended == [here.shared]


def test_a_beginning_that_is_kept_after_the_end_changes_nothing() -> None:
    here = Here(CursorState(NOT_SET))
    here.load()
    here.shared.end(ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER))
    here.states.answers.pop()(None)
    assert here.shared.state is SharePartitionState.ENDED
    assert here.codes() == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


@pytest.mark.parametrize(("start", "anew"), [(99, False), (100, False), (101, True)])
def test_only_what_begins_beyond_the_log_begins_anew_at_its_end(start: int, anew: bool) -> None:
    here = Here(CursorState(start))
    here.load()
    assert here.states.begun == ([100] if anew else [])
    if anew:
        assert here.loaded == []
        here.states.known = CursorState(100)
        here.states.answers.pop()(None)
    assert here.loaded == [None]
    assert here.shared.start == (100 if anew else start)


def test_a_new_beginning_that_cannot_be_kept_ends_it() -> None:
    here = Here(CursorState(101))
    here.load()
    here.states.answers.pop()(ErrorCode.FENCED_STATE_EPOCH)
    assert here.codes() == [ErrorCode.FENCED_STATE_EPOCH]


def test_of_what_is_kept_only_what_the_log_has_counts() -> None:
    batches = (
        StateBatch(5, 12, RecordState.ACKNOWLEDGED, 1),
        StateBatch(98, 103, RecordState.AVAILABLE, 2),
        StateBatch(104, 105, RecordState.ACKNOWLEDGED, 1),
    )
    here = Here(CursorState(5, batches))
    here.load()
    assert here.shared.start == 13
    assert here.shared._cursor.end == 100
    assert here.shared._cursor.state().batches == (batches[1]._replace(last=99),)


def test_a_write_that_fails_ends_it_and_who_asked_is_told() -> None:
    here = Here(CursorState(10))
    here.load()
    here.shared._cursor.acquire(10, 14, "a", now=0.0)
    told: list[ApiError | None] = []
    here.shared.acknowledge("a", [Ack(10, 12, AckKind.ACCEPT)], told.append)
    assert here.states.written == [(7, 3, CursorState(13))]
    here.states.answers.pop()(None)
    assert told == [None]
    here.shared.acknowledge("a", [Ack(13, 13, AckKind.RELEASE)], told.append)
    here.states.answers.pop()(ErrorCode.NOT_COORDINATOR)
    assert [error.code for error in told if error] == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert here.ended == [here.shared]
    here.shared.acknowledge("a", [Ack(14, 14, AckKind.ACCEPT)], told.append)
    assert told[-1] is here.shared.error
    here.shared.release_member("a", told.append)
    assert told[-1] is None


def test_a_lock_that_is_out_of_time_after_the_end_is_no_matter() -> None:
    here = Here(CursorState(10))
    here.load()
    here.shared._cursor.acquire(10, 14, "a", now=0.0, deadline=here.clock.monotonic() + 30)
    here.shared.delivery._arm()
    here.shared.end(ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER))
    here.clock.advance(31)
    assert here.states.written == []
    assert here.shared.out == 5


def batches_at(*offsets: int) -> bytes:
    """Batches of three records, the first at each of `offsets`."""
    data = build([Record(at, 1, None, b"v", ()) for at in range(3)])
    return b"".join(struct.pack(">q", offset) + data[8:] for offset in offsets)


def taken_of(offsets: tuple[int, ...], records_max: int, *, exactly: bool) -> list[int]:
    """The offsets handed out of such batches, whose bytes are those that are sent."""
    here = Here(CursorState(10))
    here.load()
    data = batches_at(*offsets)
    read = ReadResult(data, Offset(offsets[-1] + 3))
    taken = here.shared.take(
        Look(10, 90, read, False), read, "a", records_max=records_max, exactly=exactly
    )
    given = [at for first, last, _ in taken.acquired for at in range(first, last + 1)]
    sent = b"".join(map(bytes, taken.records))
    assert sent == batches_at(*(offset for offset in offsets if offset in given))
    assert here.shared.out == len(given)
    assert here.shared._counts.acquired == len(given)
    assert here.shared._cursor.next_offset(0.0) == given[-1] + 1, "gaps are nobody's"
    return given


@pytest.mark.parametrize("exactly", [False, True])
@pytest.mark.parametrize("records_max", range(1, 12))
@pytest.mark.parametrize("offsets", [(10, 13, 16), (10, 14, 18)])
def test_as_many_are_handed_out_as_asked_for_or_up_to_the_end_of_a_batch(
    offsets: tuple[int, ...], records_max: int, exactly: bool
) -> None:
    there = [at for offset in offsets for at in range(offset, offset + 3)]
    whole = -(-records_max // 3) * 3
    given = taken_of(offsets, records_max, exactly=exactly)
    assert given == there[: records_max if exactly else whole]


def test_what_is_read_is_for_about_as_many_records_as_were_asked_for() -> None:
    here = Here(CursorState(10))
    here.load()
    assert here.shared.delivery.bytes_wanted(1 << 20, 1) == 1 << 16
    assert here.shared.delivery.bytes_wanted(100, 500) == 100
    assert here.shared.delivery.bytes_wanted(1 << 20, 500) == 2 * 500 * 256
    look = here.shared.look(1 << 20, 500, at_least_one=True)
    assert look is not None
    assert look[:2] == (10, 90)
    assert here.partition.asked == [(10, 256_000, False, True)]


def test_nothing_is_looked_for_where_nothing_may_go_out() -> None:
    here = Here(CursorState(10))
    here.load()
    here.shared._cursor.acquire(10, 14, "a", now=0.0)
    assert here.shared.look(1, 1, at_least_one=False) is None, "the window is full"
    here.shared._cursor.release_holder("a")
    here.shared._cursor.acquire(10, 12, "a", now=0.0)
    look = here.shared.look(1, 1, at_least_one=False)
    assert look is not None
    assert look.at == 13
    assert here.partition.asked == [(13, 1, False, False)]
