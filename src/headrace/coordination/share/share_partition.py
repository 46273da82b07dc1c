"""`SharePartition`: one partition as consumed by one share group: cursor, log and stored state.

* An acknowledgement is answered once it is durable. Acquisitions are not stored: after a restart
  the records are delivered again (as in Kafka's SharePartition).
* A failed write ends this object: the next fetch creates another from the stored state.
* Retention deletes records regardless of acquisition locks.

Nothing here blocks. A fetch that waits for records watches the delivery, and looks again.
"""

from collections.abc import Callable, Sequence
from enum import Enum
from typing import TYPE_CHECKING

from headrace.coordination.share.acknowledgements import OUTCOMES, Ack, AckKind
from headrace.coordination.share.cursor_store import ShareCursorStore
from headrace.coordination.share.keys import NOT_SET, ShareKey
from headrace.delivery.cursor import Cursor
from headrace.delivery.cursor_state import CursorState
from headrace.delivery.partition_delivery import Asked, Look, PartitionDelivery, Taken
from headrace.delivery.record_states import NotHeld
from headrace.delivery.start_offset import find_start
from headrace.model.errors import ApiError, ErrorCode
from headrace.ports.callbacks import Done

if TYPE_CHECKING:
    from headrace.broker.partition import Partition
    from headrace.coordination.groups.share.settings import GroupSettings
    from headrace.coordination.share.counts import ShareCounts
    from headrace.coordination.share.state_port import ShareStatePort, StateRead
    from headrace.log.segment.batch_reader import ReadResult
    from headrace.ports.deadlines import Deadlines
    from headrace.ports.disk import Disk


class SharePartitionState(Enum):
    LOADING = "loading"
    ACTIVE = "active"
    ENDED = "ended"


class SharePartition:
    """A share partition, while this broker leads the partition and no write fails."""

    def __init__(
        self,
        key: ShareKey,
        partition: "Partition",
        *,
        states: "ShareStatePort",
        settings: "GroupSettings",
        deadlines: "Deadlines",
        disk: "Disk",
        ended: Callable[["SharePartition"], None],
        counts: "ShareCounts",
    ) -> None:
        """Create in state LOADING. `ended` is called once it cannot be used any more."""
        self._counts = counts
        self.key = key
        self.partition = partition
        self.state = SharePartitionState.LOADING
        self.error: ApiError | None = None
        """The reason why it ended; None: it has not."""
        self._states = states
        self._settings = settings
        self._clock = deadlines.clock
        self._disk = disk
        self._ended = ended
        self.delivery = PartitionDelivery(
            partition, deadlines, expired=self._timed_out, failed=self.end
        )
        """Reads and acquires the partition's records; fetches that wait for records watch it."""
        self._state_epoch = 0
        self._loading: list[Done[ApiError | None]] = []

    # Loading and ending

    def load(self) -> None:
        """Read the stored state; `when_loaded` calls back once that is done."""
        self._states.read(self.key, self.partition.leader_epoch, self._load)

    def when_loaded(self, done: Done[ApiError | None]) -> None:
        """Call `done(None)` once records can be acquired, `done(error)` if they cannot."""
        if self.state is SharePartitionState.LOADING:
            self._loading.append(done)
        else:
            done(self.error)

    def end(self, error: ApiError) -> None:
        """End, with `error` for all who wait; it cannot be used afterwards."""
        if self.state is SharePartitionState.ENDED:
            return
        self.state = SharePartitionState.ENDED
        self.error = error
        self._ended(self)
        self._tell_loaded()
        self.delivery.stop(error)

    def _load(self, kept: "StateRead | ApiError | None") -> None:
        if self.state is not SharePartitionState.LOADING:
            return  # ended while the state was read
        if isinstance(kept, ApiError):
            self.end(kept)
            return
        if kept is None:
            self.end(ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "the group has no state there"))
            return
        self._state_epoch = kept.state_epoch
        if kept.known.start == NOT_SET:
            strategy = self._settings.offset_reset(self.key.group)
            find_start(self.partition, strategy, self._clock.wall_ms(), self._disk, self._begin)
            return
        end = self.partition.log.end_offset
        if kept.known.start > end:
            # The log lost its tail: offsets from its end on will have other records, so states are
            # reset.
            self._states.initialize([(self.key, end)], self._state_epoch + 1, self._reloaded)
            return
        self._serve(Cursor.restored(kept.known.below(end)))

    def _reloaded(self, error: ErrorCode | None) -> None:
        if error is None:
            self.load()
        else:
            self.end(ApiError(error))

    def _begin(self, start: int | ApiError) -> None:
        """Store the start offset of a new group, so that a restart does not change it."""
        if isinstance(start, ApiError):
            self.end(start)
        elif self.state is SharePartitionState.LOADING:

            def kept(error: ApiError | None) -> None:
                if error is not None:
                    self.end(error)
                elif self.state is SharePartitionState.LOADING:
                    self._serve(Cursor(start))

            self._store().write(CursorState(start), kept)

    def _store(self) -> ShareCursorStore:
        return ShareCursorStore(self._states, self.key, self.partition, self._state_epoch)

    def _serve(self, cursor: Cursor) -> None:
        self.state = SharePartitionState.ACTIVE
        self.delivery.begin(cursor, self._store())
        self._tell_loaded()

    def _tell_loaded(self) -> None:
        loading, self._loading = self._loading, []
        for done in loading:
            done(self.error)

    # Acquiring

    def look(self, bytes_max: int, records_max: int, *, at_least_one: bool) -> Look | None:
        """Return the records that may be acquired now, or None. Raises ApiError."""
        if self.error is not None:
            raise self.error
        cursor = self._cursor
        cursor.window = self._settings.window(self.key.group)
        cursor.deliveries_max = self._settings.deliveries_max(self.key.group)
        return self.delivery.look(
            bytes_max,
            records_max,
            read_committed=self._settings.read_committed(self.key.group),
            at_least_one=at_least_one,
        )

    def take(
        self, look: Look, read: "ReadResult", member: str, *, records_max: int, exactly: bool
    ) -> Taken:
        """Acquire about `records_max` records of `read`, the data that `look` named."""
        seconds = self._settings.lock_seconds(self.key.group)
        taken = self.delivery.take(look, read, Asked(member, records_max, exactly, seconds))
        self._counts.acquired += sum(run.last - run.first + 1 for run in taken.acquired)
        return taken

    # Acknowledgements

    def acknowledge(self, member: str, acks: Sequence[Ack], done: Done[ApiError | None]) -> None:
        """Apply all of `acks` or none; `done` is called once that is durable.

        ApiError: INVALID_RECORD_STATE if `member` has not acquired all of them, or the error of the
        write.
        """
        if self.state is not SharePartitionState.ACTIVE:
            done(self.error or ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
            return
        cursor = self._cursor
        try:
            for ack in acks:
                cursor.check_held(member, ack.first, ack.last)
                if ack.kind is AckKind.RENEW and not self._settings.renews(self.key.group):
                    raise NotHeld("Renewing acquisition locks is not enabled for the group.")
        except NotHeld as error:
            done(ApiError(ErrorCode.INVALID_RECORD_STATE, str(error)))
            return
        lock_until = self._clock.monotonic() + self._settings.lock_seconds(self.key.group)
        for ack in acks:
            if ack.kind is AckKind.RENEW:
                cursor.renew(member, ack.first, ack.last, lock_until)
            else:
                cursor.settle(member, ack.first, ack.last, OUTCOMES[ack.kind])
            self._counts.acknowledged(ack)
        self.delivery.changed(done)

    def release_member(self, member: str, done: Done[ApiError | None]) -> None:
        """Release the records of a member that left; `done` is called once that is durable."""
        if self.state is SharePartitionState.ACTIVE and self._cursor.release_holder(member):
            self.delivery.changed(done)
        else:
            done(None)

    def _timed_out(self, records: int) -> None:
        self._counts.timed_out += records

    # Figures

    @property
    def _cursor(self) -> Cursor:
        return self.delivery.cursor

    @property
    def start(self) -> int:
        """The lowest offset that is not acknowledged or archived."""
        return self._cursor.start

    @property
    def out(self) -> int:
        """Records acquired by members."""
        return self._cursor.out
