"""The codec that a topic's `compression.type` wants its batches stored in."""

from typing import TYPE_CHECKING

from headrace.record.compression import Codec

if TYPE_CHECKING:
    from headrace.config.log_config import LogConfig

_CODECS = {
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}


def stored_codec(config: "LogConfig") -> Codec | None:
    """Return it; None: batches are stored as their producers made them."""
    return _CODECS.get(config.compression_type)


def level_of(config: "LogConfig", codec: Codec | None) -> int | None:
    """Return how hard that codec is to compress; None: there is nothing to choose."""
    match codec:
        case Codec.GZIP:
            return config.compression_gzip_level
        case Codec.LZ4:
            return config.compression_lz4_level
        case Codec.ZSTD:
            return config.compression_zstd_level
        case _:
            return None
