"""`Scrub`: read all batches of a log directory periodically to find damage before clients do.

Reads check every batch, but batches that no client reads could rot unnoticed until the other
replica's copy is lost. So each period every batch of every log is read once, in pieces, on a
thread, at a limited rate (`log.scrub.bytes.per.second`). Pages that were not cached before are
dropped again, so the scrub evicts nothing. Cached pages are checked in memory; their disk blocks
are checked in a later round, once they have left the cache.

A bad batch is read again from the disk before it is counted and logged, once, with file, position
and offsets (`ReportedDamage`). Nothing is moved, truncated or taken out of service: reads of the
damaged batch fail with KAFKA_STORAGE_ERROR, other batches are served, and the partition accepts
records (ADR 8).
"""

import logging
from typing import TYPE_CHECKING

from headrace.log import file_names
from headrace.log.directory.directory_parts import DirectoryParts
from headrace.log.log import Log
from headrace.log.segment.scan import BadBatch
from headrace.log.segment.segment import Segment
from headrace.model.nouns import Offset, TopicPartition
from headrace.ports.disk import DiskFile

if TYPE_CHECKING:
    from headrace.ports.clock import Timer

_logger = logging.getLogger(__name__)
FIRST_ROUND_MS = 60_000
"""Delay of the first round in milliseconds: other work needs the disk after a start."""


class Scrub:
    """The scrub of one log directory. For the deciding thread; reads run on others."""

    __slots__ = ("_at", "_directory", "_round_began", "_stopped", "_timer", "_waiting", "scrubbed")

    def __init__(self, directory: DirectoryParts) -> None:
        """Make the scrub; `start` begins it."""
        self._directory = directory
        self._waiting: list[tuple[TopicPartition, Offset]] = []
        self._at: _Piece | None = None
        self._round_began = 0.0
        self._timer: Timer | None = None
        self._stopped = True
        self.scrubbed = 0
        """Bytes checked since the start, for metrics."""

    def start(self) -> None:
        """Begin the first round in a minute, if log.scrub.bytes.per.second is above 0."""
        self._stopped = False
        periods = self._directory.periods
        if periods.scrub_bytes_per_second > 0:
            self._later(min(FIRST_ROUND_MS, periods.scrub_interval_ms) / 1000)

    def stop(self) -> None:
        """Stop the scrub; the result of a running read is ignored."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _later(self, seconds: float) -> None:
        if not self._stopped and not self._directory.fenced:
            self._timer = self._directory.clock.call_later(seconds, self._next)

    # --- one round after the other -------------------------------------------------------------

    def _next(self) -> None:
        piece = self._piece()
        if piece is None:
            self._begin_round()
            return
        before = piece.sweep.found.position
        disk = self._directory.disk

        def read(result: "BadBatch | BaseException | None") -> None:
            if self._stopped:
                return
            if isinstance(result, FileNotFoundError):
                self._at = None  # retention or compaction deleted the file first
            elif isinstance(result, OSError):
                self._directory.context.fail(result, piece.path)
                return
            elif isinstance(result, BadBatch):
                self._found_bad(piece, result)
            elif result is not None:
                raise result
            done = max(piece.sweep.found.position - before, 0)
            self.scrubbed += done
            rate = self._directory.periods.scrub_bytes_per_second
            self._later(max(done, 1) / max(rate, 1))

        disk.run(lambda: _read(self._directory, piece), read)

    def _begin_round(self) -> None:
        """List all segments, beginning at a random log, so that frequent restarts reach all of
        them."""
        directory = self._directory
        now = directory.clock.monotonic()
        periods = directory.periods
        rest = self._round_began + periods.scrub_interval_ms / 1000 - now
        if self._round_began and rest > 0:
            self._later(rest)
            return
        self._round_began = now
        places = sorted(directory.logs)
        middle = int(directory.random.uniform(0, len(places)))
        listed = (*places[middle:], *places[:middle])
        self._waiting = [
            (place, segment.base_offset)
            for place in reversed(listed)
            for segment in reversed(directory.logs[place].segments)
            if segment.size
        ]
        self._later(0 if self._waiting else periods.scrub_interval_ms / 1000)

    def _piece(self) -> "_Piece | None":
        """Return the segment to read next: the current one, or the next that still exists."""
        at = self._at
        if at is not None and not at.done and at.still_there:
            return at
        self._at = None
        while self._waiting:
            place, base = self._waiting.pop()
            log = self._directory.logs.get(place)
            if log is None or log.closed:
                continue
            for number, segment in enumerate(log.segments):
                if segment.base_offset == base and segment.size:
                    self._at = _Piece.of(log, number)
                    return self._at
        return None

    def _found_bad(self, piece: "_Piece", bad: BadBatch) -> None:
        if not piece.still_there:
            self._at = None  # swapped, deleted or truncated while it was read
            return
        piece.segment.sound.lost(0, piece.segment.size)
        found = piece.sweep.found
        behind = "" if piece.resume is None else f", valid batches from byte {piece.resume} on"
        piece.log.damage.unreadable(
            BadBatch(bad.path, bad.position, f"{bad.reason} (offset {found.end}{behind})")
        )
        if piece.resume is None:
            self._at = None
        else:
            self._at = _Piece.of(piece.log, piece.log.segments.index(piece.segment), piece)


class _Piece:
    """A segment that is being scrubbed: made on the deciding thread, read on another."""

    __slots__ = (
        "_truncations", "done", "limit", "log", "path", "resume", "segment", "size", "sweep",
    )  # fmt: skip

    def __init__(self, log: Log, segment: Segment, limit: int, position: int, end: Offset) -> None:
        self.log = log
        self.segment = segment
        self.path = segment.path(file_names.LOG)
        self.size = segment.size
        self.limit = limit
        self._truncations = log.truncations
        from headrace.log.segment.check_segment import Sweep  # with the first segment of a round

        self.sweep = Sweep(segment, end, limit, position=position)
        self.resume: int | None = None
        """Byte position of the first valid batch behind a bad one; None if not found."""
        self.done = False

    @property
    def still_there(self) -> bool:
        """Whether the segment is the log's, and all of its bytes are those of the beginning.

        A follower may truncate its log and append other batches meanwhile.
        """
        log = self.log
        return (
            not log.closed and self.segment in log.segments and log.truncations == self._truncations
        )

    @classmethod
    def of(cls, log: Log, number: int, after: "_Piece | None" = None) -> "_Piece":
        """Return the segment at index `number`, from its start or from where `after` can resume."""
        segment = log.segments[number]
        following = log.segments[number + 1 : number + 2]
        limit = following[0].base_offset if following else int(log.end_offset)
        if after is None or after.resume is None:
            return cls(log, segment, limit, 0, segment.base_offset)
        return cls(log, segment, limit, after.resume, after.sweep.found.end)


def _read(directory: DirectoryParts, piece: _Piece) -> BadBatch | None:
    """Check the next batches on a thread; return the bad batch that stopped it. Raises OSError."""
    from headrace.log.segment.check_segment import Sweep, sound_batch_behind

    file = directory.disk.open(piece.path, writable=False)
    try:
        polite = _Polite(file)
        sweep = piece.sweep
        piece.done = not sweep.step(polite.read, piece.size)
        bad = sweep.found.bad
        if bad is None:
            return None
        # Read again from the disk: the error may have been in memory, or the file was changing.
        file.forget(0, piece.size)
        again = Sweep(piece.segment, sweep.found.end, piece.limit, position=bad.position)
        again.step(polite.read, piece.size)
        if again.found.bad is None or again.found.bad.position > bad.position:
            _logger.warning(
                "%s; a second read from the disk is valid: test the machine's memory", bad
            )
            piece.sweep, piece.done = again, again.found.position >= piece.size
            again.found.bad = None
            return None
        piece.resume = sound_batch_behind(
            polite.read, piece.size, bad.position + 1, piece.segment.base_offset, sweep.found.end
        )
        return bad
    finally:
        file.close()


class _Polite:
    """Reads that do not add pages to the page cache."""

    __slots__ = ("_file",)

    def __init__(self, file: DiskFile) -> None:
        self._file = file

    def read(self, position: int, size: int) -> bytes:
        cached = self._file.read_cached(position, size)
        if cached is not None:
            return bytes(cached)
        data = self._file.read(position, size)
        self._file.forget(position, size)
        return data
