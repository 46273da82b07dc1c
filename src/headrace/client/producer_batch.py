"""A producer's batches: records of one partition that are sent together, split if too large.

A topic whose `max.message.bytes` is below the producer's batch size refuses whole batches of small
records. The producer cuts such a batch in two (KIP-126). The halves reuse the refused batch's
sequence numbers, so later batches keep theirs and no record is stored twice.
"""

from dataclasses import dataclass, field
from itertools import accumulate

from headrace.client.producer.value_batches import bytes_beside
from headrace.model.errors import ErrorCode
from headrace.model.nouns import TopicPartition
from headrace.record.batch import TRANSACTIONAL, build, codec_of, parse_header, records
from headrace.record.encoded_records import EncodedRecords
from headrace.record.record import Record

TOO_LARGE = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})
"""Error codes for a batch that exceeds `max.message.bytes` or `segment.bytes`."""
_SEQUENCE_MASK = 0x7FFFFFFF
_SHOWN_BYTES = 40


@dataclass(slots=True, eq=False)
class Batch:
    """A producer batch: records of one partition, before and after encoding."""

    partition: TopicPartition
    records: list[Record] = field(default_factory=list)
    size: int = 0
    keyed: bool = False
    sequence: int = -1
    encoded: EncodedRecords | None = None
    """Records that another thread or process has encoded; None: `records` holds them."""
    data: bytes = b""
    """The encoded batch as it is sent, header included; empty until first sent."""
    first_sent: float = 0.0
    in_flight: bool = False
    done: bool = False

    @property
    def count(self) -> int:
        """Number of records in the batch."""
        return len(self.records) if self.encoded is None else self.encoded.record_count

    def halves(self) -> "tuple[Batch, Batch]":
        """Return the first and the second half by bytes of a sent batch of at least two records."""
        contents = list(records(self.data))
        ends = list(accumulate(map(_size, contents)))
        middle = sum(end <= ends[-1] // 2 for end in ends)
        middle = min(max(middle, 1), len(contents) - 1)
        size = self.size * ends[middle - 1] // ends[-1]
        return self._part(contents[:middle], size, 0), self._part(
            contents[middle:], self.size - size, middle
        )

    def _part(self, contents: list[Record], size: int, skipped: int) -> "Batch":
        header = parse_header(self.data)
        sequence = self.sequence
        if sequence >= 0:
            sequence = (sequence + skipped) & _SEQUENCE_MASK
        data = build(
            contents,
            compression=codec_of(header),
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            base_sequence=sequence,
            transactional=bool(header.attributes & TRANSACTIONAL),
        )
        return Batch(self.partition, contents, size, self.keyed, sequence, data=data)

    def only_record(self) -> str:
        """Describe the only record of a refused batch for an error text, without its value.

        Error texts end in log files, so the value is left out.
        """
        (record,) = records(self.data)
        key = "no key" if record.key is None else f"key {_shown(record.key)}"
        place = f", the {self.sequence + 1:,}. of this producer" if self.sequence >= 0 else ""
        return f"a single record of {_size(record):,} bytes ({key}{place}) is too large"


def _size(record: Record) -> int:
    return len(record.value or b"") + bytes_beside(record.key, record.headers)


def _shown(content: bytes) -> str:
    text = content[:_SHOWN_BYTES].decode("utf-8", "backslashreplace")
    return repr(text) + ("…" if len(content) > _SHOWN_BYTES else "")
