"""`ProducerStates`: detect duplicate and missing batches of a partition's idempotent producers.

Per producer id: the epoch, the last five batches (Kafka's limit of in-flight requests), and the
first offset of the open transaction. The state is stored in `.snapshot` files and can be rebuilt
from the log's batch headers.

    batch ── check ──> new            -> append -> update
                   ├─> Duplicate      -> answer with the offsets of the first append
                   └─> ApiError       -> fenced epoch, sequence gap, wrong transaction state
    marker ── check_epoch, aborted_by -> append -> update_marker

`Log.append` calls the updates. The partition calls the checks, as it answers duplicates.
"""

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

from headrace.log.producers.kept_states import (
    BATCHES_KEPT,
    NONE,
    SEQUENCE_MASK,
    KeptProducers,
    Producer,
    ProducerBatch,
)
from headrace.log.segment.transaction_index import AbortedTransaction
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import Offset
from headrace.record.batch import TRANSACTIONAL, BatchHeader, ControlMarker, ControlType
from headrace.record.batch_layout import (
    ATTRIBUTES,
    BASE_SEQUENCE,
    LAST_OFFSET_DELTA,
    PRODUCER_EPOCH,
    PRODUCER_ID,
)


class Begins(Enum):
    """How a transactional batch may begin its transaction in this partition."""

    NO = 0
    """It may not: the transaction coordinator has not been asked."""
    VERIFIED = 1
    """It may: the coordinator confirmed that the partition is in the transaction."""
    FRESH = 2
    """It may, and each transaction of this producer has an epoch of its own (KIP-890)."""


class Duplicate(NamedTuple):
    """A batch that is already in the log, with the offsets of its first append."""

    base_offset: Offset
    last_offset: Offset
    timestamp: int


class ProducerStates:
    """The states of all idempotent and transactional producers of one partition."""

    __slots__ = ("_decided", "_most", "_ongoing", "_producers", "kept")

    def __init__(self, most: int | None = None) -> None:
        """Make an empty state; beyond `most` producers the least recently active are removed."""
        self.kept = KeptProducers(most)
        """The stored state, which snapshots encode and decode."""
        self._most = most
        self._producers = self.kept.producers
        self._ongoing = self.kept.ongoing
        self._decided = self.kept.decided

    def __len__(self) -> int:
        return len(self._producers)

    def __contains__(self, producer_id: object) -> bool:
        return producer_id in self._producers

    def check(self, header: BatchHeader, now_ms: int) -> Duplicate | None:
        """Check a client's batch with a producer id before its append; return Duplicate or None.

        Duplicate: the batch equals one of the producer's last five. ApiError:
        INVALID_PRODUCER_EPOCH for an older epoch, OUT_OF_ORDER_SEQUENCE_NUMBER for a gap or an
        older duplicate, INVALID_TXN_STATE for a non-transactional batch while the producer has a
        transaction open here. An unknown producer (new or expired) may begin at any sequence
        number, as in Kafka since 2.5.
        """
        producer = self._producers.get(header.producer_id)
        if producer is None:
            return None
        first = header.base_sequence
        if header.producer_epoch != producer.epoch:
            if header.producer_epoch < producer.epoch:
                raise ApiError(
                    ErrorCode.INVALID_PRODUCER_EPOCH,
                    f"producer {header.producer_id} is at epoch {producer.epoch}, "
                    f"not {header.producer_epoch}",
                )
            if first != 0:
                raise _out_of_order(header, "0 in a new epoch")
            _check_in_open(producer, header)
            return None
        last = (first + header.last_offset_delta) & SEQUENCE_MASK
        for batch in producer.batches:
            if batch.first_sequence == first and batch.last_sequence == last:
                return Duplicate(
                    Offset(batch.base_offset), Offset(batch.last_offset), batch.timestamp
                )
        known = producer.batches[-1].last_sequence if producer.batches else NONE
        expected = (known + 1) & SEQUENCE_MASK
        if first != expected:
            raise _out_of_order(header, str(expected))
        _check_in_open(producer, header)
        return None

    def is_open(self, producer_id: int, epoch: int) -> bool:
        """Return whether the producer has a transaction open here under this epoch."""
        producer = self._producers.get(producer_id)
        return producer is not None and producer.txn_first_offset >= 0 and producer.epoch == epoch

    def check_transactional(self, header: BatchHeader, begins: Begins) -> None:
        """Check that a client's transactional batch may continue or begin a transaction here.

        ApiError: INVALID_TXN_STATE, OUT_OF_ORDER_SEQUENCE_NUMBER.
        """
        if self.is_open(header.producer_id, header.producer_epoch):
            return
        if begins is Begins.NO:
            raise ApiError(
                ErrorCode.INVALID_TXN_STATE, "the partition is not in the producer's transaction"
            )
        if begins is Begins.FRESH and header.base_sequence and header.producer_id not in self:
            raise _out_of_order(header, "0 in a new epoch")

    def check_epoch(self, producer_id: int, epoch: int, coordinator_epoch: int = NONE) -> None:
        """Check that a coordinator's write for a producer, or marker, is not from an older epoch.

        ApiError: INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED.
        """
        producer = self._producers.get(producer_id)
        if producer is None:
            return
        if epoch < producer.epoch:
            raise ApiError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer {producer_id} is at epoch {producer.epoch}, not {epoch}",
            )
        if 0 <= coordinator_epoch < producer.coordinator_epoch:
            raise ApiError(ErrorCode.TRANSACTION_COORDINATOR_FENCED)

    def new_of(self, headers: Sequence[BatchHeader], now_ms: int) -> int:
        """Return how many of `headers`, from the first on, are surely new batches of one producer.

        A smaller number, even 0, decides nothing about the next batch: `check` does.
        """
        header = headers[0]
        producer, epoch = header.producer_id, header.producer_epoch
        expected = header.base_sequence
        transactional = header[ATTRIBUTES] & TRANSACTIONAL
        if producer >= 0:
            if transactional and not self.is_open(producer, epoch):
                return 0
            try:
                if self.check(header, now_ms) is not None:
                    return 0
            except ApiError:
                return 0
        for count, header in enumerate(headers):
            if header[PRODUCER_ID] != producer:
                return count
            if producer >= 0:
                if header[PRODUCER_EPOCH] != epoch or header[BASE_SEQUENCE] != expected:
                    return count
                if header[ATTRIBUTES] & TRANSACTIONAL != transactional:
                    return count
                expected += header[LAST_OFFSET_DELTA] + 1
                if expected > SEQUENCE_MASK:
                    return count
        return len(headers)

    def update(self, header: BatchHeader, base_offset: int, heard_ms: int = NONE) -> None:
        """Record a data batch that was appended at `base_offset` (the header's own is ignored).

        `heard_ms`: when it was written by the broker's clock; -1 if unknown.
        """
        producer = self._of_epoch(header.producer_id, header.producer_epoch)
        producer.heard_ms = heard_ms
        first = header.base_sequence
        delta = header.last_offset_delta
        if first >= 0:
            last = (first + delta) & SEQUENCE_MASK
            batches = producer.batches
            batches.append(
                ProducerBatch(first, last, base_offset, base_offset + delta, header.max_timestamp)
            )
            if len(batches) > BATCHES_KEPT:
                del batches[0]
        producer.timestamp = header.max_timestamp
        if header.attributes & TRANSACTIONAL and producer.txn_first_offset < 0:
            producer.txn_first_offset = base_offset
            self._ongoing[header.producer_id] = base_offset

    def aborted_by(
        self, header: BatchHeader, marker: ControlMarker, offset: Offset
    ) -> AbortedTransaction | None:
        """Return the `.txnindex` entry of a marker at `offset`, or None if it aborts nothing."""
        producer_id = header.producer_id
        first = self._ongoing.get(producer_id)
        if first is None or marker.type is not ControlType.ABORT:
            return None
        others = [at for other, at in self._ongoing.items() if other != producer_id]
        stable = min(others, default=offset + 1)
        return AbortedTransaction(producer_id, Offset(first), offset, Offset(stable))

    def update_marker(self, header: BatchHeader, marker: ControlMarker, offset: Offset) -> None:
        """Record a transaction marker at `offset`; call `aborted_by` first, with the old state.

        A marker without an open transaction (empty, or repeated) only advances the epochs.
        """
        producer = self._of_epoch(header.producer_id, header.producer_epoch)
        producer.marker_offset = offset
        producer.timestamp = header.max_timestamp
        producer.coordinator_epoch = max(producer.coordinator_epoch, marker.coordinator_epoch)
        first = producer.txn_first_offset
        if first >= 0:
            producer.txn_first_offset = NONE
            del self._ongoing[header.producer_id]
            self._decided.append((first, offset))

    def coordinator_epoch(self, producer_id: int) -> int:
        """Return the coordinator epoch of the producer's last marker, or -1 if it has none."""
        producer = self._producers.get(producer_id)
        return NONE if producer is None else producer.coordinator_epoch

    def open_transaction(self, producer_id: int) -> Offset | None:
        """Return the first offset of the producer's open transaction, or None."""
        first = self._ongoing.get(producer_id)
        return None if first is None else Offset(first)

    def last_stable_offset(self, high_watermark: Offset) -> Offset:
        """Return the last stable offset: no transaction below it is undecided.

        A transaction counts as decided once the high watermark has passed its marker.
        """
        if self._decided:
            self._decided[:] = [pair for pair in self._decided if pair[1] >= high_watermark]
        stable: int = high_watermark
        if self._ongoing:
            stable = min(stable, min(self._ongoing.values()))
        for first, _ in self._decided:
            stable = min(stable, first)
        return Offset(stable)

    def first_unstable_offset(self) -> Offset | None:
        """Return the first offset of the oldest open transaction, or None."""
        return Offset(min(self._ongoing.values())) if self._ongoing else None

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Remove producers inactive for `expiration_ms` without an open transaction; return how
        many."""
        silent = [
            producer_id
            for producer_id, producer in self._producers.items()
            if producer.txn_first_offset < 0
            and now_ms - max(producer.timestamp, producer.heard_ms) >= expiration_ms
        ]
        for producer_id in silent:
            del self._producers[producer_id]
        return len(silent)

    def _of_epoch(self, producer_id: int, epoch: int) -> Producer:
        producer = self._producers.get(producer_id)
        if producer is None:
            if self._most is not None and len(self._producers) >= self._most:
                self.kept.make_room()
            producer = self._producers[producer_id] = Producer(epoch)
        elif producer.epoch != epoch:
            producer.epoch = epoch
            producer.batches.clear()
        return producer


def _check_in_open(producer: Producer, header: BatchHeader) -> None:
    """Refuse a new non-transactional batch while the producer has a transaction open here.

    Duplicates have been answered before.
    """
    if producer.txn_first_offset >= 0 and not header.attributes & TRANSACTIONAL:
        raise ApiError(ErrorCode.INVALID_TXN_STATE, "the producer has an open transaction here")


def _out_of_order(header: BatchHeader, expected: str) -> ApiError:
    return ApiError(
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        f"producer {header.producer_id} sent sequence {header.base_sequence}, expected {expected}",
    )
