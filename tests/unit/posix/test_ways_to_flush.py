"""Which way files are flushed: one by one, side by side, or all that the system holds."""

import os
from pathlib import Path

import pytest

from headrace.posix import flush_strategies
from headrace.posix.flush_strategies import Auto, Fdatasync, Parallel
from headrace.posix.kernel import asynchronous_io

pytestmark = pytest.mark.usefixtures("no_descriptor_is_left")


def files_in(directory: Path, count: int) -> list[int]:
    return [os.open(directory / f"f{at}", os.O_RDWR | os.O_CREAT) for at in range(count)]


def closed(fds: list[int]) -> None:
    for fd in fds:
        os.close(fd)


def test_fdatasync_goes_to_each_file_once(tmp_path: Path, synced: list[tuple[str, int]]) -> None:
    fds = files_in(tmp_path, 3)
    wanted = [("fdatasync", os.fstat(fd).st_ino) for fd in fds]
    Fdatasync().flush(fds, 0, fds[:1])
    assert synced == wanted
    del synced[:]
    Auto().flush(fds[:1], 1 << 40, fds[:1])
    assert synced == wanted[:1]
    closed(fds)


class Aio:
    """A kernel that does, or does not, know how to flush side by side."""

    def __init__(self) -> None:
        self.opened = 0
        self.flushed: list[int] = []
        self.knows = True

    def open(self) -> "Aio":
        self.opened += 1
        return self

    def flush(self, fds: list[int]) -> None:
        if not self.knows:
            raise NotImplementedError
        self.flushed.append(len(fds))


@pytest.fixture
def aio(monkeypatch: pytest.MonkeyPatch) -> Aio:
    one = Aio()
    monkeypatch.setattr(asynchronous_io.ParallelFdatasync, "open", one.open)
    return one


def test_the_first_flushes_of_few_files_do_without_the_kernels_own(
    tmp_path: Path, synced: list[tuple[str, int]], aio: Aio
) -> None:
    fds = files_in(tmp_path, 5)
    way = Parallel()
    for _ in range(4):
        way.flush(fds[:4], 0, fds[:1])
    assert (aio.opened, len(synced)) == (0, 16)
    way.flush(fds[:2], 0, fds[:1])
    way.flush(fds[:2], 0, fds[:1])
    assert (aio.opened, aio.flushed, len(synced)) == (1, [2, 2], 16)
    aio.knows = False
    way.flush(fds[:2], 0, fds[:1])
    aio.knows = True
    way.flush(fds[:2], 0, fds[:1])
    assert (aio.opened, aio.flushed, len(synced)) == (1, [2, 2], 20), "once not, then never"
    another = Parallel()
    another.flush(fds, 0, fds[:1])
    assert aio.flushed == [2, 2, 5]
    closed(fds)


def test_a_file_alone_is_flushed_without_the_kernels_own_however_often(
    tmp_path: Path, synced: list[tuple[str, int]], aio: Aio
) -> None:
    fds = files_in(tmp_path, 1)
    way = Auto()
    for _ in range(9):
        way.flush(fds, 0, fds)
    assert (aio.opened, len(synced)) == (0, 9)
    closed(fds)


def test_many_small_files_go_together_few_or_large_ones_each_by_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(flush_strategies, "perf_counter", lambda: 0.0)
    chosen: list[tuple[str, int]] = []
    auto = Auto()
    for name in ("_each", "_all"):
        way = getattr(auto, name)
        monkeypatch.setattr(
            way, "flush", lambda fds, size, devices, name=name: chosen.append((name, len(fds)))
        )
    auto.flush([1] * 23, 0, [1])
    auto.flush([1] * 24, 24 * (64 << 10) + 1, [1])
    assert chosen == [("_each", 23), ("_each", 24)]
    auto.flush([1] * 24, 24 * (64 << 10), [1])
    assert chosen[2:] == [("_all", 24)]
