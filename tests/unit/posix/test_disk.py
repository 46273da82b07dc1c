"""The real disk: gathered writes, cached reads, locks, flushes."""

import asyncio
import errno
import os
import socket
from pathlib import Path

import pytest

from headrace.posix.disk import RealDisk
from headrace.posix.files import RealFile
from headrace.posix.flush_strategies import FLUSHES, Auto
from headrace.posix.kernel.asynchronous_io import ParallelFdatasync
from headrace.posix.threads import Workers


def opened(disk: RealDisk, path: Path) -> RealFile:
    file = disk.open(str(path), create=True)
    assert isinstance(file, RealFile)
    return file


def test_parts_are_written_one_after_the_other(disk: RealDisk, tmp_path: Path) -> None:
    file = opened(disk, tmp_path / "f")
    assert file.write_at(0, [b"ab", memoryview(b"cd"), bytearray(b"e")]) == 5
    assert file.write_at(5, [b"f"] * 3000) == 3000
    assert file.read(0, 6) == b"abcdef"
    assert file.size() == 3005
    file.close()


def test_gathered_writes_are_seen_by_reads_and_done_at_the_end(
    disk: RealDisk, tmp_path: Path
) -> None:
    file = opened(disk, tmp_path / "f")
    disk.begin_gather()
    file.write_at(0, [b"one"])
    file.write_at(3, [b"two"])
    assert (tmp_path / "f").read_bytes() == b""
    assert file.read(0, 100) == b"onetwo"
    file.write_at(6, [b"three"])
    file.write_at(0, [b"ONE"])
    assert disk.end_gather(print) == []
    assert (tmp_path / "f").read_bytes() == b"ONEtwothree"
    file.write_at(11, [b"!"])
    assert (tmp_path / "f").read_bytes() == b"ONEtwothree!"
    file.close()


def test_a_gathered_write_that_fails_names_its_file_and_leaves_the_others(
    disk: RealDisk, tmp_path: Path
) -> None:
    good, bad = (
        opened(disk, tmp_path / "good"),
        RealFile("/dev/full", os.open("/dev/full", os.O_RDWR), disk.files),
    )
    disk.begin_gather()
    bad.write_at(0, [b"x"])
    good.write_at(0, [b"y"])
    failed = disk.end_gather(print)
    assert failed is not None
    ((path, error),) = failed
    assert path == "/dev/full"
    assert error.errno == errno.ENOSPC
    assert (tmp_path / "good").read_bytes() == b"y"
    good.close()
    bad.close()


def test_cached_reads_are_short_only_at_the_end(disk: RealDisk, tmp_path: Path) -> None:
    file = opened(disk, tmp_path / "f")
    file.write_at(0, [b"0123456789"])
    assert file.read_cached(2, 3) == b"234"
    assert file.read_cached(8, 100) == b"89"
    assert file.read_cached(10, 5) == b""
    file.close()


def test_bytes_are_sent_as_far_as_the_socket_takes_them(disk: RealDisk, tmp_path: Path) -> None:
    file = opened(disk, tmp_path / "f")
    content = bytes(range(256)) * 20_000
    file.write_at(0, [content])
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        theirs.settimeout(20)
        at, got = 1000, b""
        while at < len(content):
            sent = file.send(at, len(content) - at, ours.fileno())
            assert sent < len(content) - 1000, "the socket holds less than that"
            assert file.send(at + sent, 1000, ours.fileno()) == 0 or at + sent == len(content)
            at += sent
            while len(got) < at - 1000:
                got += theirs.recv(1 << 20)
        assert got == content[1000:]
        theirs.close()
        with pytest.raises(ConnectionError):
            file.send(0, 1000, ours.fileno())
    file.close()


def test_replace_is_whole_and_leaves_no_temporary_file(disk: RealDisk, tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    disk.replace(str(path), b"first")
    disk.replace(str(path), b"second")
    assert path.read_bytes() == b"second"
    assert disk.list(str(tmp_path)) == ["checkpoint"]


def test_a_lock_keeps_the_second_out_until_it_is_released(disk: RealDisk, tmp_path: Path) -> None:
    release = disk.lock(str(tmp_path / ".lock"))
    with pytest.raises(BlockingIOError):
        disk.lock(str(tmp_path / ".lock"))
    release()
    disk.lock(str(tmp_path / ".lock"))()


@pytest.mark.parametrize("strategy", sorted(FLUSHES))
@pytest.mark.parametrize("count", [1, 20])
def test_every_strategy_flushes_and_calls_back_on_the_loop(
    tmp_path: Path, strategy: str, count: int
) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        workers = Workers(loop)
        disk = RealDisk(workers, strategy)
        files = [disk.open(str(tmp_path / str(at)), create=True) for at in range(count)]
        for file in files:
            file.write_at(0, [b"x"])
        done: asyncio.Future[OSError | None] = loop.create_future()
        disk.flush(files, done.set_result)
        assert await asyncio.wait_for(done, 20) is None
        for file in files:
            file.close()
        failed: asyncio.Future[OSError | None] = loop.create_future()
        disk.flush(files, failed.set_result)
        error = await asyncio.wait_for(failed, 20)
        assert isinstance(error, OSError)
        workers.stop()

    asyncio.run(main())


class Slow:
    """A way to flush that takes as long as it is told, by a clock of its own."""

    def __init__(self, clock: list[float], seconds: float) -> None:
        self.clock = clock
        self.seconds = seconds
        self.flushes = 0

    def flush(self, fds: list[int], size: int, devices: list[int]) -> None:
        self.flushes += 1
        self.clock[0] += self.seconds


@pytest.fixture
def auto(monkeypatch: pytest.MonkeyPatch) -> tuple[Auto, Slow, Slow]:
    """The strategy, and the two ways it chooses from: each file by itself, all at once."""
    clock = [0.0]
    monkeypatch.setattr("headrace.posix.flush_strategies.perf_counter", lambda: clock[0])
    chosen = Auto()
    each, together = Slow(clock, 0.010), Slow(clock, 0.001)
    monkeypatch.setattr(chosen, "_each", each)
    monkeypatch.setattr(chosen, "_all", together)
    return chosen, each, together


def test_auto_flushes_few_files_and_large_ones_each_by_itself(
    auto: tuple[Auto, Slow, Slow],
) -> None:
    chosen, each, together = auto
    chosen.flush([1, 2, 3], 10, [1])
    chosen.flush([1] * 100, 100 << 20, [1])
    assert (each.flushes, together.flushes) == (2, 0)


def test_auto_tries_what_was_dearer_ever_more_seldom_and_takes_it_once_it_wins(
    auto: tuple[Auto, Slow, Slow],
) -> None:
    chosen, each, together = auto
    for _ in range(10_000):
        chosen.flush([1] * 100, 100, [1])
    assert 3 < each.flushes < 10
    together.seconds = 0.500  # a large copy has begun
    before = together.flushes
    for _ in range(10_000):
        chosen.flush([1] * 100, 100, [1])
    assert together.flushes - before < 10
    together.seconds = 0.001
    for _ in range(10_000):
        chosen.flush([1] * 100, 100, [1])
    assert together.flushes > 10_000


def test_auto_keeps_apart_what_many_files_cost_and_what_very_many_do(
    auto: tuple[Auto, Slow, Slow],
) -> None:
    chosen, each, together = auto
    together.seconds = 0.100
    for _ in range(30):
        chosen.flush([1] * 1000, 100, [1])
    assert each.flushes > together.flushes
    before = together.flushes
    chosen.flush([1] * 30, 30, [1])
    assert together.flushes == before + 1, "thirty were never measured"


def test_parallel_flushes_tell_the_first_error_and_finish_the_others(tmp_path: Path) -> None:
    aio = ParallelFdatasync.open()
    if aio is None:
        pytest.skip("this system has no asynchronous fdatasync")
    fds = [os.open(tmp_path / str(at), os.O_RDWR | os.O_CREAT) for at in range(300)]
    for fd in fds:
        os.write(fd, b"x")
    aio.flush(fds)
    read_end, write_end = os.pipe()
    with pytest.raises((OSError, NotImplementedError)):
        aio.flush([*fds[:2], read_end])
    aio.flush(fds[:3])
    for fd in (*fds, read_end, write_end):
        os.close(fd)


def test_work_comes_back_with_its_result_or_its_error() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        workers = Workers(loop)
        results: list[object] = []
        workers.run(lambda: 42, results.append)
        workers.run(lambda: 1 // 0, results.append)
        while len(results) < 2:  # noqa: ASYNC110 - of two threads' results
            await asyncio.sleep(0.01)
        assert 42 in results
        assert any(isinstance(one, ZeroDivisionError) for one in results)
        workers.stop()

    asyncio.run(main())


def many(disk: RealDisk, folder: Path, count: int) -> list[RealFile]:
    files = []
    for at in range(count):
        file = opened(disk, folder / f"many-{at}")
        file.write_at(0, [b"%05d" % at])
        files.append(file)
    return files


def descriptors(folder: Path) -> int:
    links = [Path("/proc/self/fd", name) for name in os.listdir("/proc/self/fd")]
    return sum(os.path.realpath(one).startswith(str(folder)) for one in links)


async def settled(disk: RealDisk, files: list[RealFile]) -> None:
    done: asyncio.Future[OSError | None] = asyncio.get_running_loop().create_future()
    disk.flush(files, done.set_result)
    assert await asyncio.wait_for(done, 20) is None


def test_files_beyond_the_bound_are_closed_and_serve_as_before(tmp_path: Path) -> None:
    async def main() -> None:
        workers = Workers(asyncio.get_running_loop())
        disk = RealDisk(workers, open_max=20)
        files = many(disk, tmp_path, 50)
        await settled(disk, files)
        for _ in range(3):  # each one used before loses its turn once
            opened(disk, tmp_path / "more").close()
            for file in files:
                file.size()
        assert descriptors(tmp_path) <= 20 + 1
        for at, file in enumerate(files):
            assert file.read(0, 9) == file.read_cached(0, 9) == b"%05d" % at
            assert file.write_at(5, [b"!"]) == 1
        await settled(disk, files)
        disk.rename(files[0].path, str(tmp_path / "renamed"))
        for file in files:
            assert file.size() == 6
            file.close()
        assert descriptors(tmp_path) == 0
        workers.stop()

    asyncio.run(main())


def test_unflushed_files_stay_open_until_a_flush_of_their_own(tmp_path: Path) -> None:
    async def main() -> None:
        workers = Workers(asyncio.get_running_loop())
        disk = RealDisk(workers, open_max=20)
        files = many(disk, tmp_path, 60)
        assert descriptors(tmp_path) == 60
        for _ in range(200):
            opened(disk, tmp_path / "more").close()
            await asyncio.sleep(0.005)
            if descriptors(tmp_path) <= 20:
                break
        assert descriptors(tmp_path) <= 20
        assert [file.read(0, 5) for file in files] == [b"%05d" % at for at in range(60)]
        workers.stop()

    asyncio.run(main())


def test_a_file_in_use_by_a_thread_is_not_closed_under_it(tmp_path: Path) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        workers = Workers(loop)
        disk = RealDisk(workers, open_max=16)
        files = many(disk, tmp_path, 48)
        await settled(disk, files)
        wrong: list[bytes] = []

        def read_all() -> None:
            for _ in range(60):
                wrong.extend(
                    found
                    for at, file in enumerate(files)
                    if (found := file.read(0, 5)) != b"%05d" % at
                )

        reading: asyncio.Future[object] = loop.create_future()
        disk.run(read_all, reading.set_result)
        while not reading.done():
            opened(disk, tmp_path / "more").close()
            await asyncio.sleep(0)
        assert await reading is None
        assert wrong == []
        workers.stop()

    asyncio.run(main())


def test_a_file_that_was_replaced_is_not_taken_for_the_one_before(tmp_path: Path) -> None:
    async def main() -> None:
        workers = Workers(asyncio.get_running_loop())
        disk = RealDisk(workers, open_max=4)
        file, *others = many(disk, tmp_path, 12)
        await settled(disk, [file, *others])
        (tmp_path / "new").write_bytes(b"others")
        os.replace(tmp_path / "new", file.path)
        more: list[RealFile] = []
        while file._fd >= 0:  # the others that are open may be used longer ago, so make enough
            assert len(more) < 50
            more.append(opened(disk, tmp_path / f"more-{len(more)}"))
            await asyncio.sleep(0.001)
        with pytest.raises(FileNotFoundError, match="another file"):
            file.read(0, 5)
        workers.stop()

    asyncio.run(main())
