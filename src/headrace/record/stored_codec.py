"""The codec and level in which a topic's `compression.type` stores batches."""

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
    """Return the codec of a topic's batches on disk; None: as the producer compressed them."""
    return _CODECS.get(config.compression_type)


def level_of(config: "LogConfig", codec: Codec | None) -> int | None:
    """Return the topic's compression level for `codec`, or None if the codec has no level."""
    match codec:
        case Codec.GZIP:
            return config.compression_gzip_level
        case Codec.LZ4:
            return config.compression_lz4_level
        case Codec.ZSTD:
            return config.compression_zstd_level
        case _:
            return None
