"""`HeldLog`: the internal log of held messages: append, read, settle, load.

Messages that come in one turn are one batch. All calls but `load` are made on the deciding thread
and call back; what is answered is on disk and on all in-sync replicas.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from headrace.delivery.batches import stretches
from headrace.held.held_records import (
    Attempts,
    HeldAt,
    HeldMessage,
    HeldPlace,
    SettledOffset,
    StoredMessage,
    Targets,
    attempts_record,
    decode_message,
    decode_state,
    message_record,
    new_key,
    settled_records,
)
from headrace.held.offset_set import OffsetSet
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import Offset
from headrace.ports.callbacks import ignore_result
from headrace.posix.awaiting import called_back
from headrace.record.batch import build, records

if TYPE_CHECKING:
    from headrace.broker.appended import Appended
    from headrace.broker.partition import Partition
    from headrace.log.log import Log
    from headrace.ports.callbacks import Done
    from headrace.ports.clock import Clock, Random
    from headrace.ports.disk import Disk
    from headrace.record.record import Record

BATCH_BYTES_MAX = 512 * 1024
"""Bytes of messages in one batch, unless one message has more."""
SLICE_BYTES = 256 * 1024
"""Bytes that one read of the log returns, but for a larger batch."""
READ_BYTES = 16 * 1024
"""Bytes that the read of a message returns, but for a larger batch."""
READ_BYTES_MAX = 8 * 1024 * 1024
"""Bytes of the messages of one read, but for the first; the rest is left unread."""
_RECORD_BYTES = 128
"""Bytes of a record beside body and headers."""


T = TypeVar("T")


class HeldRead(NamedTuple, Generic[T]):
    """The messages of a read, by offset."""

    found: dict[int, StoredMessage[T]]
    unread: list[int]
    """Offsets that were not read, for the read has enough bytes."""


class HeldState(NamedTuple):
    """The state of a log when it was loaded."""

    settled: OffsetSet
    """Offsets of settled messages that are still in the log."""
    attempts: dict[int, int]
    """Attempts on messages that are not settled, by offset; those without attempts are not here."""


class _Waiting(NamedTuple):
    """A message that is appended at the end of the turn."""

    record: "Record"
    time_ms: int
    size: int
    done: "Done[int | ApiError]"
    appended: "Done[int]"


class HeldLog(Generic[T]):
    """The messages of one internal partition, which this broker leads."""

    def __init__(
        self,
        partition: "Partition",
        disk: "Disk",
        clock: "Clock",
        random: "Random",
        targets: Targets[T],
    ) -> None:
        self._partition = partition
        self._disk = disk
        self._clock = clock
        self._random = random
        self._targets = targets
        self._waiting: list[_Waiting] = []
        self._held: Callable[[int, int], None] | None = None
        """Gets the offset and the time of each message in the log; None: it is not loaded."""
        self._read_below = 0
        """The offset below which `load` reads the messages."""

    # Append

    def append(
        self,
        message: HeldMessage[T],
        time_ms: int,
        done: "Done[int | ApiError]",
        appended: "Done[int]" = ignore_result,
    ) -> None:
        """Append a message with its time, ms since 1970.

        `done` is called once, with the message's offset when it is stored, or with why it is not;
        `appended` before, with the offset, when it is appended and not flushed yet.
        """
        key = new_key(time_ms, self._random.uuid())
        size = len(message.body) + _RECORD_BYTES
        size += sum(len(name) + len(value or b"") for name, value in message.headers)
        record = message_record(key, message, self._targets, self._clock.wall_ms())
        if not self._waiting:
            self._clock.call_later(0, self._write)
        self._waiting.append(_Waiting(record, time_ms, size, done, appended))

    def _write(self) -> None:
        waiting, self._waiting = self._waiting, []
        some: list[_Waiting] = []
        size = 0
        for each in waiting:
            if some and size + each.size > BATCH_BYTES_MAX:
                self._write_batch(some)
                some, size = [], 0
            some.append(each)
            size += each.size
        self._write_batch(some)

    def _write_batch(self, waiting: list[_Waiting]) -> None:
        content = build([each.record for each in waiting])
        try:
            self._check_room()
            appended = self._partition.append_internal(content, now_ms=self._clock.wall_ms())
        except ApiError as error:
            _refuse(waiting, error)
            return
        for offset, each in enumerate(waiting, int(appended.base_offset)):
            each.appended(offset)
        self._partition.when_committed(
            appended.commit_offset, partial(self._committed, waiting, appended)
        )

    def _committed(
        self, waiting: list[_Waiting], appended: "Appended", error: ApiError | None
    ) -> None:
        if error is not None:
            _refuse(waiting, error)
            return
        for offset, each in enumerate(waiting, int(appended.base_offset)):
            if self._held is not None and offset >= self._read_below:
                self._held(offset, each.time_ms)
            each.done(offset)

    def _check_room(self) -> None:
        """Raise ApiError while the disk is too full for records of clients; settling goes on."""
        low = self._partition.log.context.low
        if low:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, low)

    # Settle

    def settle(
        self,
        places: Sequence[HeldPlace],
        done: "Done[ApiError | None]",
        counted: Callable[[int], bool] = lambda offset: False,
    ) -> None:
        """Settle messages, at least one; `counted`: whether attempts on an offset were counted."""
        now_ms = self._clock.wall_ms()
        self._append_own(
            [record for place in places for record in
             settled_records(place, counted(place.offset), now_ms)],
            done,
        )  # fmt: skip

    def count(self, place: HeldPlace, count: int, done: "Done[ApiError | None]") -> None:
        """Store the number of attempts on a message."""
        self._append_own([attempts_record(place, count, self._clock.wall_ms())], done)

    def _append_own(self, content: "list[Record]", done: "Done[ApiError | None]") -> None:
        try:
            appended = self._partition.append_internal(build(content), now_ms=self._clock.wall_ms())
        except ApiError as error:
            done(error)
            return
        self._partition.when_committed(appended.commit_offset, done)

    # Read

    def read(self, offsets: Sequence[int], done: "Done[HeldRead[T] | BaseException]") -> None:
        """Read messages by their offsets; those that are not in the log are not in the result.

        After `READ_BYTES_MAX` bytes the rest is left unread, from the end of `offsets`.
        """
        log, below = self._partition.log, self._partition.high_watermark
        self._disk.run(partial(_read, log, self._targets, offsets, below), done)

    async def load(self, held: Callable[[int, int], None]) -> HeldState:
        """Read the log; `held` is called with the offset and the time of each message in it.

        Settled messages are among them until compaction has removed them. From now on it is called
        with messages that are committed, too, before their `done`. ApiError: the log is not led
        here. HeadraceError: it cannot be read.
        """
        partition = self._partition
        log, end = partition.log, partition.log.end_offset
        self._held, self._read_below = held, end
        state = HeldState(OffsetSet(), {})
        await called_back(partial(_when_committed, partition, end))
        at: int = log.start_offset
        while at < end:
            at, found = await called_back(partial(self._disk.run, partial(_slice, log, at, end)))
            for each in found:
                if isinstance(each, HeldAt):
                    held(each.offset, each.time_ms)
                elif isinstance(each, SettledOffset):
                    state.settled.add(each.offset)
                    state.attempts.pop(each.offset, None)
                else:
                    state.attempts[each.offset] = each.times
        return state


def _when_committed(partition: "Partition", end: Offset, done: "Done[ApiError | None]") -> None:
    partition.when_committed(end, done)


def _refuse(waiting: list[_Waiting], error: ApiError) -> None:
    for each in waiting:
        each.done(error)


# On any thread


def _read(log: "Log", targets: Targets[T], offsets: Sequence[int], below: Offset) -> HeldRead[T]:
    """Read messages; their order decides which of them are left unread."""
    wanted = frozenset(offsets)
    found: dict[int, StoredMessage[T]] = {}
    size = 0
    for at, offset in enumerate(offsets):
        if offset in found or not log.start_offset <= offset < below:
            continue
        if found and size >= READ_BYTES_MAX:
            return HeldRead(found, [each for each in offsets[at:] if each not in found])
        data = log.read_from_disk(Offset(offset), READ_BYTES, below=below).data
        view = memoryview(data)
        for stretch in stretches(data, offset):
            if stretch.wanted:
                for record in records(view[stretch.begin : stretch.end]):
                    if record.offset in wanted and record.offset not in found:
                        stored = decode_message(record, targets)
                        if stored is not None:
                            found[record.offset] = stored
                            size += len(stored.message.body)
    return HeldRead(found, [])


def _slice(log: "Log", at: int, end: int) -> "tuple[int, list[HeldAt | SettledOffset | Attempts]]":
    """Return what some batches from offset `at` on say of messages, and the offset behind them."""
    if at < log.start_offset:
        return log.start_offset, []
    read = log.read_from_disk(Offset(at), SLICE_BYTES, below=Offset(end))
    view = memoryview(read.data)
    found: list[HeldAt | SettledOffset | Attempts] = []
    following = at
    for stretch in stretches(read.data, at):
        following = stretch.last + 1
        if stretch.wanted:
            for record in records(view[stretch.begin : stretch.end]):
                state = decode_state(record)
                if state is not None:
                    found.append(state)
    # Without a batch below the end, compaction has removed what was there.
    return (following if following > at else end), found
