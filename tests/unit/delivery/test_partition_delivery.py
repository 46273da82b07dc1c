"""A partition's delivery: who waits is told of what is committed, and nothing above is read."""

from collections.abc import Callable

from headrace.broker.watchable import Watched
from headrace.delivery.cursor import Cursor
from headrace.delivery.cursor_state import CursorState
from headrace.delivery.partition_delivery import Asked, PartitionDelivery
from headrace.log.segment.batch_reader import ReadResult
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import Offset
from headrace.ports.callbacks import Done
from headrace.ports.deadlines import Deadlines
from headrace.record.batch import Record, build
from headrace.testing.clock import SimClock


class HandPartition(Watched):
    """Records 0 to 9, as far as they are committed."""

    log_start_offset = 0

    def __init__(self) -> None:
        super().__init__()
        self.committed = 5
        self.data = b"".join(
            build([Record(0, 1000, None, b"v", ())], base_offset=at) for at in range(10)
        )

    def readable_end(self, read_committed: bool) -> int:
        return self.committed

    def read(
        self, offset: int, size: int, *, read_committed: bool, at_least_one: bool
    ) -> ReadResult:
        each = len(self.data) // 10
        return ReadResult(self.data[offset * each : self.committed * each], Offset(self.committed))

    def commit(self, upto: int) -> None:
        self.committed = upto
        self._wake()

    @property
    def watchers(self) -> int:
        return len(self._watchers)


class HandStore:
    """Keeps what it is told to, once it is let."""

    def __init__(self) -> None:
        self.asked: list[tuple[CursorState, Done[ApiError | None]]] = []

    def write(self, change: CursorState, done: Done[ApiError | None]) -> None:
        self.asked.append((change, done))

    def when_settled(self, done: Callable[[], None]) -> None:
        done()

    def answer(self, error: ApiError | None = None) -> None:
        asked, self.asked = self.asked, []
        for _, done in asked:
            done(error)


class Place:
    """A delivery of a partition, and what it says."""

    def __init__(self, cursor: Cursor) -> None:
        self.partition, self.store = HandPartition(), HandStore()
        self.failed: list[ApiError] = []
        self.expired: list[int] = []
        self.woken = 0
        self.clock = SimClock()
        self.delivery = PartitionDelivery(
            self.partition,  # type: ignore[arg-type]
            Deadlines(self.clock),
            expired=self.expired.append,
            failed=self.failed.append,
        )
        self.delivery.begin(cursor, self.store)

    def wake(self) -> None:
        self.woken += 1

    def take(self, records_max: int = 100, seconds: float | None = None) -> list[int]:
        look = self.delivery.look(1 << 20, records_max, read_committed=False, at_least_one=True)
        if look is None:
            return []
        assert isinstance(look.found, ReadResult)
        taken = self.delivery.take(look, look.found, Asked("a", records_max, True, seconds))
        return [at for run in taken.acquired for at in range(run.first, run.last + 1)]


def test_nothing_above_the_high_watermark_is_delivered_and_who_waits_is_woken_by_it() -> None:
    place = Place(Cursor(0))
    assert place.take() == [0, 1, 2, 3, 4]
    assert place.take() == []
    place.delivery.watch(place.wake)
    place.partition.commit(7)
    assert (place.woken, place.take()) == (1, [5, 6])
    place.delivery.unwatch(place.wake)
    assert place.partition.watchers == 0, "who is not waited for costs an append nothing"


def test_nothing_is_delivered_before_it_is_kept_that_it_may_be() -> None:
    place = Place(Cursor(0, ahead=4))
    assert place.take() == []
    place.delivery.watch(place.wake)
    assert [change.handed_out for change, _ in place.store.asked] == [4]
    place.store.answer()
    assert (place.woken, place.take(3)) == (1, [0, 1, 2])
    assert [change.handed_out for change, _ in place.store.asked] == [7]
    assert place.take() == [3]


def test_a_change_that_is_not_kept_is_told_and_after_the_stop_nothing_is_delivered() -> None:
    place = Place(Cursor(0, ahead=4))
    place.store.answer(ApiError(ErrorCode.NOT_COORDINATOR))
    assert [error.code for error in place.failed] == [ErrorCode.NOT_COORDINATOR]
    place.delivery.stop(place.failed[0])
    answers: list[ApiError | None] = []
    place.delivery.changed(answers.append)
    assert (answers, place.take()) == ([place.failed[0]], [])
