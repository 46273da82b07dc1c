"""Replay: a partition's log becomes a shard's state, slice by slice, off the hot path.

What the page cache holds is read at once and a slice's records are taken in one go; then it is
the next replay's turn (`replay_turns`). What must come from the disk is read on a thread. Where a
record says all there is to its key, the last one of each key is applied, when all are read: by one
replay after the other, for each has a list as long as its state then, and the garbage collector
goes through all young lists in one go.
"""

from collections.abc import Iterator
from functools import partial
from itertools import islice
from typing import Protocol

from headrace.coordination.runtime.latest_records import Kept, Latest
from headrace.coordination.runtime.replay_turns import ReplayTurns
from headrace.log.segment.batch_reader import NeedsDisk, ReadResult
from headrace.model.errors import CorruptLogError, HeadraceError, StorageError
from headrace.model.nouns import Offset
from headrace.ports.callbacks import Done
from headrace.ports.disk import Disk
from headrace.record.batch import (
    CONTROL,
    TRANSACTIONAL,
    BatchHeader,
    ControlType,
    crc_ok,
    iterate,
    parse_control,
    records,
    size_of,
)

SLICE_BYTES = 32 * 1024
"""A few milliseconds of reading."""
SLICE_RECORDS = 250
"""A few milliseconds of applying what was kept."""


class LoadLog(Protocol):
    """What a loader asks of `log.log.Log`."""

    @property
    def start_offset(self) -> Offset: ...

    @property
    def end_offset(self) -> Offset: ...

    def read(self, offset: Offset, max_bytes: int, *, below: Offset) -> ReadResult | NeedsDisk: ...

    def read_from_disk(self, offset: Offset, max_bytes: int, *, below: Offset) -> ReadResult: ...


class Replayed(Protocol):
    """Who is told what the log says."""

    def replay(
        self, log_offset: int, producer_id: int | None, key: bytes | None, value: bytes | None
    ) -> None: ...

    def replay_end(self, producer_id: int, *, committed: bool) -> None: ...


class Loader:
    """One replay. `done(None)` at the end of the log, `done(error)` where it cannot be read."""

    def __init__(
        self,
        log: LoadLog,
        target: Replayed,
        *,
        turns: ReplayTurns,
        disk: Disk,
        keyed: bool,
        done: Done[HeadraceError | None],
    ) -> None:
        """`keyed`: a record supersedes those before it with its key, and `target` is told only
        the last ones.
        """
        self._log = log
        self._target = target
        self._latest = Latest() if keyed else None
        self._turns = turns
        self._disk = disk
        self._done = done
        self._at = log.start_offset
        self._end = log.end_offset
        self._cancelled = False

    def start(self) -> None:
        """Begin; an empty log is done before this returns."""
        if self._at >= self._end:
            self._done(None)
        else:
            self._turns.ask(self._go_on)

    def cancel(self) -> None:
        """Apply nothing more and call nobody."""
        self._cancelled = True

    def _go_on(self) -> None:
        if self._cancelled:
            return
        try:
            result = self._log.read(self._at, SLICE_BYTES, below=self._end)
        except HeadraceError as error:
            self._done(error)
            return
        if isinstance(result, NeedsDisk):
            at, end = self._at, self._end
            self._disk.run(
                lambda: self._log.read_from_disk(at, SLICE_BYTES, below=end), self._have_read
            )
        else:
            self._take(result)

    def _have_read(self, result: ReadResult | BaseException) -> None:
        if self._cancelled:
            return
        if isinstance(result, HeadraceError):
            self._done(result)
        elif isinstance(result, OSError):
            self._done(StorageError(str(result)))
        elif isinstance(result, BaseException):
            raise result
        else:
            self._turns.ask(partial(self._take, result))

    def _take(self, result: ReadResult) -> None:
        if self._cancelled:
            return
        view = memoryview(result.data)
        try:
            for at, header in iterate(view):
                self._apply(view[at : at + size_of(header)], header)
        except HeadraceError as error:
            self._done(error)
            return
        # Compaction may have left nothing between here and the log's end.
        has_all = result.next_offset <= self._at or result.next_offset >= self._end
        self._at = result.next_offset
        self._turns.ask(self._have_all if has_all else self._go_on)

    def _have_all(self) -> None:
        if self._cancelled:
            return
        if self._latest is None:
            self._done(None)
        else:
            kept = iter(self._latest.records())
            self._turns.go_on(lambda: self._hand_over(kept))

    def _hand_over(self, kept: Iterator[Kept]) -> None:
        if self._cancelled:
            return
        some = list(islice(kept, SLICE_RECORDS))
        for record in some:
            self._target.replay(*record)
        if some:
            self._turns.go_on(lambda: self._hand_over(kept))
        else:
            self._done(None)

    def _apply(self, batch: memoryview, header: BatchHeader) -> None:
        if not crc_ok(batch, header):
            raise CorruptLogError(f"batch at offset {header.base_offset}: checksum does not match")
        if header.attributes & CONTROL:
            self._apply_marker(batch, header)
            return
        transactional = header.attributes & TRANSACTIONAL
        producer_id = header.producer_id if transactional else None
        reader = self._latest or self._target
        for record in records(batch):
            reader.replay(record.offset, producer_id, record.key, record.value)

    def _apply_marker(self, batch: memoryview, header: BatchHeader) -> None:
        for record in records(batch):
            kind = parse_control(record).type
            if kind in (ControlType.COMMIT, ControlType.ABORT):
                committed = kind is ControlType.COMMIT
                (self._latest or self._target).replay_end(header.producer_id, committed=committed)
