"""`Loader`: replays a partition's log into a shard, in slices between which the broker serves.

Data in the page cache is read and applied one slice at a time, and then another replay has its turn
(`replay_turns`). Data on the disk is read on a thread. If each record supersedes the earlier ones
of its key, only the last record of each key is applied, after the whole log is read. Replays apply
these one after the other: each has a list as long as the state, and the garbage collector visits
all young lists in one pass.
"""

from collections.abc import Iterator
from functools import partial
from itertools import islice
from typing import Protocol

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
from headrace.shards.latest_records import Kept, Latest
from headrace.shards.replay_turns import ReplayTurns

SLICE_BYTES = 32 * 1024
"""Bytes read in one slice: a few milliseconds."""
SLICE_RECORDS = 250
"""Kept records applied in one slice: a few milliseconds."""


class LoadLog(Protocol):
    """The methods of `log.log.Log` that a loader calls."""

    @property
    def start_offset(self) -> Offset: ...

    @property
    def end_offset(self) -> Offset: ...

    def read(self, offset: Offset, max_bytes: int, *, below: Offset) -> ReadResult | NeedsDisk: ...

    def read_from_disk(self, offset: Offset, max_bytes: int, *, below: Offset) -> ReadResult: ...


class Replayed(Protocol):
    """Receives the records and transaction markers of a replayed log, in order."""

    def replay(
        self, log_offset: int, producer_id: int | None, key: bytes | None, value: bytes | None
    ) -> None: ...

    def replay_end(self, producer_id: int, *, committed: bool) -> None: ...


class Loader:
    """The replay of a log. `done(None)` at its end, `done(error)` if it cannot be read."""

    def __init__(
        self,
        log: LoadLog,
        target: Replayed,
        *,
        turns: ReplayTurns,
        disk: Disk,
        keyed: bool,
        done: Done[HeadraceError | None],
        start: Offset | None = None,
    ) -> None:
        """Create a replay of `log` into `target`, up to the log's present end offset. `keyed`: pass
        only the last record of each key to `target`. `start`: the offset to begin at; None: the
        log's first. Records of the batch with that offset may come again."""
        self._log = log
        self._target = target
        self._latest = Latest() if keyed else None
        self._turns = turns
        self._disk = disk
        self._done = done
        self._at = max(log.start_offset, log.start_offset if start is None else start)
        self._end = log.end_offset
        self._cancelled = False

    def start(self) -> None:
        """Begin the replay; for an empty log `done` is called before this returns."""
        if self._at >= self._end:
            self._done(None)
        else:
            self._turns.ask(self._go_on)

    def cancel(self) -> None:
        """End the replay without calling `target` or `done` again."""
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
        # No progress: compaction left no batch between this offset and the log's end.
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
