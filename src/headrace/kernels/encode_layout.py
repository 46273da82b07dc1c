"""State slots and outcomes shared by the encoders in numba and in Python.

`divide_rows` assigns rows to partitions; `encode_records` writes the records of one batch, as many
of a partition's rows as fit. Columns come in Arrow's form: `*_ends` are offsets, one more than
rows, empty if the column is missing; `*_there` has a byte per row, nonzero if the value is not
null, empty if no value is null.
"""

from enum import IntEnum


class EncodeSlot(IntEnum):
    """Indices in the int64 `state` of `encode_records`."""

    NEXT = 0  # Next index in `order`; advanced.
    BYTES = 1  # Bytes written to `out`.
    COUNT = 2  # Records written.
    BASE_MS = 3  # Timestamp of the first record.
    MAX_MS = 4
    NEEDED = 5  # Size in bytes of a record that does not fit `out`.


ENCODE_SLOTS = len(EncodeSlot)


class Encoded(IntEnum):
    """Outcome of the kernel `encode_records`, which fills one record batch."""

    DONE = 0  # All rows are written.
    FULL = 1  # The batch is full.
    TOO_LARGE = 2  # Not even one record fits `out`; NEEDED is its size.
    BAD = -1  # A column's offsets exceed its data.


class Divided(IntEnum):
    """Outcome of `divide_rows`; its second result is the row concerned."""

    DONE = 0
    BAD_TOPIC = -1  # The row has no topic.
    BAD_PARTITION = -2  # The topic has no such partition.
    BAD_KEY = -3  # A key's offsets exceed the data.
