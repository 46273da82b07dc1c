"""`last_header`: find the last batch of a buffer by batch lengths alone."""

import struct

from headrace.record.batch import BatchHeader, Bytes, parse_header
from headrace.record.batch_layout import (
    BATCH_LENGTH_AT,
    HEADER_BYTES,
    LENGTH_MIN,
    MAGIC,
    OVERHEAD_BYTES,
)
from headrace.record.compression import CorruptBatch

_unpack_int32 = struct.Struct(">i").unpack_from


def last_header(view: Bytes) -> BatchHeader | None:
    """Return the header of the last whole batch in `view`, or None if there is no whole batch.

    Takes a fifth of the time of `iterate`. CorruptBatch for an impossible length, or another magic
    in the last batch.
    """
    end, at, last = len(view), 0, -1
    while at + HEADER_BYTES <= end:
        (length,) = _unpack_int32(view, at + BATCH_LENGTH_AT)
        if length < LENGTH_MIN:
            raise CorruptBatch(f"no batch at {at}: length {length}")
        following = at + length + OVERHEAD_BYTES
        if following > end:
            break
        last, at = at, following
    if last < 0:
        return None
    header = parse_header(view, last)
    if header.magic != MAGIC:
        raise CorruptBatch(f"no batch at {last}: magic {header.magic}")
    return header
