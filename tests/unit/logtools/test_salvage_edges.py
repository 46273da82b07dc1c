"""What `log repair` takes for a sound batch behind damage, and how far it looks."""

import struct

import pytest
from crc32c import crc32c

from headrace.logtools.repair.plan import Mending
from headrace.logtools.repair.salvage import sound_stretches
from headrace.record import batch as wire
from headrace.testing.disk import SimDisk
from tests.support.log.log import overwrite

PATH = "/f.log"


def batch_at(base: int, *values: bytes) -> bytes:
    return wire.build([wire.new_record(value) for value in values], base_offset=base)


def found_in(content: bytes, first: int = 0, limit: int = 1 << 62) -> list[tuple[int, ...]]:
    disk = SimDisk()
    overwrite(disk, PATH, content)
    file = disk.open(PATH, writable=False)
    try:
        return list(sound_stretches(file, len(content), first, limit))
    finally:
        file.close()


@pytest.mark.parametrize("junk", [0, 1, 11, 16, 17, 60, 61, 62, 500])
def test_a_batch_is_found_behind_any_number_of_bytes_that_are_none(junk: int) -> None:
    good = batch_at(5, b"a", b"b")
    wanted = [(junk, len(good), 5, 7)]
    assert found_in(b"\x02" * junk + good) == wanted
    assert found_in(b"\x02" * junk + good + b"\x02" * junk) == wanted
    assert found_in(b"\x00" * junk + good, 5, 7) == wanted
    assert found_in(b"\x00" * junk + good[:-1]) == []


def test_a_batch_of_other_offsets_or_with_a_wrong_checksum_is_none() -> None:
    bad, good = bytearray(batch_at(0, b"bad")), batch_at(5, b"a", b"b")
    bad[70] ^= 1
    assert found_in(bytes(bad) + good, 0, 7) == [(len(bad), len(good), 5, 7)]
    assert found_in(bytes(bad) + good, 0, 6) == [], "it reaches into the next segment"
    assert found_in(bytes(bad) + good, 6) == [], "these offsets are before the segment"
    assert found_in(bytes(bad) * 2) == []
    negative = bytearray(good)
    struct.pack_into(">i", negative, 23, -1)
    struct.pack_into(">I", negative, 17, crc32c(bytes(negative[21:])))
    assert found_in(bytes(bad) + bytes(negative)) == []


def test_what_is_said_of_a_repair_is_said_as_it_happens() -> None:
    heard: list[str] = []
    disk = SimDisk()
    mending = Mending(disk, say=heard.append)
    assert mending.step("/a", "done")
    mending.cannot("/b", "gone")
    assert heard == ["/a: done", "/b: gone"]
    assert (mending.steps, mending.unmended) == (["/a: done"], ["/b: gone"])
    assert not Mending(disk, dry_run=True, say=heard.append).step("/c", "would be")
    assert heard[-1] == "/c: would be"


@pytest.mark.parametrize("junk", [1, 500])
def test_a_batch_that_compaction_has_emptied_is_found_though_it_is_but_a_header(junk: int) -> None:
    empty = bytearray(batch_at(5, b"a")[:61])
    struct.pack_into(">i", empty, 8, 49)
    struct.pack_into(">i", empty, 57, 0)
    struct.pack_into(">I", empty, 17, crc32c(bytes(empty[21:])))
    assert found_in(b"\x00" * junk + bytes(empty)) == [(junk, 61, 5, 6)]
