"""`KeptProducers`: the stored state of a partition's producers, and its two file formats.

`ProducerStates` decides by this state and updates it. A `.snapshot` file has the last batch of each
producer, as Kafka's has; the list of unchanged logs (`AtRest`) has up to five.
"""

from collections.abc import Callable
from heapq import nsmallest
from typing import Any, NamedTuple

from headrace.log.producers.producer_snapshot import SnapshotEntry, read_snapshot, write_snapshot
from headrace.record.batch import BatchHeader

BATCHES_KEPT = 5
SEQUENCE_MASK = 0x7FFF_FFFF
_FORGOTTEN_PART = 16
NONE = -1


class ProducerBatch(NamedTuple):
    first_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    timestamp: int


class Producer:
    """The state of one producer id in a partition: epoch, last five batches, open transaction."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "epoch",
        "heard_ms",
        "marker_offset",
        "timestamp",
        "txn_first_offset",
    )

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.batches: list[ProducerBatch] = []
        self.timestamp = NONE
        # By the broker's clock. Kafka expires producers by record timestamps alone, and so forgets
        # a producer of old events at the next check: its retry would be written twice.
        self.heard_ms = NONE
        self.coordinator_epoch = NONE
        self.txn_first_offset = NONE
        self.marker_offset = NONE
        """Offset of its last transaction marker that this process has read; -1 if none."""

    @property
    def last_written(self) -> int:
        """Offset of the producer's last batch or marker; -1 if unknown."""
        last = self.batches[-1].last_offset if self.batches else NONE
        return max(last, self.marker_offset)


class KeptProducers:
    """The state of all producers of one partition. Its three containers are never replaced."""

    __slots__ = ("_most", "decided", "ongoing", "producers")

    def __init__(self, most: int | None = None) -> None:
        """Make an empty state; `most`: the largest number of producers, None for no limit."""
        self._most = most
        self.producers: dict[int, Producer] = {}
        self.ongoing: dict[int, int] = {}
        """First offset of each open transaction, by producer id."""
        self.decided: list[tuple[int, int]] = []
        """(first offset, marker offset) of transactions whose marker is not below the high
        watermark."""

    def clear(self) -> None:
        """Remove the state of all producers."""
        self.producers.clear()
        self.ongoing.clear()
        self.decided.clear()

    def make_room(self) -> None:
        """Remove the least recently active producers if the limit is reached.

        A sixteenth of the limit at once, as the search visits all of them. A producer with an open
        transaction stays.
        """
        if self._most is None or len(self.producers) < self._most:
            return
        beyond = len(self.producers) - self._most + 1
        idle = (
            (producer.last_written, producer_id)
            for producer_id, producer in self.producers.items()
            if producer.txn_first_offset < 0
        )
        for _, producer_id in nsmallest(max(beyond, self._most // _FORGOTTEN_PART), idle):
            del self.producers[producer_id]

    def snapshot(self) -> bytes:
        """Encode a `.snapshot` file: the last batch of each producer, as in Kafka."""
        return write_snapshot(self.entries())

    def entries(self) -> list[SnapshotEntry]:
        """Return the snapshot entries, ordered by producer id (also used by DescribeProducers)."""
        found = []
        for producer_id in sorted(self.producers):
            producer = self.producers[producer_id]
            last = producer.batches[-1] if producer.batches else None
            found.append(
                SnapshotEntry(
                    producer_id,
                    producer.epoch,
                    NONE if last is None else last.last_sequence,
                    NONE if last is None else last.last_offset,
                    0 if last is None else last.last_offset - last.base_offset,
                    producer.timestamp,
                    producer.coordinator_epoch,
                    producer.txn_first_offset,
                )
            )
        return found

    def load(self, content: bytes, path: str, heard_ms: Callable[[int], int] | None = None) -> None:
        """Replace the whole state by that of a `.snapshot` file. Raises CorruptLogError.

        `heard_ms(offset)` returns about when the batch at `offset` was written, in milliseconds.
        """
        entries = read_snapshot(content, path)
        self.clear()
        for entry in entries:
            producer = Producer(entry.producer_epoch)
            producer.timestamp = entry.timestamp
            producer.coordinator_epoch = entry.coordinator_epoch
            producer.txn_first_offset = entry.current_txn_first_offset
            if entry.last_sequence >= 0:
                first_sequence = (entry.last_sequence - entry.offset_delta) & SEQUENCE_MASK
                if heard_ms is not None:
                    producer.heard_ms = heard_ms(entry.last_offset)
                producer.batches.append(
                    ProducerBatch(
                        first_sequence,
                        entry.last_sequence,
                        entry.last_offset - entry.offset_delta,
                        entry.last_offset,
                        entry.timestamp,
                    )
                )
            self.producers[entry.producer_id] = producer
            if producer.txn_first_offset >= 0:
                self.ongoing[entry.producer_id] = producer.txn_first_offset

    @property
    def last_offset(self) -> int:
        """The greatest offset of any producer's last batch; -1 if no batch is known."""
        known = (
            producer.batches[-1].last_offset
            for producer in self.producers.values()
            if producer.batches
        )
        return max(known, default=NONE)

    def knows(self, header: BatchHeader) -> bool:
        """Return whether the state includes a data batch of a known producer that is in the log."""
        producer = self.producers[header.producer_id]
        if header.producer_epoch != producer.epoch:
            return header.producer_epoch < producer.epoch
        last = header.base_offset + header.last_offset_delta
        known = producer.batches[-1].last_offset if producer.batches else NONE
        return header.base_sequence < 0 or last <= known

    def at_rest(self, most: int) -> list[list[Any]] | None:
        """Return the whole state in the form that `set_at_rest` reads.

        None if a transaction is open or undecided, or if there are more than `most` producers.
        """
        if self.ongoing or self.decided or len(self.producers) > most:
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
            for producer_id, producer in self.producers.items()
        ]

    def set_at_rest(self, rows: list[list[Any]]) -> None:
        """Set the state from `at_rest`, instead of reading a snapshot and the batches behind it."""
        for producer_id, epoch, timestamp, heard_ms, coordinator_epoch, batches in rows:
            producer = self.producers[producer_id] = Producer(epoch)
            producer.timestamp = timestamp
            producer.heard_ms = heard_ms
            producer.coordinator_epoch = coordinator_epoch
            producer.batches = [ProducerBatch(*batch) for batch in batches]

    def remember(self, producer_id: int, headers: list[BatchHeader]) -> None:
        """Add batches that precede the producer's last one, given oldest first.

        Only batches of the current epoch whose sequences lead to that last batch without a gap.
        """
        producer = self.producers.get(producer_id)
        if producer is None or not producer.batches:
            return
        found: list[ProducerBatch] = []
        for header in headers:
            delta, base = header.last_offset_delta, header.base_offset
            last = (header.base_sequence + delta) & SEQUENCE_MASK
            if header.producer_epoch != producer.epoch or header.base_sequence < 0:
                found.clear()
                continue
            if found and header.base_sequence != (found[-1].last_sequence + 1) & SEQUENCE_MASK:
                found.clear()
            newest = header.max_timestamp
            found.append(ProducerBatch(header.base_sequence, last, base, base + delta, newest))
        if found and found[-1].last_offset == producer.batches[-1].last_offset:
            producer.batches = found[-BATCHES_KEPT:]
