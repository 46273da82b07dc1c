"""The layout of a record batch v2, stated once: where fields lie, and their order (KIP-98).

Plain constants: code that is too hot for a parsed header, and compiled code, uses them as they are.
"""

import struct

HEADER = struct.Struct(">qiibIhiqqqhii")
"""All fields before the records, in the order of `BatchHeader`."""
FRAME = struct.Struct(">qiibIhi")
"""The first seven of them: what tells where a batch ends, which offsets it has, its checksum."""
TIMED_FRAME = struct.Struct(">qiibIhiqqq")
"""The first ten: with the timestamps and the producer's id."""

# Where fields that are read or stamped in place lie in the bytes.
BASE_OFFSET_AT = 0
BATCH_LENGTH_AT = 8
LEADER_EPOCH_AT = 12
MAGIC_AT = 16
CRC_AT = 17
ATTRIBUTES_AT = 21
LAST_OFFSET_DELTA_AT = 23
BASE_TIMESTAMP_AT = 27
MAX_TIMESTAMP_AT = 35
RECORD_COUNT_AT = 57
HEADER_BYTES = 61

OVERHEAD_BYTES = LEADER_EPOCH_AT
"""Base offset and length: what `batch_length` does not count."""
LENGTH_MIN = HEADER_BYTES - OVERHEAD_BYTES
"""The `batch_length` of a batch without records."""
CRC_FROM = ATTRIBUTES_AT
"""The checksum covers everything from the attributes on, so base offset and leader epoch, which
precede it, are stamped without touching the client's checksum."""
MAGIC = 2

# Which item of a parsed header a field is: `header[PRODUCER_ID]` where a name's lookup counts.
BASE_OFFSET = 0
BATCH_LENGTH = 1
ATTRIBUTES = 5
LAST_OFFSET_DELTA = 6
BASE_TIMESTAMP = 7
MAX_TIMESTAMP = 8
PRODUCER_ID = 9
PRODUCER_EPOCH = 10
BASE_SEQUENCE = 11
RECORD_COUNT = 12
