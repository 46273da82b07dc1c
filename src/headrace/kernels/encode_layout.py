"""What the encoders in numba and in Python share: the slots of their state, and how they end.

`divide_rows` says which partition each row goes to, `encode_records` writes the records of one
batch, as many of a partition's rows as fit. Columns come as Arrow has them: `*_ends` are one longer
than the rows, of length 0 where there is no such column, and `*_there` has a byte for each row,
nonzero where the value is there, of length 0 where all are.
"""

from enum import IntEnum


class EncodeSlot(IntEnum):
    """Places in the int64 `state` of `encode_records`."""

    NEXT = 0  # which place of `order` comes next; moved on
    BYTES = 1  # written to `out`
    COUNT = 2  # records written
    BASE_MS = 3  # timestamp of the first one
    MAX_MS = 4
    NEEDED = 5  # bytes of a record that is larger than `out`


ENCODE_SLOTS = len(EncodeSlot)


class Encoded(IntEnum):
    """What `encode_records` ends with."""

    DONE = 0  # no row is left
    FULL = 1  # the batch is full
    TOO_LARGE = 2  # not one record fits `out`: NEEDED says what does
    BAD = -1  # a column's offsets do not lie in its data


class Divided(IntEnum):
    """What `divide_rows` ends with; its second result is the row."""

    DONE = 0
    BAD_TOPIC = -1  # no topic is given
    BAD_PARTITION = -2  # the topic has no such partition
    BAD_KEY = -3  # a key's offsets do not lie in the data
