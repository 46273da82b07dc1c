"""What reaches the system: which files are cut, flushed and closed, and who a lock keeps out."""

import errno
import fcntl
import multiprocessing
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.posix import files as files_module
from headrace.posix.append_writer import Writer
from headrace.posix.disk import RealDisk, in_use
from headrace.posix.files import RealFile
from tests.support.log.stepped_disk import SteppedDisk


@pytest.fixture
def disk() -> SteppedDisk:
    return SteppedDisk()


pytestmark = pytest.mark.usefixtures("no_descriptor_is_left")


def opened(disk: RealDisk, path: Path) -> RealFile:
    file = disk.open(str(path), create=True)
    assert isinstance(file, RealFile)
    return file


def inode(path: Path) -> int:
    return path.stat().st_ino


# --- writing -----------------------------------------------------------------------------------


def test_a_write_in_parts_ends_whole_however_little_the_system_takes_at_once(
    disk: SteppedDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.pwritev
    monkeypatch.setattr(files_module, "_PARTS_MAX", 3)

    def little(fd: int, parts: list[memoryview], position: int) -> int:
        assert len(parts) <= 3
        return real(fd, [bytes(b"".join(parts))[:5]], position)

    monkeypatch.setattr(os, "pwritev", little)
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: real(fd, [data[:2]], at))
    file = opened(disk, tmp_path / "f")
    content = [b"ab", b"", b"cdefghijk", b"l", b"mnopq", b"r"]
    assert file.write_at(0, content) == 18
    assert file.write_at(18, content[:3]) == 11
    assert file.write_at(29, [b"single"]) == 6
    assert (tmp_path / "f").read_bytes() == b"abcdefghijklmnopqr" + b"abcdefghijk" + b"single"
    monkeypatch.setattr(os, "pwritev", lambda *_: 0)
    with pytest.raises(OSError, match="nothing was written") as raised:
        file.write_at(35, [b"x", b"y"])
    assert raised.value.errno == errno.EIO
    file.close()


def broken_after(count: int) -> Callable[[int, int, list[bytes]], int]:
    """Writes `count` bytes, then the disk is full."""

    def write_all(fd: int, position: int, parts: list[bytes]) -> int:
        os.pwrite(fd, b"".join(parts)[:count], position)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    return write_all


def test_a_held_write_that_fails_half_way_leaves_nothing_behind(
    disk: SteppedDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = opened(disk, tmp_path / "f")
    file.write_at(0, [b"before"])
    disk.begin_gather()
    file.write_at(6, [b"half"])
    with monkeypatch.context() as broken:
        broken.setattr(files_module, "write_all", broken_after(2))
        failed = disk.end_gather(print)
    assert failed is not None
    assert [(path, error.errno) for path, error in failed] == [(file.path, errno.ENOSPC)]
    assert (tmp_path / "f").read_bytes() == b"before"
    file.close()


class HandsOver:
    """Stands in for `Workers`: what is handed over is done when a test says so."""

    def __init__(self) -> None:
        self.jobs: list[Callable[[], None]] = []

    def write(self, work: Callable[[], object], done: Callable[[object], None]) -> None:
        self.jobs.append(lambda: done(work()))


def test_a_threads_write_that_fails_half_way_is_cut_off_and_the_next_is_not_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk, workers = RealDisk(None), HandsOver()
    writer = Writer(workers, disk.files)  # type: ignore[arg-type]
    file = opened(disk, tmp_path / "f")
    file.write_at(0, [b"before"])
    told: list[object] = []
    for position, data in ((6, b"half"), (10, b"behind")):
        disk.begin_gather()
        file.write_at(position, [data])
        disk.files.active, disk.files.files = False, []
        assert writer.hand_over([file], told.append) is None
    with monkeypatch.context() as broken:
        broken.setattr(files_module, "write_all", broken_after(2))
        workers.jobs.pop(0)()
    workers.jobs.pop(0)()
    assert told == [[(file.path, file.failure)], [(file.path, file.failure)]]
    assert file.failure is not None
    assert (tmp_path / "f").read_bytes() == b"before"
    assert (writer.busy, writer.passes, file.pins) == (False, 2, 0)
    file.close()


def test_a_threads_slow_pass_has_the_next_ones_written_by_it_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [1000.0]
    monkeypatch.setattr("headrace.posix.append_writer.monotonic", lambda: clock[0])
    disk, workers = RealDisk(None), HandsOver()
    writer = Writer(workers, disk.files)  # type: ignore[arg-type]
    file = opened(disk, tmp_path / "f")

    def slow(fd: int, position: int, parts: list[bytes]) -> int:
        clock[0] += 0.05
        return 0

    monkeypatch.setattr(files_module, "write_all", slow)
    disk.begin_gather()
    file.write_at(0, [b"x"])
    disk.files.active, disk.files.files = False, []
    writer.hand_over([file], lambda _: None)
    workers.jobs.pop()()
    wanted = []
    for seconds in (0.0, 4.9, 0.1):
        clock[0] += seconds
        wanted.append(writer.wanted)
    assert wanted == [True, True, False]
    file.close()


@pytest.mark.parametrize(
    ("size", "count", "explained"),
    [(0, 0, 0.010), (200_000_000, 0, 1.010), (0, 1000, 0.110), (2_000_000, 10, 0.021)],
)
def test_a_pass_was_slow_beyond_what_its_bytes_and_files_explain(
    size: int, count: int, explained: float
) -> None:
    for seconds, slow in ((explained - 1e-6, False), (explained + 1e-6, True)):
        writer = Writer(HandsOver(), RealDisk(None).files)  # type: ignore[arg-type]
        writer.took(seconds, size, count)
        assert writer.wanted is slow
    alone = Writer(None, RealDisk(None).files)
    alone.took(1000.0, 0, 0)
    assert not alone.wanted, "without threads there is nobody else"


# --- files -------------------------------------------------------------------------------------


def test_times_bytes_ahead_and_the_cache_are_told_and_changed(
    disk: SteppedDisk, tmp_path: Path
) -> None:
    file = opened(disk, tmp_path / "f")
    file.write_at(0, [b"0123456789"])
    file.set_mtime_ms(1_780_000_000_123)
    assert file.mtime_ms() == 1_780_000_000_123
    assert (tmp_path / "f").stat().st_mtime_ns == 1_780_000_000_123_000_000
    into = bytearray(20)
    assert file.read_cached_into(4, memoryview(into)) in {0, 6}
    file.truncate(4)
    assert (file.size(), file.read(0, 99)) == (4, b"0123")
    file.forget(0, 4)
    file.close()
    file.close()
    with pytest.raises(OSError, match="f") as raised:
        file.read(0, 1)
    assert raised.value.errno == errno.EBADF


@pytest.mark.parametrize("code", [errno.EAGAIN, errno.EWOULDBLOCK])
def test_what_is_not_cached_is_nothing_read(
    disk: SteppedDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    file = opened(disk, tmp_path / "f")
    file.write_at(0, [b"0123456789"])

    def cold(*_: object) -> int:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "preadv", cold)
    assert file.read_cached(0, 5) is None
    assert file.read_cached_into(0, memoryview(bytearray(5))) == 0
    file.close()


def test_a_file_system_that_cannot_tell_is_asked_once_and_read(
    disk: SteppedDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = opened(disk, tmp_path / "f")
    file.write_at(0, [b"0123456789"])
    real, asked = os.preadv, []

    def no_flags(fd: int, into: list[bytearray], position: int, flags: int) -> int:
        asked.append(flags)
        if flags:
            raise OSError(errno.EOPNOTSUPP, "?")
        return real(fd, into, position, flags)

    monkeypatch.setattr(os, "preadv", no_flags)
    assert file.read_cached(0, 5) == b"01234"
    assert file.read_cached(5, 5) == b"56789"
    assert asked == [os.RWF_NOWAIT, 0, 0]

    def bad(*_: object) -> int:
        raise OSError(errno.EIO, "?")

    monkeypatch.setattr(os, "preadv", bad)
    with pytest.raises(OSError, match=r"\?"):
        file.read_cached(0, 5)
    file.close()


# --- the disk ----------------------------------------------------------------------------------


def test_directories_are_made_with_their_parents_and_removed_with_what_they_hold(
    disk: SteppedDisk, tmp_path: Path
) -> None:
    deep = tmp_path / "a" / "b" / "c"
    disk.make_directory(str(deep))
    disk.make_directory(str(deep))
    (deep / "file").touch()
    assert disk.is_directory(str(deep))
    with pytest.raises(FileExistsError):
        disk.make_directory(str(deep / "file"))
    disk.remove(str(deep / "file"))
    assert disk.list(str(deep)) == []
    disk.remove_tree(str(tmp_path / "a"))
    assert not disk.exists(str(tmp_path / "a"))


def test_a_replaced_file_is_durable_before_its_name_and_its_directory_after_it(
    disk: SteppedDisk, tmp_path: Path, synced: list[tuple[str, int]]
) -> None:
    path = tmp_path / "checkpoint"
    disk.replace(str(path), b"content")
    assert synced == [("fsync", inode(path)), ("fsync", inode(tmp_path))]
    assert path.stat().st_mode & 0o777 == 0o644 & ~_umask()
    (tmp_path / "checkpoint.tmp").write_bytes(b"longer than what comes")
    disk.replace(str(path), b"short")
    assert path.read_bytes() == b"short"


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


@pytest.mark.parametrize(("count", "together"), [(8, False), (9, True)])
def test_few_directories_are_flushed_one_by_one_and_many_at_once(
    tmp_path: Path, synced: list[tuple[str, int]], count: int, together: bool
) -> None:
    paths = [tmp_path / str(number) for number in range(count)]
    for path in paths:
        path.mkdir()
    names = [str(path) for path in (*paths[:3], tmp_path / "gone", *paths[3:])]
    one_by_one = [("fsync", inode(path)) for path in paths]
    RealDisk(None).sync_directories(names)
    assert synced == ([("syncfs", inode(paths[8]))] if together else one_by_one)
    del synced[:]
    RealDisk(None, "fdatasync").sync_directories(names)
    assert synced == one_by_one
    del synced[:]
    RealDisk(None).sync_all(str(paths[0]))
    RealDisk(None).sync_directory(str(paths[1]))
    assert synced == [("syncfs", inode(paths[0])), ("fsync", inode(paths[1]))]


def _try_lock(path: str, kind: str, answer: "multiprocessing.SimpleQueue[bool]") -> None:
    fd = os.open(path, os.O_RDWR)
    try:
        (fcntl.flock if kind == "flock" else fcntl.lockf)(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        answer.put(True)
    except OSError:
        answer.put(False)


def can_lock(path: Path, kind: str) -> bool:
    """Whether another process gets the lock: of a file of its own, or a record lock as Java's."""
    context = multiprocessing.get_context("fork")
    answer = context.SimpleQueue()
    process = context.Process(target=_try_lock, args=(str(path), kind, answer))
    process.start()
    process.join(30)
    return bool(answer.get())


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("kind", ["flock", "lockf"])
def test_a_lock_keeps_out_who_locks_as_we_do_and_who_locks_as_java_does(
    disk: SteppedDisk, tmp_path: Path, kind: str
) -> None:
    path = tmp_path / ".lock"
    assert not in_use(str(path))
    release = disk.lock(str(path))
    assert not can_lock(path, kind)
    assert in_use(str(path))
    release()
    assert can_lock(path, kind)
    assert not in_use(str(path))


def test_a_flush_tells_what_was_written_and_pins_its_files_until_it_is_over(
    disk: SteppedDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[list[int], int, list[int]]] = []
    monkeypatch.setattr(
        disk._strategy, "flush", lambda fds, size, devices: asked.append((fds, size, devices))
    )
    one, two = opened(disk, tmp_path / "1"), opened(disk, tmp_path / "2")
    one.write_at(0, [b"12", b"345"])
    two.write_at(0, [b"6"])
    disk.begin_gather()
    one.write_at(5, [b"held"])
    told: list[OSError | None] = []
    disk.flush([one, two], told.append)
    assert (tmp_path / "1").read_bytes() == b"12345held"
    assert (one.unflushed, two.unflushed, one.pins, two.pins) == (0, 0, 1, 1)
    disk.settle()
    assert asked == [([one.fileno(), two.fileno()], 10, [one.fileno()])]
    assert (told, one.pins, two.pins) == ([None], 0, 0)
    disk.files.devices.add(-1)
    disk.flush([two, one], told.append)
    disk.settle()
    assert asked[1] == ([two.fileno(), one.fileno()], 0, [one.fileno()]), "one of each device"
    assert disk.end_gather(print) == []
    one.close()
    two.close()
