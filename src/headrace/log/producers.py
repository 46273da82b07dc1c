"""What a partition remembers of its producers, so that a retry is not written twice.

Per producer id: the epoch, the last five batches (Kafka's bound on requests in flight with
idempotence), the open transaction's first offset. It is snapshotted beside the segments and rebuilt
from the log's batch headers, so it knows nothing that the log does not say.

`check` comes before the append and decides; `update` comes after it and remembers. `Log.append`
calls `update` itself; `check` is the partition's to call, for only it can answer a duplicate.
"""

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, NamedTuple

from headrace.log.snapshot import SnapshotEntry, read_snapshot, write_snapshot
from headrace.log.txnindex import AbortedTransaction
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import Offset
from headrace.wire.kafka.batch import (
    CONTROL,
    TRANSACTIONAL,
    BatchHeader,
    ControlMarker,
    ControlType,
)

BATCHES_KEPT = 5
_SEQUENCE_MASK = 0x7FFF_FFFF
_NONE = -1


class Begins(Enum):
    """Whether a transactional batch may be the first of its transaction in this partition."""

    NO = 0
    """Nobody asked the transaction's coordinator."""
    VERIFIED = 1
    """The coordinator says that the partition is in the transaction."""
    FRESH = 2
    """So it does, and each transaction of this producer has an epoch of its own (KIP-890)."""


class Duplicate(NamedTuple):
    """A batch that is in the log already: the answer is the first one's."""

    base_offset: Offset
    last_offset: Offset
    timestamp: int


class _Batch(NamedTuple):
    first_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    timestamp: int


class _Producer:
    """One producer id."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "epoch",
        "heard_ms",
        "timestamp",
        "txn_first_offset",
    )

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.batches: list[_Batch] = []
        self.timestamp = _NONE
        # By our clock. Kafka goes by the records' own times alone and so forgets, at the next tick,
        # whoever sends yesterday's events: a retry of theirs would be written twice.
        self.heard_ms = _NONE
        self.coordinator_epoch = _NONE
        self.txn_first_offset = _NONE


class ProducerStates:
    """All producers of one partition."""

    __slots__ = ("_decided", "_ongoing", "_producers")

    def __init__(self) -> None:
        self._producers: dict[int, _Producer] = {}
        self._ongoing: dict[int, int] = {}
        # Transactions whose marker lies at or beyond the high watermark: (first, marker) offsets.
        self._decided: list[tuple[int, int]] = []

    def __len__(self) -> int:
        return len(self._producers)

    def __contains__(self, producer_id: object) -> bool:
        return producer_id in self._producers

    def check(self, header: BatchHeader, now_ms: int) -> Duplicate | None:
        """Decide whether a client's batch with a producer id may be appended.

        Returns the first answer to a batch that is among the last five of its producer. ApiError:
        INVALID_PRODUCER_EPOCH for an epoch that was succeeded, OUT_OF_ORDER_SEQUENCE_NUMBER for a
        gap or an older duplicate, INVALID_TXN_STATE for a batch outside of the transaction that its
        producer has open here. A producer that is not known (new, expired or retained away) may
        start at any sequence, as in Kafka since 2.5.
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
                raise _out_of_order(header, "0, for its epoch is new")
            _check_in_open(producer, header)
            return None
        last = (first + header.last_offset_delta) & _SEQUENCE_MASK
        for batch in producer.batches:
            if batch.first_sequence == first and batch.last_sequence == last:
                return Duplicate(
                    Offset(batch.base_offset), Offset(batch.last_offset), batch.timestamp
                )
        known = producer.batches[-1].last_sequence if producer.batches else _NONE
        expected = (known + 1) & _SEQUENCE_MASK
        if first != expected:
            raise _out_of_order(header, str(expected))
        _check_in_open(producer, header)
        return None

    def is_open(self, producer_id: int, epoch: int) -> bool:
        """Whether the producer has a transaction open here, under this epoch."""
        producer = self._producers.get(producer_id)
        return producer is not None and producer.txn_first_offset >= 0 and producer.epoch == epoch

    def check_transactional(self, header: BatchHeader, begins: Begins) -> None:
        """Decide whether a client's transactional batch may be in a transaction here.

        ApiError: INVALID_TXN_STATE, OUT_OF_ORDER_SEQUENCE_NUMBER.
        """
        if self.is_open(header.producer_id, header.producer_epoch):
            return
        if begins is Begins.NO:
            raise ApiError(
                ErrorCode.INVALID_TXN_STATE, "the partition is in no transaction of the producer"
            )
        if begins is Begins.FRESH and header.base_sequence and header.producer_id not in self:
            raise _out_of_order(header, "0, for its epoch is new")

    def check_epoch(self, producer_id: int, epoch: int, coordinator_epoch: int = _NONE) -> None:
        """Refuse what a coordinator writes for a producer, or as a marker, when it is outdated.

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
        """How many of `headers`, from the first on, surely are new and from one producer, or none.

        Fewer than there are, even 0, is no verdict: `check` decides on the one behind them.
        """
        header = headers[0]
        producer, epoch = header.producer_id, header.producer_epoch
        expected = header.base_sequence
        transactional = header[5] & TRANSACTIONAL
        if producer >= 0:
            if transactional and not self.is_open(producer, epoch):
                return 0
            try:
                if self.check(header, now_ms) is not None:
                    return 0
            except ApiError:
                return 0
        for count, header in enumerate(headers):
            if header[9] != producer:
                return count
            if producer >= 0:
                if header[10] != epoch or header[11] != expected:
                    return count
                if header[5] & TRANSACTIONAL != transactional:
                    return count
                expected += header[6] + 1
                if expected > _SEQUENCE_MASK:
                    return count
        return len(headers)

    def update(self, header: BatchHeader, base_offset: int, heard_ms: int = _NONE) -> None:
        """Remember a data batch that lies at `base_offset` (the header's own one is not read).

        `heard_ms`: when it was written, by the broker's clock, as far as that is known.
        """
        producer = self._of_epoch(header.producer_id, header.producer_epoch)
        producer.heard_ms = heard_ms
        first = header.base_sequence
        delta = header.last_offset_delta
        if first >= 0:
            last = (first + delta) & _SEQUENCE_MASK
            batches = producer.batches
            batches.append(
                _Batch(first, last, base_offset, base_offset + delta, header.max_timestamp)
            )
            if len(batches) > BATCHES_KEPT:
                del batches[0]
        producer.timestamp = header.max_timestamp
        if header.attributes & TRANSACTIONAL and producer.txn_first_offset < 0:
            producer.txn_first_offset = base_offset
            self._ongoing[header.producer_id] = base_offset

    def update_marker(
        self, header: BatchHeader, marker: ControlMarker, offset: Offset
    ) -> AbortedTransaction | None:
        """Remember a transaction marker at `offset`; returns its `.txnindex` entry if it aborts.

        A marker without an open transaction (empty, or a repeated one) only moves the epochs on.
        """
        producer = self._of_epoch(header.producer_id, header.producer_epoch)
        producer.timestamp = header.max_timestamp
        producer.coordinator_epoch = max(producer.coordinator_epoch, marker.coordinator_epoch)
        first = producer.txn_first_offset
        if first < 0:
            return None
        producer.txn_first_offset = _NONE
        del self._ongoing[header.producer_id]
        self._decided.append((first, offset))
        if marker.type is not ControlType.ABORT:
            return None
        stable = min(self._ongoing.values(), default=offset + 1)
        return AbortedTransaction(header.producer_id, Offset(first), offset, Offset(stable))

    def coordinator_epoch(self, producer_id: int) -> int:
        """Epoch of the coordinator that wrote the producer's last marker; -1 where none did."""
        producer = self._producers.get(producer_id)
        return _NONE if producer is None else producer.coordinator_epoch

    def open_transaction(self, producer_id: int) -> Offset | None:
        """First offset of the producer's open transaction."""
        first = self._ongoing.get(producer_id)
        return None if first is None else Offset(first)

    def last_stable_offset(self, high_watermark: Offset) -> Offset:
        """Where reading committed data ends: nothing below is undecided, as far as is durable.

        A transaction counts as decided once the high watermark has passed its marker.
        """
        if self._decided:
            self._decided = [pair for pair in self._decided if pair[1] >= high_watermark]
        stable: int = high_watermark
        if self._ongoing:
            stable = min(stable, min(self._ongoing.values()))
        for first, _ in self._decided:
            stable = min(stable, first)
        return Offset(stable)

    def first_unstable_offset(self) -> Offset | None:
        """First offset of the oldest open transaction."""
        return Offset(min(self._ongoing.values())) if self._ongoing else None

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Forget who was silent for `expiration_ms` and has no open transaction; how many."""
        silent = [
            producer_id
            for producer_id, producer in self._producers.items()
            if producer.txn_first_offset < 0
            and now_ms - max(producer.timestamp, producer.heard_ms) >= expiration_ms
        ]
        for producer_id in silent:
            del self._producers[producer_id]
        return len(silent)

    def clear(self) -> None:
        """Forget everything."""
        self._producers.clear()
        self._ongoing.clear()
        self._decided.clear()

    def snapshot(self) -> bytes:
        """The bytes of a `.snapshot`: of each producer the last batch only, as Kafka keeps it."""
        return write_snapshot(self.entries())

    def entries(self) -> list[SnapshotEntry]:
        """What a snapshot holds, in order of producer id (DescribeProducers answers with these)."""
        found = []
        for producer_id in sorted(self._producers):
            producer = self._producers[producer_id]
            last = producer.batches[-1] if producer.batches else None
            found.append(
                SnapshotEntry(
                    producer_id,
                    producer.epoch,
                    _NONE if last is None else last.last_sequence,
                    _NONE if last is None else last.last_offset,
                    0 if last is None else last.last_offset - last.base_offset,
                    producer.timestamp,
                    producer.coordinator_epoch,
                    producer.txn_first_offset,
                )
            )
        return found

    def load(self, content: bytes, path: str, heard_ms: Callable[[int], int] | None = None) -> None:
        """Take over a `.snapshot` in place of everything known. CorruptLogError.

        `heard_ms(offset)`: when the batch with that offset was written, about.
        """
        entries = read_snapshot(content, path)
        self.clear()
        for entry in entries:
            producer = _Producer(entry.producer_epoch)
            producer.timestamp = entry.timestamp
            producer.coordinator_epoch = entry.coordinator_epoch
            producer.txn_first_offset = entry.current_txn_first_offset
            if entry.last_sequence >= 0:
                first_sequence = (entry.last_sequence - entry.offset_delta) & _SEQUENCE_MASK
                if heard_ms is not None:
                    producer.heard_ms = heard_ms(entry.last_offset)
                producer.batches.append(
                    _Batch(
                        first_sequence,
                        entry.last_sequence,
                        entry.last_offset - entry.offset_delta,
                        entry.last_offset,
                        entry.timestamp,
                    )
                )
            self._producers[entry.producer_id] = producer
            if producer.txn_first_offset >= 0:
                self._ongoing[entry.producer_id] = producer.txn_first_offset

    @property
    def last_offset(self) -> int:
        """The greatest offset of any batch known; -1 where none is."""
        known = (one.batches[-1].last_offset for one in self._producers.values() if one.batches)
        return max(known, default=_NONE)

    def knows(self, header: BatchHeader) -> bool:
        """Whether a known producer's data batch, as it lies in the log, has been taken in."""
        producer = self._producers[header.producer_id]
        if header.producer_epoch != producer.epoch:
            return header.producer_epoch < producer.epoch
        last = header.base_offset + header.last_offset_delta
        known = producer.batches[-1].last_offset if producer.batches else _NONE
        return header.base_sequence < 0 or last <= known

    def at_rest(self, most: int) -> list[list[Any]] | None:
        """All that is known, for `set_at_rest`; None with a transaction, or more than `most`."""
        if self._ongoing or self._decided or len(self._producers) > most:
            return None
        return [
            [
                producer_id,
                producer.epoch,
                producer.timestamp,
                producer.heard_ms,
                producer.coordinator_epoch,
                producer.batches,
            ]
            for producer_id, producer in self._producers.items()
        ]

    def set_at_rest(self, rows: list[list[Any]]) -> None:
        """Take that over, in place of a snapshot and the batches before it."""
        for producer_id, epoch, timestamp, heard_ms, coordinator_epoch, batches in rows:
            producer = self._producers[producer_id] = _Producer(epoch)
            producer.timestamp = timestamp
            producer.heard_ms = heard_ms
            producer.coordinator_epoch = coordinator_epoch
            producer.batches = [_Batch(*batch) for batch in batches]

    def remember(self, producer_id: int, headers: list[BatchHeader]) -> None:
        """Put batches that precede the producer's last one back, the oldest first.

        Only those of the present epoch whose sequences lead up to that last batch without a gap.
        """
        producer = self._producers.get(producer_id)
        if producer is None or not producer.batches:
            return
        found: list[_Batch] = []
        for header in headers:
            delta, base = header.last_offset_delta, header.base_offset
            last = (header.base_sequence + delta) & _SEQUENCE_MASK
            if header.producer_epoch != producer.epoch or header.base_sequence < 0:
                found.clear()
                continue
            if found and header.base_sequence != (found[-1].last_sequence + 1) & _SEQUENCE_MASK:
                found.clear()
            newest = header.max_timestamp
            found.append(_Batch(header.base_sequence, last, base, base + delta, newest))
        if found and found[-1].last_offset == producer.batches[-1].last_offset:
            producer.batches = found[-BATCHES_KEPT:]

    def _of_epoch(self, producer_id: int, epoch: int) -> _Producer:
        producer = self._producers.get(producer_id)
        if producer is None:
            producer = self._producers[producer_id] = _Producer(epoch)
        elif producer.epoch != epoch:
            producer.epoch = epoch
            producer.batches.clear()
        return producer


def is_control(header: BatchHeader) -> bool:
    """Whether the batch holds markers instead of data."""
    return bool(header.attributes & CONTROL)


def _check_in_open(producer: _Producer, header: BatchHeader) -> None:
    """Refuse what is new and in no transaction while one is open; what is there already may be."""
    if producer.txn_first_offset >= 0 and not header.attributes & TRANSACTIONAL:
        raise ApiError(ErrorCode.INVALID_TXN_STATE, "the producer has a transaction open here")


def _out_of_order(header: BatchHeader, expected: str) -> ApiError:
    return ApiError(
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        f"producer {header.producer_id} sent sequence {header.base_sequence}, expected {expected}",
    )
