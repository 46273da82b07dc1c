"""`DirectoryMove`: copy a replica's log into another log directory and replace it by the copy."""

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Protocol

from headrace.broker.partition import Partition
from headrace.broker.replica.replication_throttles import ReplicationThrottles
from headrace.log.directory.log_directory import LogDirectory
from headrace.log.directory.new_log import NewLog
from headrace.log.follower_append import UnexpectedBatch
from headrace.log.log import Log, ReadResult
from headrace.model.errors import HeadraceError, StorageError
from headrace.model.invariant import InvariantError
from headrace.model.nouns import BrokerId, LeaderEpoch, Offset
from headrace.ports.clock import Clock
from headrace.ports.disk import Disk
from headrace.record.batch import parse_header
from headrace.record.compression import CorruptBatch

if TYPE_CHECKING:
    from headrace.broker.replica.follower import Follower
    from headrace.ports.clock import Timer

_logger = logging.getLogger(__name__)
PIECE_BYTES = 1 << 20
"""Bytes copied at once: read on a thread, appended in one turn, then flushed."""
LOOK_SECONDS = 0.02
"""Seconds until a log under truncation is tried again."""
HOLD_SECONDS_MAX = 10.0
"""Most seconds that appends wait for a move's end: a hanging target disk must not block the log."""
_EPOCH = LeaderEpoch(0)
"""Leader epoch of a copy's role: it follows its original all the time."""


class Holder(Protocol):
    """The part of `broker.Broker` that moves use."""

    clock: Clock
    disk: Disk
    broker_id: BrokerId
    directories: tuple[LogDirectory, ...]
    throttles: ReplicationThrottles
    partitions: dict[tuple[str, int], Partition]
    followed: dict[tuple[str, int], Partition]
    opened: list[Callable[[Partition], None]]
    closed: list[Callable[[Partition], None]]
    follows: list[Callable[[Partition], None]]
    unfollowed: list[Callable[[Partition], None]]

    def partition(self, topic: str, index: int) -> Partition:
        """Return a partition that this broker leads. Raises ApiError."""


class DirectoryMove:
    """The move of a partition's log, listening to the copy's flushes. Deciding thread."""

    def __init__(
        self,
        broker: Holder,
        partition: Partition,
        source: LogDirectory,
        target: LogDirectory,
        has_copy: "Callable[[DirectoryMove], None]",
        over: "Callable[[DirectoryMove], None]",
    ) -> None:
        """Make a move; `has_copy` is called before `copy` may be, `over` at the end."""
        self.key = partition.topic_partition
        self.target = target
        self.ended = False
        self._broker = broker
        self._partition = partition
        self._original = partition.log
        self._source = source
        self._has_copy = has_copy
        self._over = over
        self._throttle = broker.throttles.directories
        self._copy: Partition | None = None
        self._truncations = partition.log.truncations
        self._holding = False
        """Whether appends to the original are refused while the copy gets the rest."""
        self._nearly = False
        """Whether the copy had all records at the last read of the original."""
        self._promoting = False
        """Whether a thread is renaming the copy to the partition's directory."""
        self._busy = False
        """Whether a piece is being read or the copy truncated; the next step follows that."""
        self._timer: Timer | None = None
        self._hold_timer: Timer | None = None

    # --- from its begin to its end -------------------------------------------------------------

    def begin(self) -> None:
        """Create the empty copy of the log in the target directory, then begin to copy."""
        new = NewLog(self.key, self._original.topic_id, self._original.config)
        self.target.futures.begin(new, self._begun)

    def _begun(self, made: Log | BaseException) -> None:
        if not isinstance(made, Log):
            if not self.ended:
                self._give_up(made)
        elif self.ended:
            self.target.futures.drop(made)
        else:
            self.target.futures.hold(made)
            copy = self._copy = Partition(made, flusher=self.target.flusher)
            copy.role.follow(self._broker.broker_id, _EPOCH, unclean=True)
            made.listen(self)
            self._has_copy(self)

    def copy(self) -> None:
        """Start copying the original's records."""
        self._step()

    def call_off(self, why: str) -> None:
        """Cancel the move: remove the copy, the log stays where it is. `why` is logged."""
        if not self.ended:
            _logger.info("%s stays in %s: %s", self.key, self._source.path, why)
            self.stop()
            self._let_go()
            if not self._promoting:  # else rejected when the rename ends
                self._clear()

    def _clear(self) -> None:
        if self._copy is not None:
            self.target.futures.drop(self._copy.log)
        self._over(self)

    def stop(self) -> None:
        """Stop working on the move; the copy stays for the next start."""
        self.ended = True
        self._cancel_timer()
        if self._hold_timer is not None:
            self._hold_timer.cancel()

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def look(self) -> None:
        """Cancel the move if its partition changed its log or is no longer here."""
        if not self.ended and not self._stands:
            self.call_off("the partition has changed")

    def _give_up(self, why: BaseException) -> None:
        if not isinstance(why, HeadraceError | OSError):
            raise why
        _logger.error(
            "%s stays in %s, it cannot be moved to %s: %s",
            self.key, self._source.path, self.target.path, why,
        )  # fmt: skip
        self.call_off("removing its copy")

    def _let_go(self) -> None:
        """Accept appends to the original again."""
        if self._holding and not self._original.closed:
            self._original.cutting = self._holding = False
            self._partition.role.flush()
            for listener in self._original.listeners:
                listener.log_readable()

    @property
    def _stands(self) -> bool:
        """Whether the partition, its log and both directories are as at the move's begin."""
        at = (self.key.topic, self.key.partition)
        held = self._broker.partitions.get(at) or self._broker.followed.get(at)
        partition = self._partition
        return (
            held is partition
            and partition.log is self._original
            and not (partition.role.closed or self._source.fenced or self.target.fenced)
        )

    # --- copying -------------------------------------------------------------------------------

    def _soon(self, seconds: float = 0.0) -> None:
        self._cancel_timer()
        self._timer = self._broker.clock.call_later(seconds, self._step)

    def _step(self) -> None:
        """Do the next step: truncate, copy a piece, flush, stop appends, or replace."""
        self._cancel_timer()
        copy = self._copy
        if self.ended or self._busy or self._promoting or copy is None:
            return
        original = self._original
        if not self._stands:
            self.call_off("the partition has changed")
        elif copy.log.cutting or (original.cutting and not self._holding):
            self._soon(LOOK_SECONDS)
        elif original.truncations != self._truncations:
            self._align(copy)
        elif copy.log.end_offset < original.start_offset and not _is_empty(copy.log):
            self._begin_at(copy, original.start_offset)
        elif copy.log.end_offset < original.end_offset:
            self._read(copy)
        elif copy.log.flushed_offset < copy.log.end_offset:
            copy.role.flush()  # `log_flushed` continues
        elif self._holding:
            self._take_place(copy)
        else:
            self._hold()

    def _read(self, copy: Partition) -> None:
        if self._nearly and not self._holding:
            self._hold()
            return
        throttle, original = self._throttle, self._original
        if throttle.exceeded and not self._holding:
            self._soon(throttle.hold_seconds())
            return
        end = original.end_offset
        offset = max(copy.log.end_offset, original.start_offset)
        size = PIECE_BYTES if self._holding else max(throttle.bytes_max(PIECE_BYTES), 1)
        self._busy = True
        self._source.disk.run(
            partial(original.read_from_disk, offset, size, below=end),
            partial(self._came, copy, end),
        )

    def _came(self, copy: Partition, end: Offset, read: ReadResult | BaseException) -> None:
        """Append a piece read from the original, whose end offset was `end` at that time."""
        self._busy = False
        if self.ended or copy.log.closed or self._original.truncations != self._truncations:
            self._step()
            return
        if isinstance(read, FileNotFoundError):  # compacted or deleted meanwhile: try again
            self._soon(LOOK_SECONDS)
            return
        if isinstance(read, BaseException):
            if copy.log.end_offset < self._original.start_offset:
                self._soon()
            else:
                self._give_up(read)
            return
        data = memoryview(read.data)
        self._nearly = read.next_offset >= end or not data
        begins = self._begins(data, end) if _is_empty(copy.log) else copy.log.end_offset
        if begins != copy.log.end_offset:
            self._begin_at(copy, begins)
            return
        try:
            self._append(copy, data)
            if not data and copy.log.end_offset < end:
                self._end_behind_gap(copy.log, end)
        except OSError as error:
            self._give_up(self.target.context.fail(error, copy.log.directory))
        except (UnexpectedBatch, CorruptBatch, StorageError) as error:
            self._give_up(error)
        else:
            self._step()

    def _begins(self, data: memoryview, end: Offset) -> Offset:
        """Return the copy's start offset: a log cannot begin inside of a batch."""
        start = self._original.start_offset
        return Offset(min(start, parse_header(data).base_offset)) if data else end

    def _append(self, copy: Partition, data: memoryview) -> None:
        now_ms = self._broker.clock.wall_ms()
        _follower(copy).append(data, self._original.high_watermark, now_ms)
        self._throttle.count(len(data))

    def _end_behind_gap(self, log: Log, end: Offset) -> None:
        """Move the copy's end over a final gap of the original, behind its last batch."""
        log.context.events.gap_appended(log, end)
        log.end_offset = end
        if log.segments.active.size:
            log.roll()
        elif log.segments.active.base_offset < end:
            log.new_segment(end)
        self.target.flush_soon(log)

    def log_flushed(self, upto: Offset) -> None:
        """Continue with the move once everything copied is flushed."""
        copy = self._copy
        waits = not (self.ended or self._busy or self._timer)
        if copy is not None and waits and upto >= copy.log.end_offset:
            self._soon()

    def log_readable(self) -> None:
        """Do nothing: only flushes of the copy matter."""

    # --- where the original was cut, or begins later ---------------------------------------------

    def _align(self, copy: Partition) -> None:
        """Truncate from the copy what the original no longer has."""
        original, log = self._original, copy.log
        self._truncations = original.truncations
        self._nearly = False
        epoch, end = original.end_offset_for_epoch(log.epochs.latest)
        if epoch < 0 or _is_empty(log):
            self._begin_at(copy, original.start_offset)
            return
        cut = _follower(copy).offset_to_cut(epoch, end)
        if cut is None or cut >= log.end_offset:
            self._soon()
        else:
            if epoch < log.epochs.latest:  # the next comparison may truncate further
                self._truncations = -1
            self._busy = True
            self.target.truncate_logs([(log, cut)], self._cut, unclean=True)

    def _begin_at(self, copy: Partition, start: Offset) -> None:
        self._busy = True
        self.target.reset_logs([(copy.log, start)], self._cut)

    def _cut(self, result: BaseException | None) -> None:
        self._busy = False
        if self.ended:
            return
        if result is not None:
            self._give_up(result)
        else:
            self._soon()

    # --- taking the original's place -------------------------------------------------------------

    def _hold(self) -> None:
        """Refuse appends to the original, and flushes of it, until the move is over."""
        self._holding = self._original.cutting = True
        self._hold_timer = self._broker.clock.call_later(HOLD_SECONDS_MAX, self._held_too_long)
        self._source.flusher.after_current(self._step)

    def _held_too_long(self) -> None:
        self.call_off(f"{self.target.path} is too slow: repeat the move when it is less busy")

    def _take_place(self, copy: Partition) -> None:
        copy.log.unlisten(self)
        self._promoting = True
        self.target.futures.promote(copy.log, self._original, self._promoted)

    def _promoted(self, moved: Log | BaseException) -> None:
        self._promoting = False
        original = self._original
        if not isinstance(moved, Log):
            if self.ended:
                self._clear()
            else:
                self._give_up(moved)
            return
        if self.ended or not self._stands:
            self.target.futures.reject(moved)
            self.stop()
            self._let_go()
            self._clear()
            return
        if moved.end_offset != original.end_offset:
            self.target.futures.reject(moved)
            self._give_up(HeadraceError(f"{moved!r} is not a copy of {original!r}"))
            return
        self.stop()
        self._complete(moved)
        self.target.futures.accept(moved)
        self._holding = False
        self._partition.move_to(moved, self.target.flusher)
        self._leave()
        self.target.publish((moved,))
        self.target.checkpoint()
        self.target.flush_soon(moved)
        _logger.info("%s has moved from %s to %s", self.key, self._source.path, self.target.path)
        self._over(self)

    def _complete(self, moved: Log) -> None:
        """Give the copy state that changed during the rename or that its files do not have.

        Its first flush also makes the original's deletion durable.
        """
        original = self._original
        moved.config = original.config
        moved.producers = original.producers
        moved.high_watermark = max(moved.high_watermark, original.high_watermark)
        moved.unflushed.add_directory(moved.directory)
        moved.unflushed.add_directory(self._source.path)

    def _leave(self) -> None:
        """Delete the original log from the source directory."""
        try:
            self._source.delete_log(self.key)
        except StorageError:
            _logger.warning(
                "%s: the directory has failed; %s has moved nevertheless",
                self._source.path, self.key,
            )  # fmt: skip


def _is_empty(log: Log) -> bool:
    return len(log.segments) == 1 and not log.segments.active.size


def _follower(copy: Partition) -> "Follower":
    follower = copy.role.follower
    if follower is None:
        raise InvariantError(f"{copy.log!r} no longer follows its original")
    return follower
