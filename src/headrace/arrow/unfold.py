"""The codecs of record batches for many small batches: decoder objects are kept, nothing is probed.

The quick way covers what producers write; whatever it does not recognise, and every error, goes
to `wire.kafka.compression`, whose word on limits and corruption is final.
"""

from typing import Any

from headrace.wire.kafka.compression import DECOMPRESSED_BYTES_MAX, Codec, decompress

Bytes = bytes | bytearray | memoryview

_USUAL_RATIO = 8
_USUAL_BYTES_MIN = 4096


class Unfolder:
    """Decompresses batch after batch, each to at most `limit` bytes. Not for several threads."""

    def __init__(self, limit: int = DECOMPRESSED_BYTES_MAX) -> None:
        self._limit = limit
        self._lz4: Any = None
        self._zstd: Any = None
        self._zstd_size: Any = None

    def unfold(self, codec: Codec, data: memoryview) -> Bytes:
        """What `data` unfolds to; CorruptBatch where it is broken or too much."""
        unfolded: bytes | None = None
        if codec is Codec.LZ4:
            unfolded = self._quick_lz4(data)
        elif codec is Codec.ZSTD:
            unfolded = self._quick_zstd(data)
        return decompress(codec, data, self._limit) if unfolded is None else unfolded

    def _quick_lz4(self, data: memoryview) -> bytes | None:
        if self._lz4 is None:
            import lz4.frame

            self._lz4 = lz4.frame.LZ4FrameDecompressor()
        decoder = self._lz4
        decoder.reset()
        try:
            # The library allocates `max_length` at once, so not more than most batches need.
            room = min(self._limit, _USUAL_RATIO * len(data) + _USUAL_BYTES_MIN)
            unfolded: bytes = decoder.decompress(data, max_length=room)
        except (RuntimeError, ValueError, EOFError, MemoryError):
            return None
        return unfolded if decoder.eof and not decoder.unused_data else None

    def _quick_zstd(self, data: memoryview) -> bytes | None:
        import zstandard

        if self._zstd is None:
            self._zstd = zstandard.ZstdDecompressor()
            self._zstd_size = zstandard.frame_content_size
        try:
            # Only where the frame says its size, before anything is allocated for it.
            if not 0 < self._zstd_size(data) <= self._limit:
                return None
            unfolded: bytes = self._zstd.decompress(data, allow_extra_data=False)
        except zstandard.ZstdError:
            return None
        return unfolded
