"""The layout of a record batch v2: field positions and field order (KIP-98).

    byte  0 base offset, i64        21 attributes, i16            43 producer id, i64
          8 batch length, i32       23 last offset delta, i32     51 producer epoch, i16
         12 leader epoch, i32       27 base timestamp, i64        53 base sequence, i32
         16 magic 2, i8             35 max timestamp, i64         57 record count, i32
         17 CRC32C of byte 21 on                                  61 records, maybe compressed

    attributes: bits 0-2 codec, 3 LogAppendTime, 4 transactional, 5 control, 6 delete horizon

    record      length | attributes, i8 0 | timestamp delta | offset delta
                key length | key | value length | value | header count | headers
    header      name length | name | value length | value

Numbers in records are zig-zag varints: 7 bits a byte, least significant first, bit 7 set if more
bytes follow; an odd number encodes a negative one. A length of -1 (byte 1) is null.

Plain constants, for code too hot for a parsed header and for compiled code.
"""

import struct

HEADER = struct.Struct(">qiibIhiqqqhii")
"""All header fields, in the order of `BatchHeader`."""
FRAME = struct.Struct(">qiibIhi")
"""The first seven fields: the batch's size, offsets and CRC."""
TIMED_FRAME = struct.Struct(">qiibIhiqqq")
"""The first ten fields: also the timestamps and the producer id."""

# Byte positions of the fields that are read or written in place.
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
"""Size of base offset and batch length, which `batch_length` does not include."""
LENGTH_MIN = HEADER_BYTES - OVERHEAD_BYTES
"""The `batch_length` of a batch without records."""
CRC_FROM = ATTRIBUTES_AT
"""First byte covered by the CRC: the attributes.

Base offset and leader epoch precede it, so the broker sets them and keeps the client's CRC.
"""
MAGIC = 2

# Indexes of fields in a parsed header: `header[PRODUCER_ID]` is faster than by name.
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
