"""Fast decompression of many small batches: decoder objects are reused, nothing is probed.

The fast path covers frames as producers write them. Any other frame, and every error, is left to
`record.compression`, which decides about limits and corruption.
"""

from typing import Any

from headrace.record.compression import DECOMPRESSED_BYTES_MAX, Codec
from headrace.record.compression import decompress as decompress_once

Bytes = bytes | bytearray | memoryview

_LZ4_RATIO_MAX = 255


class Decompressor:
    """Decompresses batches, each to at most `limit` bytes. Not thread-safe."""

    def __init__(self, limit: int = DECOMPRESSED_BYTES_MAX) -> None:
        self._limit = limit
        self._lz4: Any = None
        self._lz4_decompress: Any = None
        self._zstd: Any = None
        self._zstd_size: Any = None

    def decompress(self, codec: Codec, data: memoryview) -> Bytes:
        """Return the decompressed bytes of `data`; CorruptBatch if it is invalid or exceeds the
        limit."""
        decompressed: bytes | None = None
        if codec is Codec.LZ4:
            decompressed = self._quick_lz4(data)
        elif codec is Codec.ZSTD:
            decompressed = self._quick_zstd(data)
        return decompress_once(codec, data, self._limit) if decompressed is None else decompressed

    def _quick_lz4(self, data: memoryview) -> bytes | None:
        # A byte of LZ4 expands to at most 255, so a small frame needs no limit. The library is
        # faster without one; with one it allocates the whole limit at once.
        size = len(data)
        if size * _LZ4_RATIO_MAX > self._limit:
            return None
        if self._lz4 is None:
            import lz4.frame

            self._lz4 = lz4.frame.create_decompression_context()
            self._lz4_decompress = lz4.frame.decompress_chunk
        try:
            decompressed: bytes
            decompressed, read, whole = self._lz4_decompress(self._lz4, data)
        except (RuntimeError, ValueError, EOFError, MemoryError):
            self._lz4 = None
            return None
        if whole and read == size:
            return decompressed
        self._lz4 = None
        return None

    def _quick_zstd(self, data: memoryview) -> bytes | None:
        import zstandard

        if self._zstd is None:
            self._zstd = zstandard.ZstdDecompressor()
            self._zstd_size = zstandard.frame_content_size
        try:
            # Only if the frame states its size, which is checked before memory is allocated.
            if not 0 < self._zstd_size(data) <= self._limit:
                return None
            decompressed: bytes = self._zstd.decompress(data, allow_extra_data=False)
        except zstandard.ZstdError:
            return None
        return decompressed
