"""The four codecs of a record batch: compress, and decompress within a size limit.

Codec libraries are imported at first use, as the broker's produce path never compresses.
"""

import struct
import zlib
from enum import IntEnum
from typing import TYPE_CHECKING

from headrace.model.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    from zstandard import ZstdDecompressionObj

DECOMPRESSED_BYTES_MAX = 64 * 1024 * 1024
"""Most bytes that one batch may decompress to by default: a limit for zip bombs."""

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_CHUNK_BYTES = 32 * 1024
_INT32 = struct.Struct(">i")
_GZIP_WINDOW = 31
_LZ4_FAST = 9
"""Kafka's level for fast LZ4; all other levels use the high-compression mode."""
_LZ4_LEVEL_MAX = 16
_ZSTD_WINDOW_BYTES_MAX = 128 * 1024 * 1024
_ZSTD_RATIO_MAX = 32 * 1024  # a run-length block of 4 bytes decompresses to 128 KiB
_ZSTD_PIECE_BYTES_MIN = 64
_SNAPPY_RATIO_MAX = 64

Bytes = bytes | bytearray | memoryview


class Codec(IntEnum):
    """The compression codec of a batch: bits 0-2 of its attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class CorruptBatch(ApiError):
    """A malformed batch, or one that exceeds a size limit. Carries CORRUPT_MESSAGE."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.CORRUPT_MESSAGE, message)


class UnfoldsTooLarge(CorruptBatch):
    """A batch that decompresses, or claims to, to more bytes than allowed."""


def compress(codec: Codec, data: Bytes, level: int | None = None) -> bytes:
    """Compress `data` in the format that Kafka's Java client and librdkafka read.

    `level`: as in `compression.gzip.level` and the like; None: Kafka's default.
    """
    match codec:
        case Codec.NONE:
            return bytes(data)
        case Codec.GZIP:
            squeezer = zlib.compressobj(-1 if level is None else level, zlib.DEFLATED, _GZIP_WINDOW)
            return squeezer.compress(data) + squeezer.flush()
        case Codec.SNAPPY:
            return _xerial_compress(data)
        case Codec.LZ4:
            import lz4.frame

            # Kafka's Java reader refuses linked blocks, the library's default.
            packed: bytes = lz4.frame.compress(
                data,
                compression_level=0 if level in (None, _LZ4_FAST) else min(level, _LZ4_LEVEL_MAX),
                block_linked=False,
                block_size=lz4.frame.BLOCKSIZE_MAX64KB,
                store_size=False,
            )
            return packed
        case Codec.ZSTD:
            import zstandard

            return zstandard.ZstdCompressor(level=3 if level is None else level).compress(data)


def decompress(codec: Codec, data: Bytes, limit: int = DECOMPRESSED_BYTES_MAX) -> Bytes:
    """Decompress `data` to at most `limit` bytes; CorruptBatch if it is larger or malformed.

    `Codec.NONE` returns `data` itself without a copy.
    """
    match codec:
        case Codec.NONE:
            return data
        case Codec.GZIP:
            return _gunzip(data, limit)
        case Codec.SNAPPY:
            return _unsnappy(data, limit)
        case Codec.LZ4:
            return _unlz4(data, limit)
        case Codec.ZSTD:
            return _unzstd(data, limit)


def _too_much(limit: int) -> UnfoldsTooLarge:
    return UnfoldsTooLarge(f"decompresses to more than {limit} bytes")


def _gunzip(data: Bytes, limit: int) -> bytes:
    out = bytearray()
    rest: Bytes = data
    while True:  # a gzip stream may have several members
        inflater = zlib.decompressobj(_GZIP_WINDOW)
        try:
            out += inflater.decompress(rest, limit - len(out) + 1)
        except zlib.error as error:
            raise CorruptBatch(f"gzip: {error}") from None
        if len(out) > limit:
            raise _too_much(limit)
        if not inflater.eof:
            raise CorruptBatch("gzip: ends early")
        rest = inflater.unused_data
        if not rest:
            return bytes(out)


def _unlz4(data: Bytes, limit: int) -> bytes:
    import lz4.frame

    out = bytearray()
    rest: Bytes = data
    while True:
        decoder = lz4.frame.LZ4FrameDecompressor()
        try:
            out += decoder.decompress(rest, max_length=limit - len(out) + 1)
        except (RuntimeError, ValueError, EOFError, MemoryError) as error:
            raise CorruptBatch(f"lz4: {error}") from None
        if len(out) > limit:
            raise _too_much(limit)
        if not decoder.eof:
            raise CorruptBatch("lz4: ends early")
        rest = decoder.unused_data or b""
        if not rest:
            return bytes(out)


def _unzstd(data: Bytes, limit: int) -> bytes:
    import zstandard

    decoder = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW_BYTES_MAX)
    out = bytearray()
    rest = memoryview(data)
    try:
        while True:
            rest = _unzstd_frame(decoder.decompressobj(), rest, out, limit)
            if not rest:
                return bytes(out)
    except zstandard.ZstdError as error:
        raise CorruptBatch(f"zstd: {error}") from None


def _unzstd_frame(
    inflater: "ZstdDecompressionObj", data: memoryview, out: bytearray, limit: int
) -> memoryview:
    """Append one frame's content to `out`; return the bytes behind the frame."""
    at = 0
    while not inflater.eof:
        if at >= len(data):
            raise CorruptBatch("zstd: ends early")
        # The library does not limit its output, so its input is passed in small pieces.
        size = max(_ZSTD_PIECE_BYTES_MIN, (limit - len(out)) // _ZSTD_RATIO_MAX)
        piece = data[at : at + size]
        out += inflater.decompress(piece)
        at += len(piece)
        if len(out) > limit:
            raise _too_much(limit)
    return data[at - len(inflater.unused_data) :]


def _xerial_compress(data: Bytes) -> bytes:
    import cramjam

    view = memoryview(data)
    parts = [_XERIAL_HEADER]
    for at in range(0, len(view), _XERIAL_CHUNK_BYTES):
        chunk = bytes(cramjam.snappy.compress_raw(view[at : at + _XERIAL_CHUNK_BYTES]))
        parts += (_INT32.pack(len(chunk)), chunk)
    return b"".join(parts)


def _unsnappy(data: Bytes, limit: int) -> bytes:
    """Decompress snappy data: Xerial chunks (Java) or one raw block (librdkafka, Go), by its
    magic."""
    view = memoryview(data)
    if bytes(view[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        return _unsnappy_raw(view, limit)
    out = bytearray()
    at = len(_XERIAL_HEADER)
    if len(view) < at:
        raise CorruptBatch("snappy: ends early")
    while at < len(view):
        if at + 4 > len(view):
            raise CorruptBatch("snappy: ends early")
        (size,) = _INT32.unpack_from(view, at)
        at += 4
        if not 0 <= size <= len(view) - at:
            raise CorruptBatch("snappy: chunk longer than the batch")
        out += _unsnappy_raw(view[at : at + size], limit - len(out))
        at += size
    return bytes(out)


def _unsnappy_raw(view: memoryview, limit: int) -> bytes:
    import cramjam

    announced = shift = 0
    for byte in view[:5]:  # a block starts with its decompressed size
        announced |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    # No snappy element of fewer than 3 bytes decompresses to more than 64. A larger claim is false,
    # and would be allocated before it is detected.
    if announced > limit or announced > _SNAPPY_RATIO_MAX * len(view):
        raise _too_much(limit)
    try:
        return bytes(cramjam.snappy.decompress_raw(view))
    except cramjam.DecompressionError as error:
        raise CorruptBatch(f"snappy: {error}") from None
