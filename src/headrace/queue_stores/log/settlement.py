"""The settled positions of a queue's log: in memory, and written to a file as they change.

all settled | delivered, each settled or in `out`   | not delivered; settled before the
            |                                       | start: `_runs`; ready: `waiting`
            ^ start                                 ^ mark
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from headrace.delivery.settled_runs import NO_RUNS, runs_of, union
from headrace.delivery.settled_state import SettledState, fold
from headrace.model.invariant import invariant
from headrace.model.nouns import LeaderEpoch, Offset
from headrace.queue_stores.log.epoch_ends import end_of_epoch
from headrace.queue_stores.log.settled_files import FILE_BYTES_MAX, SettledFiles, settled_path
from headrace.queue_stores.log.settlement_counts import Counts
from headrace.queue_stores.log.settlement_frame import SettlementFrame, has_any
from headrace.queue_stores.record_messages import Found
from headrace.queue_stores.unacked_positions import HandedOut

if TYPE_CHECKING:
    from headrace.broker.partition import Partition
    from headrace.queue_stores.log.copies_port import FrameCopies

HANDED_OUT_AHEAD = 10_000
"""Positions beyond the delivered ones that are recorded as possibly delivered.

So not every delivery waits for a write.
"""
COUNTED_EVERY = 10_000
"""Messages after which their count is written, though nothing was settled."""


class Settlement:
    """The settled positions of one queue's partition, in memory and in its file.

    It has 30 attributes: with more, CPython shares no key table among instances, and each
    acknowledgement takes 5 % longer.
    """

    def __init__(
        self,
        partition: "Partition",
        files: SettledFiles,
        durable: Callable[[], None],
        ahead: int = HANDED_OUT_AHEAD,
    ) -> None:
        """Create the settlement of a partition.

        `durable` is called when a frame is durable or its write has failed.
        """
        self.mark = 0
        """Position below which all messages were delivered or are settled."""
        self.out = HandedOut()
        self.waiting = Counts()
        self.returns: dict[int, int] = {}
        self.expiring = False
        self.transient = False
        """Whether there may be messages that are not persistent."""
        self.told_durable = 0
        """Position below which messages may be delivered, as that is recorded durably."""
        self.start_durable = 0
        """Position below which all is settled, durably."""
        self.may_deliver = True
        """Whether no replica is so late that nothing more must be delivered."""
        self.copies: FrameCopies | None = None
        """The copies of the file on other brokers; None: it has none and never will."""
        self.closed = False
        """Whether the store is closing: the next frame has the exact position of delivery."""
        self._partition = partition
        self._log = partition.log
        self._files = files
        self._durable = durable
        self._ahead = ahead
        self._floor = 0
        """Position below which messages may have been delivered before the start."""
        self._runs = NO_RUNS
        """Settled runs above the mark, from before the start; replaced, as threads read them."""
        self._settled: list[int] = []
        """Positions settled since the last frame, in order of settlement."""
        self._purged: list[tuple[int, int]] = []
        """Runs settled since then that were never delivered: purged, or without messages."""
        self._unconfirmed: deque[SettlementFrame] = deque()
        """Frames that are being written, here or by another replica, in order."""
        self._number = 0
        """The number of the last frame."""
        self._returned: set[int] = set()
        self._told = 0
        self._file_end: int | None = None
        """Byte position of the next frame; None: it replaces the file, 0: no file exists."""
        self._whole_bytes = 0
        """Bytes of the complete frame that the file begins with; -1: another one is wanted."""
        self._counted_written = 0
        self._changed = False
        self._writing = False
        self._abandoned = False

    @property
    def path(self) -> str:
        """The path of the file of settled positions."""
        return settled_path(self._log.directory)

    @property
    def is_written(self) -> bool:
        """Whether all changes of settled positions are durable."""
        return not self._writing and not self._changed

    @property
    def is_exact(self) -> bool:
        """Whether the file has the complete state, with the exact position of delivery."""
        written = self.is_written and bool(self._file_end)
        counted = self._counted_written == self.waiting.counted_to
        return written and counted and self.told_durable == max(self.mark, self._floor)

    @property
    def start(self) -> int:
        """Position below which all is settled, including runs from before the start."""
        lowest = self.out.lowest()
        return self._runs.following(self.mark) if lowest is None else lowest

    # Loading

    def load(self, content: bytes, *, copied: bool = False) -> int:
        """Load a file's content, as far as the log still has what each frame's epoch wrote.

        `copied`: other replicas have copies of the file; the content may be that of one, and the
        next frame, a complete one, replaces all of them.

        Returns the position below which messages may have been delivered. `waiting` says up to
        which position messages are counted.
        """
        state, end = fold(content, self._end_of_epoch)
        self._file_end = end if end == len(content) and not copied else None
        self._number = state.number
        start = max(state.start, self._log.start_offset)
        runs = state.runs.above(start)
        if runs.firsts and runs.firsts[0] == start:
            start = runs.lasts[0] + 1
            runs = runs.above(start)
        self._runs = runs
        self.returns = {position: count for position, count in state.returns if position >= start}
        self.mark = self._told = self.told_durable = start
        self.start_durable = self._log.start_offset if copied else start
        self.expiring = state.expiring
        self.transient = state.transient
        counted = state.counted_to >= start and self._log.start_offset <= state.start
        if counted:
            self.waiting = Counts(state.counted_to, state.messages, state.body_bytes)
        else:
            self.waiting = Counts(start)
        self._counted_written = self.waiting.counted_to
        self._floor = max(state.handed_out, start)
        return self._floor

    def _end_of_epoch(self, epoch: int) -> int:
        return end_of_epoch(self._partition, LeaderEpoch(epoch))

    def count_anew(self) -> None:
        """Reset the counts: all messages from the mark on must be counted again."""
        self.waiting = Counts(self.mark)

    def drop_transient(self, positions: Sequence[int]) -> None:
        """Settle messages that are not persistent, before any delivery."""
        dropped = [(position, position) for position in positions]
        self._runs = union((self._runs, runs_of(dropped)))
        self._purged += dropped
        self.transient = False
        self.change()

    @property
    def was_settled(self) -> Callable[[int], bool] | None:
        """Tells whether a position above the mark was settled before the start; None: none was."""
        return self._runs.holds if self._runs.firsts else None

    def unsettled_from(self, position: int) -> int:
        """Return the first position from `position` on that was not settled before the start."""
        return self._runs.following(position)

    # Changing

    def count(self, counted_to: int, messages: int, body_bytes: int) -> None:
        """Count `messages` more committed messages, up to `counted_to`."""
        before, count, size = self.waiting
        invariant(counted_to >= before, "messages are counted a second time")
        self.waiting = Counts(counted_to, count + messages, size + body_bytes)
        self.tell_ahead()
        if counted_to - self._counted_written >= COUNTED_EVERY:
            self.change()

    def count_found(self, found: Found, following: int) -> tuple[int, int]:
        """Count messages read up to `following`; return their number and bytes."""
        count, size = len(found.positions), sum(len(message.body) for message in found.messages)
        if any(expiry is not None for expiry in found.expiries_ms):
            self.expiring = True
        self.count(following, count, size)
        return count, size

    def note_transient(self) -> None:
        """Note that a message is not persistent."""
        if not self.transient:
            self.transient = True
            self.change()

    def abandon(self) -> None:
        """Write no frame any more: the state contradicts itself, and the file is right."""
        self._abandoned = True

    def hand_out(self, below: int, positions: Sequence[int], sizes: Sequence[int]) -> None:
        """Note a delivery of `positions`, all unsettled from the mark to `below`, the next mark."""
        counted_to, count, size = self.waiting
        invariant(below >= self.mark, "messages are delivered below the mark")
        invariant(below <= counted_to, "messages are delivered that are not committed")
        invariant(count >= len(positions), "more messages are delivered than are unsettled")
        self.waiting = Counts(counted_to, count - len(positions), size - sum(sizes))
        self.out.add(positions, sizes)
        if below - self.mark != len(positions):
            self._pass(positions)
        self.mark = below
        if self._runs.lasts and self._runs.lasts[-1] < below:
            self._runs = NO_RUNS
        self.tell_ahead()

    def _pass(self, positions: Sequence[int]) -> None:
        """Note positions without messages as settled: transaction markers, aborted records."""
        first = self.mark
        for position in positions:
            if first < position and not self._runs.covers(first, position):
                self._purged.append((first, position - 1))
            first = position + 1

    def settle(self, positions: Sequence[int]) -> None:
        """Settle delivered positions of the queue's log."""
        self._settled += self.out.settle_all(positions)
        if self.returns:
            for position in positions:
                self.returns.pop(position, None)
        self.change()

    def settle_waiting(self, below: int) -> None:
        """Settle all ready positions, from the mark to `below` (a purge)."""
        self._purged.append((self.mark, below - 1))
        self.mark = below
        self.waiting = Counts(below)
        self._runs = NO_RUNS
        self.change()

    def note_returned(self, position: int, count: int) -> None:
        """Note how often a position of the queue was requeued."""
        self.returns[position] = count
        self._returned.add(position)
        self.change()

    def tell_ahead(self) -> None:
        """Have a higher limit for deliveries written to the file soon, if the mark is near it."""
        if self._told_next() > self._told and self._log.end_offset > self.mark:
            self.change(soon=True)

    def _told_next(self) -> int:
        """Return the limit for deliveries, a higher one if the next unsettled message is near."""
        following = self._runs.following(self.mark) if self._runs.firsts else self.mark
        near = self._told - following <= self._ahead // 2
        return following + self._ahead if near else self._told

    def change(self, *, soon: bool = False) -> None:
        """Have changed settled positions written after the delay, or `soon`."""
        self._changed = True
        self._files.note_changed(self, soon=soon)

    def begin_epoch(self) -> None:
        """Record again what may be delivered: frames count up to the end of their epoch's log."""
        end = self._end_of_epoch(self._partition.leader_epoch - 1)
        for frame in self._unconfirmed:
            frame.handed_out = min(frame.handed_out, end)
        self._told, self.told_durable = min(self._told, end), min(self.told_durable, end)
        self.tell_ahead()

    # Writing

    def want_whole(self) -> None:
        """Have the file replaced by a complete frame soon: a copy needs one."""
        self._whole_bytes = -1
        self.change(soon=True)

    def take_frame(self) -> SettlementFrame | None:
        """Return a frame of the changes; None: no changes, or a frame is being written."""
        if self._writing or not self._changed or self._log.closed or self._abandoned:
            return None
        if self.copies is not None and self._partition.refusal is not None:
            return None  # another broker leads: the file follows the leader's now
        self._changed = False
        self._writing = True
        start = self.start
        self._told = max(self.mark if self.closed else self._told_next(), self._floor)
        at = self._file_end
        replaces = at is None or (at > FILE_BYTES_MAX and at > 2 * self._whole_bytes)
        replaces |= self._whole_bytes < 0 and at != 0
        self._whole_bytes = max(self._whole_bytes, 0)
        whole = replaces or at == 0
        settled, self._settled = self._settled, []
        purged, self._purged = self._purged, []
        returned, self._returned = self._returned, set()
        self._number += 1
        if whole:
            runs, returned = self._runs.above(self.mark), set(self.returns)
        else:
            changed = ((position, position) for position in settled if position >= start)
            runs = runs_of([*changed, *purged]).above(start)
        waiting = self.waiting
        state = SettledState(
            self._partition.leader_epoch,
            start,
            self._told,
            runs,
            tuple((each, self.returns[each]) for each in sorted(returned) if each in self.returns),
            waiting.counted_to,
            waiting.messages + self.out.count,
            waiting.body_bytes + self.out.bytes,
            self.expiring,
            whole,
            self.transient,
            self._number,
        )
        self._counted_written = waiting.counted_to
        out = self.out.copy() if whole else None
        place = None if replaces else at
        frame = SettlementFrame(self, place, state, (settled, purged), out, self.mark)
        self._unconfirmed.append(frame)
        if self.copies is not None:
            self.copies.taken(frame)
        return frame

    def frame_written(self, frame: SettlementFrame, error: OSError | None) -> None:
        """Note that a frame is durable; an error fences the log directory."""
        self._writing = False
        if self._log.closed:
            self._changed = False
            self._durable()
            return
        if error is not None:
            self._log.context.fail(error, frame.path)
            self._durable()
            return
        size = len(frame.content)
        if not frame.at:
            self._file_end = size
            self._whole_bytes = size if self._whole_bytes >= 0 else -1
        else:
            self._file_end = frame.at + size
        if self.copies is None:
            self.confirm(frame.number)
        else:
            self.copies.written(frame)
        self._durable()

    def confirm(self, number: int) -> None:
        """Note that all replicas that count have the frames up to a number durably."""
        frames = self._unconfirmed
        while frames and frames[0].number <= number:
            frame = frames.popleft()
            self.told_durable = frame.handed_out
            self.start_durable = min(frame.start, self._log.high_watermark)

    @property
    def confirmed(self) -> int:
        """The number of the last frame that all replicas that count have durably."""
        return self._unconfirmed[0].number - 1 if self._unconfirmed else self._number

    @property
    def uncopied(self) -> list[int]:
        """Settled positions that the next leader may not have as settled."""
        return [each for frame in self._unconfirmed for each in frame.settled[0]] + self._settled

    def frame_of(self, positions: Sequence[int]) -> int | None:
        """Return the number of the frame that records positions; None: not all are settled."""
        if any(self.out.has_any(each, each + 1) for each in positions):
            return None
        return self._number + self._changed

    def report(self) -> None:
        """Have the queue deliver, as other replicas have confirmed frames."""
        self._durable()

    # Retention: `Holder`

    def first(self) -> Offset:
        """Return the offset from which the log must be retained."""
        return Offset(self.start_durable)

    def wants(self, first: Offset, below: Offset) -> bool:
        """Tell whether a position from `first` to below `below` is not settled durably."""
        mark = self.mark
        unread = below > mark and not self._runs.covers(max(first, mark), below)
        if unread or self.out.has_any(first, below):
            return True
        changes = [(self._settled, self._purged), *(each.settled for each in self._unconfirmed)]
        return any(has_any(each, first, below) for each in changes)
