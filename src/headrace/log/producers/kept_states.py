"""What is remembered of producers, and the ways it outlives the process.

What `ProducerStates` decides by and takes in, and how that is written and read again. A
`.snapshot` has each producer's last batch, as Kafka's does; logs at rest keep all five.
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


class Batch(NamedTuple):
    first_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    timestamp: int


class Producer:
    """One producer id."""

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
        self.batches: list[Batch] = []
        self.timestamp = NONE
        # By our clock. Kafka goes by the records' own times alone and so forgets, at the next tick,
        # whoever sends yesterday's events: a retry of theirs would be written twice.
        self.heard_ms = NONE
        self.coordinator_epoch = NONE
        self.txn_first_offset = NONE
        self.marker_offset = NONE
        """Where its last marker lies, as far as this process has seen it."""

    @property
    def last_written(self) -> int:
        """The offset of the producer's last batch or marker; -1: unknown."""
        last = self.batches[-1].last_offset if self.batches else NONE
        return max(last, self.marker_offset)


class KeptProducers:
    """All producers of one partition. The three containers stay the same objects."""

    __slots__ = ("_most", "decided", "ongoing", "producers")

    def __init__(self, most: int | None = None) -> None:
        """`most`: as of `ProducerStates`."""
        self._most = most
        self.producers: dict[int, Producer] = {}
        self.ongoing: dict[int, int] = {}
        """First offsets of open transactions, by producer id."""
        self.decided: list[tuple[int, int]] = []
        """Transactions whose marker lies at or beyond the high watermark: (first, marker)."""

    def clear(self) -> None:
        """Forget everything."""
        self.producers.clear()
        self.ongoing.clear()
        self.decided.clear()

    def make_room(self) -> None:
        """Forget producers that wrote least recently, so that one more is within `most`.

        A sixteenth of them at once: the search looks at all. An open transaction's producer stays.
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
        """Return the bytes of a `.snapshot`: the last batch of each producer, as Kafka keeps it."""
        return write_snapshot(self.entries())

    def entries(self) -> list[SnapshotEntry]:
        """Return what a snapshot holds, by producer id (DescribeProducers answers with these)."""
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
        """Take over a `.snapshot` in place of everything known. CorruptLogError.

        `heard_ms(offset)`: when the batch with that offset was written, about.
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
                    Batch(
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
        """The greatest offset of any batch known; -1 where none is."""
        known = (
            producer.batches[-1].last_offset
            for producer in self.producers.values()
            if producer.batches
        )
        return max(known, default=NONE)

    def knows(self, header: BatchHeader) -> bool:
        """Tell whether a known producer's data batch, as it lies in the log, has been taken in."""
        producer = self.producers[header.producer_id]
        if header.producer_epoch != producer.epoch:
            return header.producer_epoch < producer.epoch
        last = header.base_offset + header.last_offset_delta
        known = producer.batches[-1].last_offset if producer.batches else NONE
        return header.base_sequence < 0 or last <= known

    def at_rest(self, most: int) -> list[list[Any]] | None:
        """Return all that is known for `set_at_rest`.

        None with a transaction or more than `most`.
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
        """Take that over, in place of a snapshot and the batches before it."""
        for producer_id, epoch, timestamp, heard_ms, coordinator_epoch, batches in rows:
            producer = self.producers[producer_id] = Producer(epoch)
            producer.timestamp = timestamp
            producer.heard_ms = heard_ms
            producer.coordinator_epoch = coordinator_epoch
            producer.batches = [Batch(*batch) for batch in batches]

    def remember(self, producer_id: int, headers: list[BatchHeader]) -> None:
        """Put batches that precede the producer's last one back, the oldest first.

        Only those of the present epoch whose sequences lead up to that last batch without a gap.
        """
        producer = self.producers.get(producer_id)
        if producer is None or not producer.batches:
            return
        found: list[Batch] = []
        for header in headers:
            delta, base = header.last_offset_delta, header.base_offset
            last = (header.base_sequence + delta) & SEQUENCE_MASK
            if header.producer_epoch != producer.epoch or header.base_sequence < 0:
                found.clear()
                continue
            if found and header.base_sequence != (found[-1].last_sequence + 1) & SEQUENCE_MASK:
                found.clear()
            newest = header.max_timestamp
            found.append(Batch(header.base_sequence, last, base, base + delta, newest))
        if found and found[-1].last_offset == producer.batches[-1].last_offset:
            producer.batches = found[-BATCHES_KEPT:]
