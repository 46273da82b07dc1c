"""Which compressed batches are refused because some client's consumer could not decompress them."""

import gzip
import struct
import zlib

import cramjam
import lz4.frame
import pytest
import zstandard

from headrace.model.errors import ApiError, ErrorCode
from headrace.record.batch import Record, build, check_produced
from headrace.record.batch_layout import CRC_AT, CRC_FROM, HEADER_BYTES
from headrace.record.compressed_frame import check_frame
from headrace.record.compression import Codec, compress
from headrace.record.crc32c import crc32c

RECORDS = bytes(range(256)) * 1000
"""Four blocks of 64 KiB, so that LZ4's can be linked."""
ATTRIBUTES_AT = 21


def lz4_frame(**options: object) -> bytes:
    how = {"block_linked": False, "store_size": False, **options}
    frame: bytes = lz4.frame.compress(RECORDS, **how)
    return frame


def zstd_frame(*, window_log: int = 20, content_size: bool = False) -> bytes:
    how = zstandard.ZstdCompressionParameters(
        window_log=window_log, write_content_size=content_size
    )
    return zstandard.ZstdCompressor(compression_params=how).compress(RECORDS)


def xerial(chunk_bytes: int | None = None) -> bytes:
    chunk = bytes(cramjam.snappy.compress_raw(RECORDS))
    size = len(chunk) if chunk_bytes is None else chunk_bytes
    return b"\x82SNAPPY\x00" + struct.pack(">iii", 1, 1, size) + chunk


def with_byte(data: bytes, at: int, value: int) -> bytes:
    return data[:at] + bytes([value]) + data[at + 1 :]


def batch_of(codec: Codec, body: bytes) -> memoryview:
    """A sound batch of one record, its records replaced by `body`."""
    data = bytearray(build([Record(0, 0, None, b"v", ())])[:HEADER_BYTES] + body)
    struct.pack_into(">i", data, 8, len(data) - 12)
    struct.pack_into(">h", data, ATTRIBUTES_AT, codec)
    struct.pack_into(">I", data, CRC_AT, crc32c(memoryview(data)[CRC_FROM:]))
    return memoryview(data)


READABLE = {
    "gzip": (Codec.GZIP, gzip.compress(RECORDS)),
    "gzip of two members": (Codec.GZIP, gzip.compress(RECORDS) + gzip.compress(RECORDS)),
    "gzip with a file name": (Codec.GZIP, with_byte(gzip.compress(RECORDS), 3, 8)),
    "snappy of Java": (Codec.SNAPPY, xerial()),
    "snappy, one raw block": (Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(RECORDS))),
    "snappy of few bytes": (Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(b"1234567"))),
    "lz4": (Codec.LZ4, lz4_frame()),
    "lz4 with its content's size": (Codec.LZ4, lz4_frame(store_size=True)),
    "lz4 with a content checksum": (Codec.LZ4, lz4_frame(content_checksum=True)),
    "lz4 with block checksums": (Codec.LZ4, lz4_frame(block_checksum=True)),
    "lz4 of 256 KiB blocks": (Codec.LZ4, lz4_frame(block_size=lz4.frame.BLOCKSIZE_MAX256KB)),
    "lz4 of 1 MiB blocks": (Codec.LZ4, lz4_frame(block_size=lz4.frame.BLOCKSIZE_MAX1MB)),
    "lz4 of 4 MiB blocks": (Codec.LZ4, lz4_frame(block_size=lz4.frame.BLOCKSIZE_MAX4MB)),
    "zstd": (Codec.ZSTD, zstd_frame()),
    "zstd with its content's size": (Codec.ZSTD, zstd_frame(content_size=True)),
    "zstd with the greatest window": (Codec.ZSTD, zstd_frame(window_log=27)),
    "zstd behind a skippable frame": (
        Codec.ZSTD, b"\x50\x2a\x4d\x18" + struct.pack("<I", 4) + bytes(4) + zstd_frame(),
    ),
}  # fmt: skip
UNREADABLE = {
    "zlib": (Codec.GZIP, zlib.compress(RECORDS)),
    "gzip with a reserved flag": (Codec.GZIP, with_byte(gzip.compress(RECORDS), 3, 0x20)),
    "gzip of another method": (Codec.GZIP, with_byte(gzip.compress(RECORDS), 2, 7)),
    "snappy's stream format": (Codec.SNAPPY, bytes(cramjam.snappy.compress(RECORDS))),
    "snappy with Hadoop's lengths": (Codec.SNAPPY, struct.pack(">ii", len(RECORDS), 9) + bytes(9)),
    "snappy that begins with a copy": (Codec.SNAPPY, b"\x20\x01\x01\x01"),
    "snappy that announces too much": (Codec.SNAPPY, b"\xff\xff\xff\x7f\x00a"),
    "snappy with a chunk too long": (Codec.SNAPPY, xerial(1 << 20)),
    "snappy with an empty chunk": (Codec.SNAPPY, xerial(0)),
    "snappy without a chunk": (Codec.SNAPPY, xerial()[:18]),
    "lz4 with linked blocks": (Codec.LZ4, lz4_frame(block_linked=True)),
    "lz4 linked, with its size": (Codec.LZ4, lz4_frame(block_linked=True, store_size=True)),
    "lz4 with a dictionary": (Codec.LZ4, with_byte(lz4_frame(), 4, 0x61)),
    "lz4 of another version": (Codec.LZ4, with_byte(lz4_frame(), 4, 0xA0)),
    "lz4 with a wrong checksum": (Codec.LZ4, with_byte(lz4_frame(), 6, lz4_frame()[6] ^ 1)),
    "lz4, a wrong checksum behind its size": (
        Codec.LZ4, with_byte(lz4_frame(store_size=True), 14, lz4_frame(store_size=True)[14] ^ 1),
    ),
    "lz4 of blocks too small": (Codec.LZ4, with_byte(lz4_frame(), 5, 0x30)),
    "lz4 with a reserved bit": (Codec.LZ4, with_byte(lz4_frame(), 5, 0xC0)),
    "lz4 behind a skippable frame": (Codec.LZ4, b"\x50\x2a\x4d\x18" + bytes(4) + lz4_frame()),
    "lz4's legacy frame": (Codec.LZ4, b"\x02\x21\x4c\x18" + lz4_frame()[4:]),
    "lz4 that ends early": (Codec.LZ4, lz4_frame()[:6]),
    "zstd with a window too large": (Codec.ZSTD, with_byte(zstd_frame(), 5, 18 << 3)),
    "zstd with a window a little too large": (Codec.ZSTD, with_byte(zstd_frame(), 5, 17 << 3 | 1)),
    "zstd with a dictionary": (Codec.ZSTD, with_byte(zstd_frame(), 4, zstd_frame()[4] | 1)),
    "zstd with a reserved flag": (Codec.ZSTD, with_byte(zstd_frame(), 4, zstd_frame()[4] | 8)),
    "zstd of another magic": (Codec.ZSTD, with_byte(zstd_frame(), 0, 0x27)),
    "zstd that ends early": (Codec.ZSTD, zstd_frame()[:8]),
}  # fmt: skip


@pytest.mark.parametrize("name", READABLE)
def test_frames_that_every_client_reads_are_accepted(name: str) -> None:
    view = batch_of(*READABLE[name])
    assert check_produced(view).record_count == 1


@pytest.mark.parametrize("name", UNREADABLE)
def test_frames_that_some_client_cannot_read_are_refused(name: str) -> None:
    codec, body = UNREADABLE[name]
    with pytest.raises(ApiError, match=codec.name.lower()) as refused:
        check_produced(batch_of(codec, body))
    assert refused.value.code is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec is not Codec.NONE])
@pytest.mark.parametrize("size", [7, 100, 70_000, 3_000_000])
def test_own_compression_passes_the_check(codec: Codec, size: int) -> None:
    for data in (bytes(size), bytes(number * number % 251 for number in range(size))):
        check_frame(codec, bytes(HEADER_BYTES) + compress(codec, data))
    with pytest.raises(ApiError):
        check_frame(codec, bytes(HEADER_BYTES))


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("lz4 with linked blocks", "block_linked=False"),
        ("lz4 with a dictionary", "dictionary"),
        ("lz4 of another version", "version 2"),
        ("lz4 of blocks too small", "block size"),
        ("lz4 with a reserved bit", "block size"),
        ("lz4 with a wrong checksum", "checksum"),
        ("lz4, a wrong checksum behind its size", "checksum"),
        ("snappy's stream format", "stream format"),
        ("zstd with a window a little too large", "128 MiB"),
        ("zstd with a dictionary", "dictionary"),
    ],
)
def test_the_refusal_names_the_option(name: str, reason: str) -> None:
    with pytest.raises(ApiError, match=reason):
        check_produced(batch_of(*UNREADABLE[name]))
