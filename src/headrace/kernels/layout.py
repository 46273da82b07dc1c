"""The state array and the outcomes that the decoders in numba and in Python share.

`decode_records(src, state, outs...)` is called once per record batch, and again after FULL with
the rows flushed. All positions are kept in one int64 array, `state`, so that a call costs few
arguments.
"""

from enum import IntEnum


class Slot(IntEnum):
    """Places in `state`. The first group is set by the caller for each batch."""

    POSITION = 0  # where the next record starts in `src`; moved on by decode_records
    END = 1  # where the records end in `src`
    RECORDS_LEFT = 2  # counts down from the header's record count
    BASE_OFFSET = 3
    LAST_DELTA = 4  # last_offset_delta of the header
    PREVIOUS_DELTA = 5  # offset delta of the record before, -1 at the batch's start
    BASE_TIME_MS = 6  # base timestamp; with FIXED_TIME the timestamp of every record
    FIXED_TIME = 7  # 1: LogAppendTime, record deltas do not count
    OFFSET_FROM = 8  # rows below are left out
    OFFSET_UNTIL = 9  # rows from here on are left out
    # The second group says how full the output buffers are; set to zero for each RecordBatch.
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
    """Places in the `chunk` array of `decode_batches.decode_batches`."""

    AT = 0  # where the next batch starts; moved on
    EXPECTED = 1  # least base offset allowed; moved on
    LIMIT = 2  # no batch reaches this offset
    NEEDED = 3  # first offset that is still needed; moved on
    TIME_TYPE = 4  # LOG_APPEND_TIME or 0: batches of the other kind are not taken
    IN_SCRATCH = 5  # where the batch of FULL lies
    ATTRIBUTES = 6  # bits that a batch may have


class ChunkOutcome(IntEnum):
    """What `decode_batches` ends with."""

    EXHAUSTED = 0  # no whole batch is left
    NOT_PLAIN = 1  # the batch is one for `PartitionDecoder`
    FULL = 2  # flush and go on


SLOTS = len(Slot)
BATCH_SLOTS = int(Slot.ROWS)


class Outcome(IntEnum):
    """What `decode_records` ends with. Negative: the batch is broken, its call's rows are void."""

    DONE = 0
    FULL = 1  # no room for the record at POSITION; flush and call again
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
