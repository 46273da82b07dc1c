"""`TransactionCoordinators`: requests about transactional ids, passed to the id's shard."""

from collections.abc import Callable, Collection
from functools import partial
from typing import TYPE_CHECKING

from headrace.broker.metadata_image import MetadataImage
from headrace.config.keys.transactions import TransactionKeys
from headrace.coordination.transactions import decide, describe
from headrace.coordination.transactions.counts import TransactionCounts
from headrace.coordination.transactions.limits import TransactionLimits
from headrace.coordination.transactions.markers import Participants
from headrace.coordination.transactions.producers import ProducerEpoch
from headrace.coordination.transactions.timers import TransactionTimers
from headrace.coordination.transactions.transaction_shard import (
    Decide,
    TransactionShard,
)
from headrace.coordination.transactions.transaction_state import NO_TIMEOUT_MS, TransactionState
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import TRANSACTIONS_TOPIC, TopicPartition
from headrace.ports.callbacks import Done
from headrace.shards.derived import Derived
from headrace.shards.led_shards import LedShards
from headrace.shards.shard import ShardPartition, World
from headrace.wire.kafka.coordinator_records.transaction_state import TransactionStatus

if TYPE_CHECKING:
    from headrace.coordination.transactions.describe import (
        DescribedTransaction,
        Filter,
        ListedTransaction,
    )

Initialize = Callable[
    [TransactionState | None, ProducerEpoch | None, int, int, int | None], TransactionState
]
"""`decide.initialize` or `decide.keep`."""
_INITIALIZED = (TransactionStatus.EMPTY, TransactionStatus.ONGOING)
"""Statuses after InitProducerId: EMPTY, or ONGOING with a kept transaction. After another status,
an abort, the request is decided again."""


class TransactionCoordinators:
    """The transactional ids that this broker coordinates. All calls on the deciding thread.

    A method that changes state takes a callback, which is called exactly once, when the change is
    committed or refused. ApiErrors: NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, and those named.
    """

    def __init__(
        self,
        *,
        world: World,
        config: Callable[[], TransactionKeys],
        image: Callable[[], MetadataImage],
        participants: Participants,
        new_producer_id: Callable[[Done[int | ApiError]], None],
    ) -> None:
        """Create coordinators of no partition yet. `config` and `image` return the present ones."""
        self._world = world
        self._limits = Derived(config, TransactionLimits, self._hand_out)
        self._participants = participants
        self._new_producer_id = new_producer_id
        self._begun = False
        self.led = LedShards(
            TRANSACTIONS_TOPIC,
            self._new_shard,
            image=image,
            partitions=lambda: self._limits().partitions,
        )
        """The shards of the partitions of `__transaction_state` that this broker leads."""
        self.counts = TransactionCounts()
        self._timers = TransactionTimers(self.led, world.clock, self._limits, self.counts)

    @property
    def limits(self) -> TransactionLimits:
        """The limits of the present configuration."""
        return self._limits()

    def _hand_out(self, limits: TransactionLimits) -> None:
        for shard in self.led:
            shard.limits = limits

    def _new_shard(self, index: int, partition: ShardPartition, epoch: int) -> TransactionShard:
        shard = TransactionShard(
            index,
            partition,
            epoch=epoch,
            world=self._world,
            limits=self.limits,
            participants=self._participants,
            new_producer_id=self._new_producer_id,
            counts=self.counts,
        )
        if self._begun:
            shard.begin()
        return shard

    def begin(self) -> None:
        """Begin to write markers and start the timers: the image has the cluster's partitions."""
        self._begun = True
        for shard in self.led:
            shard.begin()
        self._timers.start()

    def close(self) -> None:
        """Stop the timers and unload all shards; pending requests end with NOT_COORDINATOR."""
        self._timers.close()
        self.led.close()

    # Requests of producers

    def initialize(
        self,
        transactional_id: str,
        timeout_ms: int,
        expected: ProducerEpoch | None,
        done: Done[ProducerEpoch | ApiError],
        *,
        two_phase: bool = False,
    ) -> None:
        """Serve InitProducerId: fence the former producer, call `done` with a new id and epoch.

        `expected`: of a producer that continues after an error (KIP-360). `two_phase`: no timeout
        (KIP-939). ApiErrors: INVALID_TRANSACTION_TIMEOUT, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS.
        """

        def initialized(result: TransactionState | ApiError) -> None:
            done(result if isinstance(result, ApiError) else result.client)

        self._initialize(
            transactional_id, timeout_ms, expected, initialized, decide.initialize, two_phase
        )

    def keep_prepared(
        self,
        transactional_id: str,
        timeout_ms: int,
        expected: ProducerEpoch | None,
        done: Done[tuple[ProducerEpoch, ProducerEpoch | None] | ApiError],
        *,
        two_phase: bool,
    ) -> None:
        """Serve InitProducerId with KeepPreparedTxn (KIP-939): an open transaction stays open.

        `done` receives the new producer id and epoch and, if a transaction is open, those that
        wrote it. ApiErrors: as `initialize`, and INVALID_TXN_STATE if the open transaction has a
        timeout.
        """

        def kept(result: TransactionState | ApiError) -> None:
            if isinstance(result, ApiError):
                done(result)
                return
            wrote = ProducerEpoch(result.producer_id, result.epoch) if result.kept else None
            done((result.client, wrote))

        self._initialize(transactional_id, timeout_ms, expected, kept, decide.keep, two_phase)

    def _initialize(
        self,
        transactional_id: str,
        timeout_ms: int,
        expected: ProducerEpoch | None,
        done: Done[TransactionState | ApiError],
        decided: Initialize,
        two_phase: bool,
    ) -> None:
        if two_phase:
            timeout_ms = NO_TIMEOUT_MS
        elif not 0 < timeout_ms <= self.limits.max_timeout_ms:
            done(ApiError(ErrorCode.INVALID_TRANSACTION_TIMEOUT))
            return

        def decision(
            state: TransactionState | None, now_ms: int, new_id: int | None
        ) -> TransactionState:
            if state is None:
                self._check_room()
            return decided(state, expected, timeout_ms, now_ms, new_id)

        self._until_initialized(transactional_id, decision, done)

    def _until_initialized(
        self, transactional_id: str, decision: Decide, done: Done[TransactionState | ApiError]
    ) -> None:
        def initialized(result: TransactionState | ApiError) -> None:
            if isinstance(result, ApiError) or result.status in _INITIALIZED:
                done(result)
            else:  # the open transaction is being aborted: decide again after it
                self._until_initialized(transactional_id, decision, done)

        self._change(transactional_id, decision, initialized)

    def add(
        self,
        transactional_id: str,
        who: ProducerEpoch,
        partitions: Collection[TopicPartition],
        version: int,
        done: Done[ApiError | None],
        *,
        waits: bool = True,
    ) -> None:
        """Add partitions to the producer's transaction; the first ones begin it.

        `waits`: wait up to a second for the markers of the previous transaction, else end with
        CONCURRENT_TRANSACTIONS at once. ApiErrors: INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED,
        CONCURRENT_TRANSACTIONS, INVALID_TXN_STATE.
        """

        def decision(
            state: TransactionState | None, now_ms: int, _: int | None
        ) -> TransactionState | None:
            return decide.add(state, who, partitions, version, now_ms)

        self._change(transactional_id, decision, partial(_code, done), waits=waits)

    def verify(
        self,
        transactional_id: str,
        who: ProducerEpoch,
        partitions: Collection[TopicPartition],
        done: Done[dict[TopicPartition, ApiError]],
    ) -> None:
        """Call `done` with the partitions that the producer may not write to, with errors."""
        refused: dict[TopicPartition, ApiError] = {}
        for partition in partitions:
            try:
                self.led.of(transactional_id).verify(transactional_id, who, partition)
            except ApiError as error:
                refused[partition] = error
        done(refused)

    def end(
        self,
        transactional_id: str,
        who: ProducerEpoch,
        commit: bool,
        version: int,
        done: Done[ProducerEpoch | ApiError],
    ) -> None:
        """Serve EndTxn; once committed, call `done` with the producer's next id and epoch.

        ApiErrors: as `add`, and INVALID_TXN_STATE.
        """

        def decision(
            state: TransactionState | None, now_ms: int, new_id: int | None
        ) -> TransactionState | None:
            return decide.end(state, who, commit, version, now_ms, new_id)

        def ended(result: TransactionState | ApiError) -> None:
            done(result if isinstance(result, ApiError) else decide.answer_to_end(result))

        self._change(transactional_id, decision, ended)

    def _change(
        self,
        transactional_id: str,
        decision: Decide,
        done: Done[TransactionState | ApiError],
        *,
        waits: bool = True,
    ) -> None:
        try:
            shard = self.led.of(transactional_id)
        except ApiError as error:
            done(error)
            return
        shard.change(transactional_id, decision, done, waits=waits)

    def _check_room(self) -> None:
        """Raise POLICY_VIOLATION if `transactional.ids.max` is reached: clients choose the ids."""
        if sum(len(shard.transactions) for shard in self.led) >= self.limits.ids_max:
            raise ApiError(ErrorCode.POLICY_VIOLATION, "transactional.ids.max is reached")

    # Requests of administrators

    def describe_transaction(self, transactional_id: str) -> "DescribedTransaction":
        """Return one committed transaction. ApiError: TRANSACTIONAL_ID_NOT_FOUND, …"""
        if not transactional_id:
            raise ApiError(ErrorCode.INVALID_REQUEST)
        found = self.led.of(transactional_id).transactions.get(transactional_id)
        if found is None or found.committed is None:
            raise ApiError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
        return describe.described(transactional_id, found.committed)

    def open_since_ms(self) -> list[int]:
        """Return the start of each open transaction, in milliseconds since 1970."""
        return [
            transaction.state.started_ms
            for shard in self.led
            for transaction in shard.ongoing.values()
        ]

    def list_transactions(self, wanted: "Filter") -> "list[ListedTransaction]":
        """Return the committed transactions that match. COORDINATOR_LOAD_IN_PROGRESS."""
        now_ms = self._world.clock.wall_ms()
        return [
            describe.ListedTransaction(
                transactional_id,
                transaction.committed.producer_id,
                describe.NAMES[transaction.committed.status],
            )
            for shard in self.led.active()
            for transactional_id, transaction in shard.transactions.items()
            if transaction.committed is not None
            and wanted.takes(transactional_id, transaction.committed, now_ms)
        ]


def _code(done: Done[ApiError | None], result: TransactionState | ApiError) -> None:
    done(result if isinstance(result, ApiError) else None)
