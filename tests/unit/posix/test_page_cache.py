"""What the page cache holds of a file, as the real disk tells it."""

import mmap
import os
from pathlib import Path

import pytest

from headrace.posix.disk import RealDisk
from headrace.posix.files import RealFile
from headrace.posix.kernel.page_cache import Residency
from tests.unit.posix.test_disk import opened

RESIDENCY = Residency.open()
told = pytest.mark.skipif(RESIDENCY is None, reason="this system does not tell what is cached")


def written_and_told(file: RealFile, at: int, content: bytes, asked: tuple[int, int]) -> bool:
    """Tell whether the bytes `asked` for are cached once `content` is written at `at`.

    Beside other work the kernel may take a page back at once: then it is written again.
    """
    for _ in range(20):
        file.write_at(at, [content])
        if file.cached(*asked):
            return True
    return False


@told
def test_what_is_cached_is_told_page_by_page(disk: RealDisk, tmp_path: Path) -> None:
    file = opened(disk, tmp_path / "f")
    page = mmap.PAGESIZE
    file.write_at(0, [bytes(3 * page + 10)])
    assert file.cached(0, 10) is None, "the first to ask has it found out how to ask"
    disk.files._residency = RESIDENCY
    assert written_and_told(file, 0, bytes(3 * page + 10), (0, 3 * page + 10))
    assert written_and_told(file, 0, bytes(3 * page + 10), (page - 1, 2))
    assert not file.cached(page, 4 * page), "there is no fifth page"
    os.fsync(file.fileno())
    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    if not file.cached(0, 1):  # some file systems are memory
        file.read(2 * page, page)
        assert file.cached(2 * page, page)
    file.close()


@told
def test_what_is_held_back_is_written_before_it_is_told(disk: RealDisk, tmp_path: Path) -> None:
    file = opened(disk, tmp_path / "f")
    disk.files._residency = RESIDENCY
    disk.begin_gather()
    file.write_at(0, [b"held back"])
    assert os.fstat(file.fileno()).st_size == 0
    file.cached(0, 9)
    assert os.fstat(file.fileno()).st_size == 9
    disk.end_gather(print)
    file.close()
