"""Threads that do what would block, and the kernel's own flushes where it refuses or is cut off."""

import ctypes
import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from headrace.posix.kernel import asynchronous_io
from headrace.posix.kernel.asynchronous_io import ParallelFdatasync
from headrace.posix.threads import Workers


class Loop:
    """Notes what it is to call, and calls it when told to."""

    def __init__(self) -> None:
        self.calls: list[tuple[Callable[..., object], tuple[Any, ...]]] = []
        self.closed = False
        self.asked = threading.Semaphore(0)

    def call_soon_threadsafe(self, call: Callable[..., object], *arguments: object) -> None:
        if self.closed:
            self.asked.release()
            raise RuntimeError("closed")
        self.calls.append((call, arguments))
        self.asked.release()

    def turn(self, calls: int) -> None:
        for _ in range(calls):
            assert self.asked.acquire(timeout=30)
            call, arguments = self.calls.pop(0)
            call(*arguments)


def crew(**sizes: int) -> tuple[Loop, Workers]:
    loop = Loop()
    return loop, Workers(cast("Any", loop), **sizes)


def new(before: list[threading.Thread]) -> set[str]:
    """The names of threads that were not there before."""
    return {thread.name for thread in threading.enumerate() if thread not in before}


def test_threads_are_started_as_they_are_needed_up_to_the_most_and_ended() -> None:
    before = threading.enumerate()
    loop, workers = crew(others=2)
    gate = threading.Event()
    told: list[object] = []
    workers.run(lambda: 1, told.append)
    loop.turn(1)
    workers.run(lambda: 2, told.append)
    loop.turn(1)
    assert new(before) == {"work-0"}, "one after the other takes one thread"
    for number in range(3):
        workers.run(lambda number=number: gate.wait(30) and number, told.append)  # type: ignore[misc]
    workers.write(lambda: "written", told.append)
    workers.flush(lambda: None, told.append)
    loop.turn(2)
    assert sorted(map(str, told[2:])) == ["None", "written"]
    assert new(before) == {"work-0", "work-1", "write-0", "flush-0"}
    gate.set()
    workers.stop()
    loop.turn(3)
    assert sorted(cast("list[int]", told[4:])) == [0, 1, 2]
    assert new(before) == set()


def test_what_fails_is_handed_to_who_asked_and_a_flush_tells_only_errors_of_the_system() -> None:
    loop, workers = crew()
    told: list[Any] = []

    def failing(problem: BaseException) -> Callable[[], None]:
        def work() -> None:
            raise problem

        return work

    full, wrong = OSError(errno.ENOSPC, "full"), ValueError("wrong")
    for work in (workers.run, workers.write, workers.flush):
        for problem in (full, wrong):
            work(failing(problem), told.append)
            loop.turn(1)
    assert told[:5] == [full, wrong, full, wrong, full]
    assert isinstance(told[5], OSError)
    assert "the flush failed: ValueError('wrong')" in str(told[5])
    workers.flush(lambda: cast("None", "a result"), told.append)
    loop.turn(1)
    assert told[6] is None
    workers.stop()


def test_a_thread_ends_with_the_loop_that_waits_no_more() -> None:
    before = threading.enumerate()
    loop, workers = crew()
    loop.closed = True
    workers.run(lambda: None, print)
    assert loop.asked.acquire(timeout=30)
    workers.stop()
    assert new(before) == set()


class Kernel:
    """System calls: io_submit takes `takes` at a time, io_getevents answers as it is told."""

    def __init__(self, takes: int = 1 << 10) -> None:
        self.takes = takes
        self.begun: list[int] = []
        self.waited: list[tuple[int, int]] = []
        self.results: list[int] = []
        self.answers: list[int] = []
        self.refusal = 0

    def syscall(self, number: int, context: Any, count: Any, *more: Any) -> int:
        if number == 1:
            (pointers,) = more
            if self.refusal:
                ctypes.set_errno(self.refusal)
                return -1
            taken: int = min(count.value, self.takes)
            for at in range(taken):
                block = ctypes.string_at(pointers[at], asynchronous_io._IOCB.size)
                fields = asynchronous_io._IOCB.unpack(block)
                assert fields[:5] == (0, 0, 0, 3, 0)
                assert fields[6:] == (0,) * 6
                self.begun.append(fields[5])
            return taken
        least, events, timeout = more
        self.waited.append((count.value, least.value))
        assert timeout is None
        got: int = self.answers.pop(0) if self.answers else count.value
        if got < 0:
            ctypes.set_errno(-got)
            return -1
        for at in range(got):
            result = self.results.pop(0) if self.results else 0
            asynchronous_io._IO_EVENT.pack_into(events, at * 32, 0, 0, result, 0)
        return got


def aio(kernel: Kernel) -> ParallelFdatasync:
    return ParallelFdatasync(cast("ctypes.CDLL", kernel), ctypes.c_ulong(9), (1, 2))


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    calls: list[int] = []
    monkeypatch.setattr(os, "fdatasync", calls.append)
    return calls


def test_files_are_handed_over_256_at_a_time_and_all_waited_for(synced: list[int]) -> None:
    kernel = Kernel()
    aio(kernel).flush(range(100, 100 + 513))
    assert kernel.begun == list(range(100, 613))
    assert kernel.waited == [(256, 256), (256, 256), (1, 1)]
    kernel = Kernel()
    kernel.answers = [-errno.EINTR, 1, 2]
    aio(kernel).flush([4, 5, 6])
    assert kernel.waited == [(3, 3), (3, 3), (2, 2)]
    assert synced == []


def test_what_the_kernel_has_no_room_for_is_flushed_one_by_one(synced: list[int]) -> None:
    kernel = Kernel(takes=2)
    aio(kernel).flush([4, 5, 6])
    assert (kernel.begun, synced) == ([4, 5], [6])
    kernel.refusal = errno.EAGAIN
    aio(kernel).flush([7, 8])
    assert synced == [6, 7, 8]


def test_the_first_error_of_any_file_is_told_once_all_are_done(synced: list[int]) -> None:
    kernel = Kernel(takes=3)
    kernel.results = [0, -errno.EIO, -errno.ENOSPC]
    with pytest.raises(OSError, match="Input/output") as failed:
        aio(kernel).flush([4, 5, 6, 7])
    assert failed.value.errno == errno.EIO
    assert synced == [7]
    kernel = Kernel()
    kernel.results = [-errno.EIO] + [0] * 256
    with pytest.raises(OSError, match="Input/output"):
        aio(kernel).flush(range(257))
    assert len(kernel.begun) == 257


@pytest.mark.parametrize("number", [errno.EINVAL, errno.ENOSYS, errno.EPERM, errno.EOPNOTSUPP])
def test_a_kernel_that_does_not_know_how_says_so(number: int, synced: list[int]) -> None:
    kernel = Kernel()
    kernel.refusal = number
    with pytest.raises(NotImplementedError):
        aio(kernel).flush([4])
    assert synced == []


def test_other_refusals_are_errors(synced: list[int]) -> None:
    kernel = Kernel()
    kernel.refusal = errno.EBADF
    with pytest.raises(OSError, match="Bad file"):
        aio(kernel).flush([4])
    kernel = Kernel()
    kernel.answers = [-errno.EIO]
    with pytest.raises(OSError, match="Input/output"):
        aio(kernel).flush([4])
    assert synced == []


def test_a_real_kernel_flushes_real_files(tmp_path: Path) -> None:
    made = ParallelFdatasync.open()
    if made is None:
        pytest.skip("this system has no asynchronous I/O of its own")
    fds = [os.open(tmp_path / f"f{at}", os.O_RDWR | os.O_CREAT) for at in range(3)]
    for fd in fds:
        os.write(fd, b"x")
    try:
        made.flush(fds)
    except NotImplementedError:
        pytest.skip("this kernel does not flush side by side")
    finally:
        for fd in fds:
            os.close(fd)


def test_a_kernel_that_takes_none_just_now_is_no_error(synced: list[int]) -> None:
    ctypes.set_errno(errno.EIO)  # of another call, long ago
    aio(Kernel(takes=0)).flush([4])
    assert synced == [4]


@pytest.mark.parametrize(
    ("machine", "opens"), [("x86_64", True), ("aarch64", True), ("z80", False)]
)
def test_only_where_the_systems_numbers_are_known_a_context_is_opened(
    machine: str, opens: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Libc:
        def __init__(self, *_: object, **__: object) -> None:
            pass

        def syscall(self, *_: object) -> int:
            return 0

    monkeypatch.setattr(os, "uname", lambda: SimpleNamespace(machine=machine))
    monkeypatch.setattr(ctypes, "CDLL", Libc)
    assert (ParallelFdatasync.open() is not None) is opens
