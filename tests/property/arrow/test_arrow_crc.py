"""The checksum compiled into the kernels is the library's, by whichever way it goes."""

import random
from typing import Any

import numpy as np
import pytest

pytest.importorskip("numba")

from headrace.kernels.choose import has_crc32_instruction
from headrace.kernels.compile_cache import prepare_cache

if not has_crc32_instruction():
    pytest.skip("no crc32 instruction on this processor", allow_module_level=True)
prepare_cache()

from numba import njit  # noqa: E402

from headrace.kernels import crc32c_kernel, memory  # noqa: E402
from headrace.record.crc32c import crc32c  # noqa: E402

address_of: Any = memory.address_of
LENGTHS = [*range(70), 255, 256, 257, 511, 512, 513, 1023, 1535, 1536, 1537, 4096, 16_000, 100_001]


@njit
def _parts(src: Any, at: int, end: int) -> Any:
    first = address_of(src)
    crc, stands = crc32c_kernel._by_parts(np.uint64(0xFFFF_FFFF), first + at, first + end)
    return crc, stands - first


def test_it_is_the_librarys_at_every_length_and_place() -> None:
    dice = random.Random(4)
    data = dice.randbytes(120_000)
    source = np.frombuffer(data, np.uint8)
    for size in LENGTHS:
        for at in (0, 1, 7, 61, dice.randrange(10_000)):
            found = crc32c_kernel.crc32c(source, at, at + size)
            assert found == crc32c(data[at : at + size]), (size, at)


def test_by_parts_it_is_the_same_for_those_who_cannot_fold() -> None:
    dice = random.Random(5)
    data = dice.randbytes(50_000)
    source = np.frombuffer(data, np.uint8)
    for size in LENGTHS[:-1]:
        crc, stands = _parts(source, 3, 3 + size)
        assert stands - 3 == size // (3 * crc32c_kernel.PART_BYTES) * 3 * crc32c_kernel.PART_BYTES
        rest = crc32c(data[stands : 3 + size], int(crc) ^ 0xFFFF_FFFF)
        assert rest == crc32c(data[3 : 3 + size])
