"""Reading a queue's committed, unsettled messages back from its partition."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from headrace.log.segment.batch_reader import NeedsDisk, ReadResult
from headrace.model.errors import ApiError, ErrorCode, HeadraceError
from headrace.model.nouns import Offset
from headrace.queue_stores.queue_settings import TtlAt
from headrace.queue_stores.record_messages import Found, messages_in, takes_long

if TYPE_CHECKING:
    from headrace.broker.partition import Partition
    from headrace.ports.clock import Clock
    from headrace.ports.disk import Disk

READ_BYTES = 256 * 1024
"""Bytes of the log that one read returns at most."""


class Read(NamedTuple):
    """The unsettled messages that one read of a queue's log returned."""

    found: Found
    following: int
    """Position at which the next read begins."""


class LeftOut(Protocol):
    """The settled positions of a log, which reads skip. On any thread.

    Implemented by `settlement.Settlement`.
    """

    @property
    def was_settled(self) -> Callable[[int], bool] | None:
        """The test of a position of the log, whether it was settled; None: none was."""

    def unsettled_from(self, position: int) -> int:
        """Return the first position from `position` on that was not settled."""


HaveRead = Callable[[Read | HeadraceError, bool], None]
"""Called with the messages or the error, and whether the call comes later than `read`."""


class MessageReader:
    """Reads messages of one partition, whole batches at a time."""

    def __init__(
        self,
        partition: "Partition",
        disk: "Disk",
        clock: "Clock",
        ttl_ms_at: TtlAt | None,
        settled: LeftOut | None,
    ) -> None:
        """Create a reader of one partition.

        `ttl_ms_at`: the queue's, called on any thread; None: without a TTL. `settled` are the
        positions to skip; None: skip none.
        """
        self._partition = partition
        self._disk = disk
        self._clock = clock
        self._ttl_ms_at = ttl_ms_at
        self._settled = settled

    def read(self, at: int, below: int, done: HaveRead) -> None:
        """Read up to READ_BYTES of messages from offset `at` to below `below`, a committed offset.

        `done` is called with them, perhaps at once. Data that is not in the page cache, or slow to
        decode, is read on a thread.
        """
        log, disk = self._partition.log, self._disk
        if self._settled is not None:
            # Skip settled positions first: there may be very many below the next unsettled one.
            at = self._settled.unsettled_from(at)
            if at >= below:
                done(Read(Found([], [], [], []), below), False)
                return
        try:
            result = log.read(Offset(at), READ_BYTES, below=Offset(below))
        except ApiError as error:
            done(error, False)
            return
        if not isinstance(result, NeedsDisk) and not takes_long(result.data):
            done(self._decoded(result, at, below), False)
            return

        def from_disk() -> Read:
            found = result
            if isinstance(found, NeedsDisk):
                found = log.read_from_disk(Offset(at), READ_BYTES, below=Offset(below))
            return self._decoded(found, at, below)

        def have_read(read: Read | BaseException) -> None:
            done(read if isinstance(read, Read) else as_error(read), True)

        disk.run(from_disk, have_read)

    def _decoded(self, result: ReadResult, at: int, below: int) -> Read:
        following = min(result.next_offset, below) if result.next_offset > at else below
        aborted = self._partition.log.aborted_transactions(Offset(at), Offset(following))
        found = messages_in(
            result.data,
            at,
            aborted=aborted,
            ttl_ms_at=self._ttl_ms_at,
            arrived_ms=self._clock.wall_ms(),
            is_settled=None if self._settled is None else self._settled.was_settled,
        )
        return Read(found, following)

    def monotonic(self, expiries_ms: Sequence[int | None]) -> list[float | None]:
        """Return wall clock times in ms as monotonic seconds."""
        offset = self._clock.monotonic() - self._clock.wall_ms() / 1000
        return [None if expiry is None else expiry / 1000 + offset for expiry in expiries_ms]


def as_error(problem: BaseException) -> HeadraceError:
    """Return the error of a failed read as a HeadraceError; raise other exceptions."""
    if isinstance(problem, HeadraceError):
        return problem
    if isinstance(problem, OSError):
        return ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(problem))
    raise problem
