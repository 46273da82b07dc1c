"""`Thinning`: delete middle segments of a log, behind older segments that must stay.

For queues: all messages in such a segment are acknowledged, while older ones are not. The log then
has an offset gap, as after compaction, which a start must not take for a loss. So before a file is
deleted, the log's flushed offset and the offset below which gaps are allowed (`recovery.gaps`) are
durable; above both, a start after a crash checks batch by batch.

A segment stays if a transaction was open at its start (its snapshot tells): the records before need
the abort or commit marker behind. A segment also stays if no snapshot follows it, as its batches
are then the only record of their producers.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from headrace.log import file_names
from headrace.log.log import Log
from headrace.log.producers.producer_snapshot import SnapshotEntry, read_snapshot
from headrace.log.segment.segment import Segment
from headrace.log.text_files import read_file
from headrace.model.errors import CorruptLogError, StorageError
from headrace.model.nouns import Offset

if TYPE_CHECKING:
    from headrace.log.directory.directory_parts import DirectoryParts
    from headrace.ports.disk import Disk

Choose = Callable[[Log], list[Segment]]
"""Returns the middle segments that may be deleted; called again after the checkpoints."""


class Thinning:
    """The deletion of middle segments in one directory's logs. For the deciding thread."""

    __slots__ = ("_busy", "_checkpoint", "_parts", "_stay")

    def __init__(
        self, parts: "DirectoryParts", checkpoint: Callable[[Callable[[bool], None]], None]
    ) -> None:
        """Make the thinning of a directory; `checkpoint(done)` writes the recovery points."""
        self._parts = parts
        self._checkpoint = checkpoint
        self._busy: dict[Log, Choose | None] = {}
        """Logs with a deletion in progress, and the request that came since, or None."""
        self._stay: WeakKeyDictionary[Log, set[Offset]] = WeakKeyDictionary()
        """Base offsets of segments that must stay as a record of producers."""

    def thin(self, log: Log, choose: Choose) -> None:
        """Delete the segments that `choose` returns, after a deletion in progress for this log."""
        if log in self._busy:
            self._busy[log] = choose
            return
        chosen = self._movable(log, choose)
        if not chosen:
            return
        self._busy[log] = None
        parts, limit_of = self._parts, log.segments.limit_of
        end = log.end_offset
        bounds = [(segment.base_offset, limit_of(segment, end)) for segment in chosen]

        def looked(result: set[Offset] | BaseException) -> None:
            if isinstance(result, BaseException):
                self._failed(log, result, log.directory)
                return
            self._stay.setdefault(log, set()).update(result)
            if len(result) == len(bounds):
                self._end(log)
            else:
                self._checkpoint(checkpointed)

        def checkpointed(is_written: bool) -> None:
            if is_written:
                self._allow_gaps(log)
                parts.gaps.write_soon(noted)
            else:
                self._end(log)

        def noted(error: OSError | None) -> None:
            if error is not None:
                self._failed(log, error, parts.path)
                return
            gone = [segment for segment in self._movable(log, choose) if segment in chosen]
            if gone:
                from headrace.log.retention import delete_between

                with suppress(StorageError):  # the directory is fenced and has logged it
                    delete_between(log, gone)
            self._end(log)

        parts.disk.run(lambda: _needed(parts.disk, log.directory, bounds), looked)

    def _end(self, log: Log) -> None:
        """End a deletion and begin the one requested meanwhile."""
        asked = self._busy.pop(log)
        if asked is not None:
            self.thin(log, asked)

    def _failed(self, log: Log, error: BaseException, path: str) -> None:
        del self._busy[log]
        if not isinstance(error, OSError):
            raise error
        self._parts.context.fail(error, path)

    def _movable(self, log: Log, choose: Choose) -> list[Segment]:
        """Return the chosen segments that are flushed; a start accepts no gap above the flushed
        offset."""
        if log.closed or log.cutting or self._parts.fenced:
            return []
        stay = self._stay.get(log, ())
        limit_of, end = log.segments.limit_of, log.end_offset
        return [
            segment
            for segment in choose(log)
            if segment.base_offset not in stay and limit_of(segment, end) <= log.flushed_offset
        ]

    def _allow_gaps(self, log: Log) -> None:
        """Allow gaps in the log up to its active segment.

        The offset always increases, as an older list of unchanged logs (`AtRest`) is then no proof
        that a segment is lost (`gaps.check_whole`).
        """
        gaps, place = self._parts.gaps, log.topic_partition
        gaps.allow(place, Offset(max(log.segments.active.base_offset, gaps.below(place) + 1)))


def _needed(disk: "Disk", directory: str, bounds: Iterable[tuple[Offset, Offset]]) -> set[Offset]:
    """Return the base offsets of segments that must stay, of those in `bounds`. Blocking.
    Raises OSError."""

    def producers(offset: Offset) -> list[SnapshotEntry] | None:
        path = f"{directory}/{file_names.segment_file(offset, file_names.SNAPSHOT)}"
        content = read_file(disk, path)
        try:
            return None if content is None else read_snapshot(content, path)
        except CorruptLogError:
            return None  # the next start logs it and reads the log instead

    found = set()
    for base, end in bounds:
        known = producers(base)
        open_there = known is None or any(entry.current_txn_first_offset >= 0 for entry in known)
        if open_there or producers(end) is None:
            found.add(base)
    return found
