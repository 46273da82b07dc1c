"""`TransactionShard`: one partition of `__transaction_state`, with its transactional ids."""

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from headrace.coordination.transactions import decide, records
from headrace.coordination.transactions.counts import TransactionCounts
from headrace.coordination.transactions.decide import NeedsProducerId, UnderWay
from headrace.coordination.transactions.limits import TransactionLimits
from headrace.coordination.transactions.markers import Markers, Participants
from headrace.coordination.transactions.producers import ProducerEpoch
from headrace.coordination.transactions.transaction_state import DECIDED, NEXT, TransactionState
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import TRANSACTIONS_TOPIC, TopicPartition
from headrace.ports.callbacks import Done
from headrace.shards.shard import (
    JournalLimits,
    Shard,
    ShardPartition,
    ShardState,
    World,
)
from headrace.wire.kafka.coordinator_records.transaction_state import TransactionStatus

if TYPE_CHECKING:
    from headrace.ports.deadlines import Deadline

Decide = Callable[[TransactionState | None, int, int | None], TransactionState | None]
"""Returns the next state from the present one (None: unknown id), the time in milliseconds since
1970 and a new producer id (None: not requested yet). Result None: nothing changes."""


class Waiting:
    """A request that waits for the markers of the previous transaction, until its deadline."""

    __slots__ = ("deadline", "go_on")

    def __init__(self, go_on: Callable[[], None]) -> None:
        self.go_on = go_on
        self.deadline: Deadline | None = None


class Transaction:
    """A transactional id: its state as appended and as committed, markers, waiting requests."""

    __slots__ = ("committed", "markers", "state", "waiting")

    def __init__(self, state: TransactionState) -> None:
        self.state = state
        self.committed: TransactionState | None = None
        self.markers: Markers | None = None
        self.waiting: deque[Waiting] = deque()


class TransactionShard(Shard):
    """The transactional ids of one partition, while this broker leads it."""

    def __init__(
        self,
        index: int,
        partition: ShardPartition,
        *,
        epoch: int,
        world: World,
        limits: TransactionLimits,
        participants: Participants,
        new_producer_id: Callable[[Done[int | ApiError]], None],
        counts: TransactionCounts,
    ) -> None:
        journal = JournalLimits(limits.append_timeout_ms)
        super().__init__(
            TRANSACTIONS_TOPIC, index, partition, epoch=epoch, world=world, limits=journal
        )
        self.limits = limits
        self.transactions: dict[str, Transaction] = {}
        self.ongoing: dict[str, Transaction] = {}
        """Ids with an open transaction, which the timeout check visits."""
        self.ending: dict[str, None] = {}
        """Ids with a decided transaction, whose markers are being written."""
        self._counts = counts
        self._clock = world.clock
        self._participants = participants
        self._new_producer_id = new_producer_id
        self._held = True

    # Replay

    def apply(
        self, log_offset: int, producer_id: int | None, key: bytes, value: bytes | None
    ) -> None:
        transactional_id = records.parse_key(key)
        if transactional_id is None:
            return
        state = None if value is None else records.parse_value(value)
        if state is None or state.status not in NEXT:
            self._forget(transactional_id)
            return
        found = self.transactions.get(transactional_id)
        if found is None:
            found = self.transactions[transactional_id] = Transaction(state)
        found.committed = state
        self._move(transactional_id, found, state)

    def loaded(self) -> None:
        if not self._held:
            self._go_on()

    def begin(self) -> None:
        """Permit writing markers: the metadata image has the cluster's partitions from now on."""
        self._held = False
        if self.state is ShardState.ACTIVE:
            self._go_on()

    def _go_on(self) -> None:
        """Begin to write markers of each transaction whose decision is committed, unless begun."""
        for transactional_id, transaction in list(self.transactions.items()):
            decided = (
                transaction.state.status in DECIDED and transaction.committed is transaction.state
            )
            if decided and transaction.markers is None:
                self._write_markers(transactional_id, transaction)

    def dropped(self) -> None:
        for transaction in list(self.transactions.values()):
            if transaction.markers is not None:
                transaction.markers.cancel()
            self._release(transaction)
        self.transactions.clear()

    # Requests

    def change(
        self,
        transactional_id: str,
        decision: Decide,
        done: Done[TransactionState | ApiError],
        new_id: int | None = None,
        *,
        waits: bool = True,
    ) -> None:
        """Decide, append the next state, and call `done` once it is committed; exactly once.

        A decision that meets the markers of the previous transaction is repeated after them if
        `waits`; otherwise `done` gets CONCURRENT_TRANSACTIONS.
        """
        try:
            self.check_active()
            found = self.transactions.get(transactional_id)
            present = None if found is None else found.state
            following = decision(present, self._clock.wall_ms(), new_id)
        except UnderWay as error:
            if not waits:
                done(error)
                return
            again = partial(self.change, transactional_id, decision, done, new_id)
            self._wait(transactional_id, again, partial(done, error))
            return
        except NeedsProducerId:
            self._new_producer_id(partial(self._with_id, transactional_id, decision, done))
            return
        except ApiError as error:
            done(error)
            return
        if following is not None:
            self._append(transactional_id, following, done)
        elif present is not None:
            self.journal.when_settled(partial(done, present))
        else:
            done(ApiError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND))

    def _with_id(
        self,
        transactional_id: str,
        decision: Decide,
        done: Done[TransactionState | ApiError],
        given: int | ApiError,
    ) -> None:
        if isinstance(given, ApiError):
            done(given)
        else:
            self.change(transactional_id, decision, done, given)

    def verify(self, transactional_id: str, who: ProducerEpoch, partition: TopicPartition) -> None:
        """Raise unless the producer may write to `partition` in its open transaction, as committed.

        ApiError as `decide.verify`; UnderWay also while the partition's addition is not committed.
        """
        self.check_active()
        found = self.transactions.get(transactional_id)
        decide.verify(None if found is None else found.state, who, partition)
        # A committed ONGOING state is of this transaction: the previous one's completion is
        # committed before another begins.
        committed = None if found is None else found.committed
        if (
            committed is None
            or committed.status is not TransactionStatus.ONGOING
            or partition not in committed.partitions
        ):
            raise UnderWay

    def _wait(
        self, transactional_id: str, go_on: Callable[[], None], give_up: Callable[[], None]
    ) -> None:
        found = self.transactions[transactional_id]
        if len(found.waiting) >= self.limits.waiting_max:
            give_up()
            return
        waiting = Waiting(go_on)

        def too_long() -> None:
            waiting.deadline = None
            found.waiting.remove(waiting)
            give_up()

        waiting.deadline = self.deadlines.deadline(too_long)
        waiting.deadline.set(self.limits.wait_ms / 1000)
        found.waiting.append(waiting)

    @staticmethod
    def _release(transaction: Transaction) -> None:
        """Decide the waiting requests again, in the order of arrival."""
        waiting, transaction.waiting = transaction.waiting, deque()
        for each in waiting:
            deadline, each.deadline = each.deadline, None  # its callback references `each`
            if deadline is not None:
                deadline.cancel()
            each.go_on()

    # Appends

    def _append(
        self,
        transactional_id: str,
        state: TransactionState,
        done: Done[TransactionState | ApiError],
    ) -> None:
        found = self.transactions.get(transactional_id)
        before = None if found is None else found.state
        if found is None:
            found = self.transactions[transactional_id] = Transaction(state)
        self._move(transactional_id, found, state)
        record = (records.key(transactional_id), records.value(state))
        settled = partial(self._settled, transactional_id, found, before, state, done)
        self.journal.append_now([record], settled)

    def _settled(
        self,
        transactional_id: str,
        found: Transaction,
        before: TransactionState | None,
        state: TransactionState,
        done: Done[TransactionState | ApiError],
        error: ErrorCode | None,
    ) -> None:
        if error is not None:
            # Nothing was written, so the former state holds; or the whole shard is closed.
            if found.state is state:
                if before is None:
                    self._forget(transactional_id)
                else:
                    self._move(transactional_id, found, before)
            done(ApiError(error))
            return
        found.committed = state
        done(state)
        # No other state follows a decided one before its markers are written (`NEXT`).
        if state.status in DECIDED and not self._held:
            self._write_markers(transactional_id, found)

    def _write_markers(self, transactional_id: str, found: Transaction) -> None:
        state = found.state

        def done() -> None:
            found.markers = None
            self._complete(transactional_id, found, state)

        found.markers = Markers(
            state,
            self.epoch,
            self._participants,
            clock=self._clock,
            retry_seconds=self.limits.marker_retry_ms / 1000,
            done=done,
        )
        found.markers.start()

    def _complete(self, transactional_id: str, found: Transaction, state: TransactionState) -> None:
        def completed(result: TransactionState | ApiError) -> None:
            if not isinstance(result, ApiError):
                self._counts.ended(state)
            elif self.transactions.get(transactional_id) is found:
                again = partial(self._complete, transactional_id, found, state)
                self._clock.call_later(self.limits.marker_retry_ms / 1000, again)

        if found.state is not state:
            return
        self._append(transactional_id, decide.complete(state, self._clock.wall_ms()), completed)
        if found.state is not state:
            self._release(found)

    def forget(self, transactional_id: str) -> None:
        """Append the tombstone of an expired id.

        The id is removed at once, and restored on error.
        """
        found = self.transactions[transactional_id]

        def settled(error: ErrorCode | None) -> None:
            if error is not None:
                self.transactions.setdefault(transactional_id, found)

        self._forget(transactional_id)
        self.journal.append_now([(records.key(transactional_id), None)], settled)

    def _move(self, transactional_id: str, found: Transaction, state: TransactionState) -> None:
        found.state = state
        if state.status is TransactionStatus.ONGOING:
            self.ongoing[transactional_id] = found
        else:
            self.ongoing.pop(transactional_id, None)
        if state.status in DECIDED:
            self.ending[transactional_id] = None
        else:
            self.ending.pop(transactional_id, None)

    def _forget(self, transactional_id: str) -> None:
        """Remove an id without an open or decided transaction."""
        self.transactions.pop(transactional_id, None)
