"""Segments that go from between others: of a queue's log what is settled behind what is not.

What is left has gaps, as compaction leaves them, and a start must not take those for losses. So,
before any file goes, it is durable how far the log was flushed (what lies above is read batch by
batch after a crash), and below which offset it may have gaps (`recovery.gaps`).

A segment stays at whose start a transaction was under way: records before it need the marker in it,
or somewhere behind it. The producers' snapshot of that offset tells. And one stays behind which
there is no snapshot: its batches alone tell of their producers.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from headrace.log import file_names
from headrace.log.log import Log
from headrace.log.producers.producer_snapshot import SnapshotEntry, read_snapshot
from headrace.log.retention import delete_between
from headrace.log.segment.segment import Segment
from headrace.log.text_files import read_file
from headrace.model.errors import CorruptLogError, StorageError
from headrace.model.nouns import Offset

if TYPE_CHECKING:
    from headrace.log.directory.directory_parts import DirectoryParts
    from headrace.ports.disk import Disk

Choose = Callable[[Log], list[Segment]]
"""Says which segments between others may go: asked again once all is durable that must be."""


class Thinning:
    """Takes segments out of the logs of one directory. On the deciding thread."""

    __slots__ = ("_busy", "_checkpoint", "_parts", "_stay")

    def __init__(
        self, parts: "DirectoryParts", checkpoint: Callable[[Callable[[bool], None]], None]
    ) -> None:
        """`checkpoint`: has the recovery points written, and tells whether they were."""
        self._parts = parts
        self._checkpoint = checkpoint
        self._busy: dict[Log, Choose | None] = {}
        """Logs of which segments are on their way, and what was asked of them since."""
        self._stay: WeakKeyDictionary[Log, set[Offset]] = WeakKeyDictionary()
        """Where segments begin that are needed for what they tell of producers."""

    def thin(self, log: Log, choose: Choose) -> None:
        """Have segments go that `choose` names, after those of this log that are on their way."""
        if log in self._busy:
            self._busy[log] = choose
            return
        chosen = self._movable(log, choose)
        if not chosen:
            return
        self._busy[log] = None
        parts, limit_of = self._parts, log.segments.limit_of
        bounds = [(each.base_offset, limit_of(each, log.end_offset)) for each in chosen]

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
                with suppress(StorageError):  # the directory is fenced, and has said so
                    delete_between(log, gone)
            self._end(log)

        parts.disk.run(lambda: _needed(parts.disk, log.directory, bounds), looked)

    def _end(self, log: Log) -> None:
        """Go on with what was asked meanwhile."""
        asked = self._busy.pop(log)
        if asked is not None:
            self.thin(log, asked)

    def _failed(self, log: Log, error: BaseException, path: str) -> None:
        del self._busy[log]
        if not isinstance(error, OSError):
            raise error
        self._parts.context.fail(error, path)

    def _movable(self, log: Log, choose: Choose) -> list[Segment]:
        """Return those that may go, and are on the disk: a start believes no gap above that."""
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
        """Allow the log gaps, up to its active segment.

        Further than before in any case: what was written down of the log's segments before is no
        witness that one is missing (`gaps.check_whole`).
        """
        gaps, place = self._parts.gaps, log.topic_partition
        gaps.allow(place, Offset(max(log.segments.active.base_offset, gaps.below(place) + 1)))


def _needed(disk: "Disk", directory: str, bounds: Iterable[tuple[Offset, Offset]]) -> set[Offset]:
    """Return which of these segments stay, by where they begin. Blocking; OSError."""

    def producers(offset: Offset) -> list[SnapshotEntry] | None:
        path = f"{directory}/{file_names.segment_file(offset, file_names.SNAPSHOT)}"
        content = read_file(disk, path)
        try:
            return None if content is None else read_snapshot(content, path)
        except CorruptLogError:
            return None  # the next start says so, and reads the log for it

    found = set()
    for base, end in bounds:
        known = producers(base)
        open_there = known is None or any(entry.current_txn_first_offset >= 0 for entry in known)
        if open_there or producers(end) is None:
            found.add(base)
    return found
