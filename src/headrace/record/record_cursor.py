"""`RecordCursor`: the records of one batch that are not read yet, decoded one by one."""

from headrace.record.batch import LOG_APPEND_TIME, codec_of, parse_header, size_of
from headrace.record.batch_layout import HEADER_BYTES
from headrace.record.compression import DECOMPRESSED_BYTES_MAX, Codec, CorruptBatch, decompress
from headrace.record.record import Record, read_into, read_unsigned


class RecordCursor:
    """The records of a batch that are not read yet.

    A reader of a hot path may decode them itself: it moves `at`, `left` and `delta` together.
    """

    __slots__ = (
        "append_time", "at", "base_offset", "base_timestamp", "data", "delta", "end", "left",
    )  # fmt: skip

    def __init__(self, data: bytes, begin: int) -> None:
        """Begin at the first record of the batch at byte `begin`, whose CRC was checked.

        Decompresses the batch. Raises CorruptBatch.
        """
        header = parse_header(memoryview(data)[begin:])
        codec = codec_of(header)
        end = begin + size_of(header)
        if end > len(data):
            raise CorruptBatch(f"a batch of {size_of(header)} bytes in {len(data) - begin}")
        self.data, self.at, self.end = data, begin + HEADER_BYTES, end
        if codec is not Codec.NONE:
            payload = memoryview(data)[self.at : end]
            self.data = bytes(decompress(codec, payload, DECOMPRESSED_BYTES_MAX))
            self.at, self.end = 0, len(self.data)
        self.left = header.record_count
        """Records that are not read yet."""
        self.delta = 0
        """The next record's offset less `base_offset`, if no record is missing before it."""
        self.base_offset = header.base_offset
        self.base_timestamp = header.base_timestamp
        self.append_time = header.max_timestamp if header.attributes & LOG_APPEND_TIME else None
        """The timestamp of all records, in ms; None: each has its own."""

    def read(self) -> Record:
        """Return the next record. Raises CorruptBatch."""
        found: list[Record] = []
        bases = self.base_offset, self.base_timestamp, self.append_time
        try:
            at = read_into(found, 1, self.data, self.at, *bases)
        except (IndexError, UnicodeDecodeError) as error:
            raise CorruptBatch(f"a record does not parse: {error}") from None
        if at > self.end:
            raise CorruptBatch("a record is longer than its batch")
        (record,), self.at = found, at
        self.left -= 1
        self.delta = record.offset - self.base_offset + 1
        return record

    def skip_to(self, offset: int) -> None:
        """Skip the records below an offset. Raises CorruptBatch."""
        data, target = self.data, offset - self.base_offset
        try:
            while self.left and self.delta < target:
                size, at = read_unsigned(data, self.at)
                after = at + (size >> 1)
                _, at = read_unsigned(data, at + 1)
                delta, _ = read_unsigned(data, at)
                if size & 1 or after > self.end:
                    raise CorruptBatch("a record is longer than its batch")
                if delta >> 1 >= target:
                    return
                self.at = after
                self.left -= 1
                self.delta = (delta >> 1) + 1
        except IndexError as error:
            raise CorruptBatch(f"a record does not parse: {error}") from None
