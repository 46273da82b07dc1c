"""State slots and outcomes shared by the decoders in numba and in Python.

`decode_records(src, state, outs...)` is called once per batch, and again after FULL once the rows
were flushed. All positions are in the int64 array `state`, so that a call has few arguments.
"""

from enum import IntEnum


class Slot(IntEnum):
    """Indices in `state`. The caller sets the first group for each batch."""

    POSITION = 0  # Start of the next record in `src`; advanced.
    END = 1  # End of the records in `src`.
    RECORDS_LEFT = 2  # Counts down from the header's record count.
    BASE_OFFSET = 3
    LAST_DELTA = 4  # The header's last offset delta.
    PREVIOUS_DELTA = 5  # Offset delta of the previous record; -1 at the start of the batch.
    BASE_TIME_MS = 6  # Base timestamp; with FIXED_TIME the timestamp of all records.
    FIXED_TIME = 7  # 1 for LogAppendTime: record deltas are ignored.
    OFFSET_FROM = 8  # Records below this offset are skipped.
    OFFSET_UNTIL = 9  # Records from this offset on are skipped.
    # The second group: how full the output buffers are; zeroed for each RecordBatch.
    ROWS = 10
    KEY_BYTES = 11
    VALUE_BYTES = 12
    KEY_NULLS = 13
    VALUE_NULLS = 14
    HEADERS = 15
    HEADER_KEY_BYTES = 16
    HEADER_VALUE_BYTES = 17
    HEADER_VALUE_NULLS = 18
    HEADER_LIST_NULLS = 19


class ChunkSlot(IntEnum):
    """Indices in the `chunk` array of `decode_batches.decode_batches`."""

    AT = 0  # Start of the next batch; advanced.
    EXPECTED = 1  # Least valid base offset; advanced.
    LIMIT = 2  # Exclusive upper bound of offsets.
    NEEDED = 3  # First offset that is wanted; advanced.
    TIME_TYPE = 4  # LOG_APPEND_TIME or 0; a batch of the other type is not plain.
    IN_SCRATCH = 5  # After FULL: whether the batch is in `scratch`.
    ATTRIBUTES = 6  # Attribute bits that a plain batch may have.


class ChunkOutcome(IntEnum):
    """Outcome of `decode_batches`."""

    EXHAUSTED = 0  # No complete batch is left.
    NOT_PLAIN = 1  # The next batch must be decoded by `PartitionDecoder`.
    FULL = 2  # Flush and call again.


SLOTS = len(Slot)
BATCH_SLOTS = int(Slot.ROWS)


class Outcome(IntEnum):
    """Outcome of `decode_records`. Negative: the batch is corrupt, and rows of this call are
    invalid."""

    DONE = 0
    FULL = 1  # The record at POSITION does not fit; flush and call again.
    BAD_LENGTH = -1
    BAD_OFFSET = -2
    BAD_TIME = -3
    BAD_KEY = -4
    BAD_VALUE = -5
    BAD_HEADERS = -6
    BAD_END = -7


COMPLAINTS = {
    Outcome.BAD_LENGTH: "a record's length runs past the batch",
    Outcome.BAD_OFFSET: "a record's offset lies outside the batch or does not increase",
    Outcome.BAD_TIME: "a record's timestamp is no varint",
    Outcome.BAD_KEY: "a key runs past its record",
    Outcome.BAD_VALUE: "a value runs past its record",
    Outcome.BAD_HEADERS: "headers run past their record, or short of its end",
    Outcome.BAD_END: "bytes left over after the last record",
}

INT64_MIN = -(2**63)
INT64_MAX = 2**63 - 1
MICROS_PER_MS = 1000
