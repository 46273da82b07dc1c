"""Check the frame header of a compressed batch, so that every language's consumer can read it.

A producer's library may write data that its own consumer reads and Kafka's Java consumer does not,
such as LZ4 with linked blocks. Kafka decompresses each batch and refuses these. Here only the
frame's header is read, at a fixed cost per batch:

    gzip    1f 8b 08 | flags, no reserved ones
    snappy  82 "SNAPPY" 00 | version | compatible | length of the first chunk    (Java's, Xerial)
            size, a varint | a literal                       (librdkafka's and Go's, one raw block)
    lz4     04 22 4d 18 | FLG | BD | [content size, 8] | header checksum
    zstd    28 b5 2f fd | descriptor | [window] | [dictionary id] | …

FLG is `01IBSC-D`: version 1, blocks independent (I), block checksums (B), content size (S), content
checksum (C), dictionary (D). BD is `0mmm----`: the greatest block, 4 (64 KiB) to 7 (4 MiB).
"""

import struct
from collections.abc import Callable
from functools import lru_cache

from headrace.model.errors import ApiError, ErrorCode
from headrace.record.batch_layout import HEADER_BYTES
from headrace.record.compression import Codec

_GZIP = b"\x1f\x8b\x08"
_GZIP_RESERVED = 0xE0
_XERIAL = b"\x82SNAPPY\x00"
_SNAPPY_STREAM = b"\xff\x06\x00\x00sNaPpY"
_SNAPPY_RATIO_MAX = 64
"""Greatest compression ratio: an element of two or more bytes decompresses to 64 at most."""
_LZ4 = b"\x04\x22\x4d\x18"
_LZ4_INDEPENDENT = 0x20
_LZ4_CONTENT_SIZE = 0x08
_ZSTD = b"\x28\xb5\x2f\xfd"
_ZSTD_SKIPPABLE = b"\x2a\x4d\x18"
_ZSTD_SINGLE_SEGMENT = 0x20
_ZSTD_DICTIONARY_BYTES = (0, 1, 2, 4)
_ZSTD_WINDOW_LOG_MAX = 27
"""Greatest window, as a power of two: Java and libzstd read up to 128 MiB by default."""
_HEAD_BYTES = 24
"""Bytes read: the longest header, Xerial's with its first chunk's length, has 20."""
_CHUNK = struct.Struct(">i")

_MASK = 0xFFFFFFFF
_PRIME_1, _PRIME_2, _PRIME_3 = 2654435761, 2246822519, 3266489917
_PRIME_4, _PRIME_5 = 668265263, 374761393


def check_frame(codec: int, view: memoryview | bytes | bytearray) -> None:
    """Raise ApiError INVALID_RECORD if Kafka's consumers cannot decompress the batch.

    Only the frame header is checked. (Kafka answers UNKNOWN_SERVER_ERROR without a reason; both are
    final for producers.)
    """
    problem = _PROBLEMS[codec](bytes(view[HEADER_BYTES : HEADER_BYTES + _HEAD_BYTES]), len(view))
    if problem is not None:
        raise ApiError(ErrorCode.INVALID_RECORD, f"{Codec(codec).name.lower()}: {problem}")


def _gzip_problem(head: bytes, _: int) -> str | None:
    if not head.startswith(_GZIP):
        return "the batch does not begin with a gzip member"
    if len(head) < 4 or head[3] & _GZIP_RESERVED:
        return "a reserved flag of the gzip member is set"
    return None


def _snappy_problem(head: bytes, batch_bytes: int) -> str | None:
    if head.startswith(_XERIAL):
        chunk = _CHUNK.unpack_from(head, 16)[0] if len(head) >= 20 else 0
        if not 0 < chunk <= batch_bytes - HEADER_BYTES - 20:
            return "the first chunk is longer than the batch"
        return None
    if head.startswith(_SNAPPY_STREAM):
        return "snappy's stream format, which no Kafka client reads"
    size = at = 0
    for byte in head[:5]:
        size |= (byte & 0x7F) << (7 * at)
        at += 1
        if byte < 0x80:
            break
    # The first element has nothing to copy from, so it must be a literal.
    literal = at < len(head) and head[at] & 3 == 0
    if not literal or not 0 < size <= _SNAPPY_RATIO_MAX * (batch_bytes - HEADER_BYTES):
        return "the batch is neither one raw block nor in Java's format"
    return None


def _lz4_problem(head: bytes, _: int) -> str | None:
    if not head.startswith(_LZ4):
        return "the batch does not begin with an LZ4 frame"
    end = 14 if len(head) > 4 and head[4] & _LZ4_CONTENT_SIZE else 6
    if len(head) <= end:
        return "the LZ4 frame ends early"
    problem = _lz4_options_problem(head[4], head[5])
    if problem is None and head[end] != _header_checksum(head[4:end]):
        return "the header checksum of the LZ4 frame is wrong"
    return problem


def _lz4_options_problem(flg: int, bd: int) -> str | None:
    if flg >> 6 != 1:
        return f"version {flg >> 6} of the LZ4 frame format does not exist"
    if not flg & _LZ4_INDEPENDENT:
        return (
            "blocks of the LZ4 frame depend on each other, which Kafka's Java consumer does not"
            " read: compress with independent blocks (Python's lz4.frame: block_linked=False)"
        )
    if flg & 0x03:
        return "the LZ4 frame needs a dictionary, or a reserved flag is set"
    if bd & 0x8F or not 4 <= bd >> 4 <= 7:
        return "the LZ4 frame names no block size from 64 KiB to 4 MiB"
    return None


@lru_cache(maxsize=64)
def _header_checksum(descriptor: bytes) -> int:
    """Return the second byte of the XXH32 hash of an LZ4 frame descriptor (2 or 10 bytes).

    Cached: descriptors without a content size have few values.
    """
    value = (_PRIME_5 + len(descriptor)) & _MASK
    at = 0
    while at + 4 <= len(descriptor):
        value += int.from_bytes(descriptor[at : at + 4], "little") * _PRIME_3
        value = _rotated(value & _MASK, 17) * _PRIME_4 & _MASK
        at += 4
    for byte in descriptor[at:]:
        value = _rotated((value + byte * _PRIME_5) & _MASK, 11) * _PRIME_1 & _MASK
    value = (value ^ value >> 15) * _PRIME_2 & _MASK
    value = (value ^ value >> 13) * _PRIME_3 & _MASK
    return (value ^ value >> 16) >> 8 & 0xFF


def _rotated(value: int, bits: int) -> int:
    return (value << bits | value >> (32 - bits)) & _MASK


def _zstd_problem(head: bytes, _: int) -> str | None:
    if not head.startswith(_ZSTD):
        if len(head) > 4 and head[0] & 0xF0 == 0x50 and head[1:4] == _ZSTD_SKIPPABLE:
            return None  # the frame behind a skippable one is not checked
        return "the batch does not begin with a zstd frame"
    if len(head) < 10:
        return "the zstd frame ends early"
    descriptor, at = head[4], 5
    if descriptor & 0x08:
        return "a reserved flag of the zstd frame is set"
    if not descriptor & _ZSTD_SINGLE_SEGMENT:
        log, eighths = 10 + (head[5] >> 3), head[5] & 7
        if log > _ZSTD_WINDOW_LOG_MAX or (log == _ZSTD_WINDOW_LOG_MAX and eighths):
            return "the zstd frame needs a window of more than 128 MiB"
        at = 6
    if any(head[at : at + _ZSTD_DICTIONARY_BYTES[descriptor & 3]]):
        return "the zstd frame needs a dictionary"
    return None


_PROBLEMS: dict[int, Callable[[bytes, int], str | None]] = {
    Codec.GZIP: _gzip_problem,
    Codec.SNAPPY: _snappy_problem,
    Codec.LZ4: _lz4_problem,
    Codec.ZSTD: _zstd_problem,
}
"""The check of each codec by its number, 1 to 4."""
