"""`CoordinatorShard`: one partition of the log of declarations while this broker coordinates it."""

from collections.abc import Callable, Sequence

from headrace.model.errors import ApiError, ErrorCode, Malformed
from headrace.model.nouns import Offset
from headrace.ports.callbacks import Done
from headrace.queues.queue_names import DECLARATIONS_TOPIC
from headrace.shards.journal import KeyValue
from headrace.shards.shard import Shard, ShardPartition, World
from headrace.vhosts.declarations.confirmations import Confirmations
from headrace.vhosts.declarations.declaration_shard import LIMITS, unreadable
from headrace.vhosts.declarations.followed_table import FollowedTable, Held

_RESIGNED = ApiError(ErrorCode.NOT_COORDINATOR)


class CoordinatorShard(Shard):
    """The coordinator of some vhosts: its table, what is appended, which brokers have applied it.

    The broker's table stays if this ends; only records that it lacks are read from the log.
    """

    def __init__(
        self,
        index: int,
        partition: ShardPartition,
        epoch: int,
        world: World,
        table: FollowedTable,
        confirmations: Confirmations,
        committed: Callable[[], Offset],
        grown: Callable[[int], None],
        ended: "Callable[[CoordinatorShard], None]",
        visited: Callable[[Done[None]], None],
    ) -> None:
        """Create the shard.

        `committed` returns the partition's high watermark; `grown` is called with the partition's
        index when more is committed, before this is confirmed. `ended` is called at the end.
        `visited` calls back once this broker's queues have the settings of all policies, or late.
        """
        now = world.clock.monotonic()
        if table.is_stale(now) or table.applied > partition.log.end_offset:
            table.reread()
        super().__init__(
            DECLARATIONS_TOPIC,
            index,
            partition,
            epoch=epoch,
            world=world,
            limits=LIMITS,
            start=table.applied,
        )
        self.table = table
        self.confirmations = confirmations
        self._clock = world.clock
        self._grown = grown
        self._ended = ended
        self._visited = visited
        self._high_watermark = committed
        self._loading: Held | None = table.hold()

    def apply(
        self, log_offset: int, producer_id: int | None, key: bytes, value: bytes | None
    ) -> None:
        """Apply a record that the table may lack. Raises CorruptBatch."""
        if self._loading is None:
            return
        try:
            self.table.take_held(self._loading, key, value)
        except Malformed as error:
            raise unreadable(error) from error

    def loaded(self) -> None:
        """Begin to carry out commands: the log is applied and committed."""
        if self._loading is not None:
            self.table.commit(self._loading)
            self._loading = None
        self.table.have_reread()
        self.table.advance(self._term_start)
        self.table.note_current(self._clock.monotonic())
        self._grown(self.index)

    def dropped(self) -> None:
        """Put back what is not committed: another broker leads."""
        self.table.undo()
        if self._loading is None:
            self.table.note_current(self._clock.monotonic())
        self.confirmations.close(_RESIGNED)
        self._ended(self)

    def append(
        self, held: Held, records: Sequence[KeyValue], done: Done[Offset | ApiError]
    ) -> None:
        """Append a command's changes.

        `done` gets the offset that they are below, once all followers have applied them.
        """

        def committed(error: ErrorCode | None) -> None:
            if error is not None:
                done(ApiError(error))
                return
            self.table.commit(held)
            self._confirm(done)

        self.journal.append_soon(records, committed)

    def when_settled(self, done: Done[Offset | ApiError]) -> None:
        """Call `done` as `append` does, for the changes so far."""

        def settled() -> None:
            if self.is_active:
                self._confirm(done)
            else:
                done(_RESIGNED)

        self.journal.when_settled(settled)

    @property
    def committed(self) -> Offset:
        """The offset below which all is committed, and in the table."""
        return self.table.applied

    def _confirm(self, done: Done[Offset | ApiError]) -> None:
        end = self._high_watermark()
        if end > self.table.applied:
            self.table.advance(end)
            self._grown(self.index)

        def confirmed(error: ApiError | None) -> None:
            self._visited(lambda _: done(end if error is None else error))

        self.confirmations.when_confirmed(end, confirmed)
