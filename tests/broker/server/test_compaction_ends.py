"""The compacting process at its ends: rests, kills, closing; and its own side of the pipes."""

import asyncio
import io
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.log.compaction.job import Cleaned, Done, Job, Stopped, read, write
from headrace.server import compaction_worker
from headrace.server.compaction import ProcessWorker
from tests.broker.server.test_compaction import Told, ended, job, until


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_NUMBA", "0")


def slow(directory: Path) -> Job:
    """A job that takes longer than any test."""
    return job(directory, 20_000)._replace(io_bytes_per_second=1000.0)


def test_a_job_that_comes_while_the_process_rests_keeps_it_from_ending(tmp_path: Path) -> None:
    async def scenario() -> None:
        worker = ProcessWorker(idle_seconds=0.5)
        first: Told = []
        worker.start(job(tmp_path), first.append)
        await ended(first)
        pid = worker.pid
        told: Told = []
        worker.start(slow(tmp_path), told.append)
        await asyncio.sleep(0.8)
        assert (worker.pid, told) == (pid, [])
        worker.close()
        await worker.ended()
        assert worker.pid is None

    asyncio.run(scenario())


def test_who_is_stopped_before_its_process_runs_is_told_so_and_leaves_no_process(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        worker = ProcessWorker()
        told: Told = []
        worker.start(slow(tmp_path), told.append)
        await asyncio.sleep(0)
        worker.stop()
        assert await ended(told) == [Stopped("asked to")]
        assert worker.pid is None

    asyncio.run(scenario())


def test_a_process_that_dies_by_itself_is_told_and_the_next_job_gets_another(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        worker = ProcessWorker()
        told: Told = []
        worker.start(slow(tmp_path), told.append)
        await until(lambda: worker.pid is not None)
        pid = worker.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        assert await ended(told) == [Stopped("the worker process has ended")]
        again: Told = []
        worker.start(job(tmp_path), again.append)
        assert isinstance((await ended(again))[-1], Done)
        worker.close()
        await worker.ended()

    asyncio.run(scenario())


@pytest.mark.parametrize("when", ["at once", "while it works", "while it rests"])
def test_once_closed_nothing_is_told_and_no_process_is_left(when: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        worker = ProcessWorker(idle_seconds=60)
        told: Told = []
        worker.start(job(tmp_path) if when == "while it rests" else slow(tmp_path), told.append)
        if when == "while it works":
            await until(lambda: worker.pid is not None)
        elif when == "while it rests":
            await ended(told)
        pid, known = worker.pid, list(told)
        worker.close()
        await worker.ended()
        assert (worker.pid, told) == (None, known)
        assert worker._idle is None
        if pid is not None:
            with pytest.raises(ProcessLookupError):
                os.kill(pid, 0)

    asyncio.run(scenario())


class _Dying:
    """A process that takes a while to be gone after it was killed."""

    stdin = None
    pid = 1
    killed = gone = False

    def kill(self) -> None:
        self.killed = True

    async def wait(self) -> int:
        assert self.killed
        await asyncio.sleep(0.05)
        self.gone = True
        return -signal.SIGKILL


def test_the_end_is_waited_for_until_the_killed_process_is_gone() -> None:
    async def scenario() -> None:
        worker: Any = ProcessWorker()
        process = worker._process = _Dying()
        worker.close()
        await worker.ended()
        assert process.gone

    asyncio.run(scenario())


class _Stream:
    """Standard input or output, as bytes."""

    def __init__(self, content: bytes = b"") -> None:
        self.buffer = io.BytesIO(content)


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Callable[[bytes], list[object]]:
    """What the process answers to its input, here."""

    def serve(content: bytes) -> list[object]:
        out = _Stream()
        monkeypatch.setattr(sys, "stdin", _Stream(content))
        monkeypatch.setattr(sys, "stdout", out)
        compaction_worker.serve(os.getppid())
        return [read(line) for line in out.buffer.getvalue().splitlines(keepends=True)]

    return serve


def test_the_process_answers_each_line_with_what_became_of_it(
    served: Callable[[bytes], list[object]], tmp_path: Path
) -> None:
    wanted = job(tmp_path)
    gone = wanted._replace(directory=str(tmp_path / "gone"))
    cleaned, done, failed = served(write(wanted) + write(gone))
    assert isinstance(cleaned, Cleaned)
    assert isinstance(done, Done)
    assert (done.counts.records_read, done.counts.records_kept) == (50, 5)
    assert isinstance(failed, Stopped)
    assert failed.reason.startswith("FileNotFoundError: ")


def test_the_process_ends_with_what_is_no_job(served: Callable[[bytes], list[object]]) -> None:
    with pytest.raises(SystemExit) as end:
        served(write(Stopped("no job")))
    assert end.value.code == 2


def test_each_answer_is_flushed_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    flushed: list[int] = []

    class Out(io.BytesIO):
        def flush(self) -> None:
            flushed.append(self.tell())

    out = Out()
    lines = [write(job(tmp_path)), write(job(tmp_path)._replace(directory=str(tmp_path / "gone")))]
    monkeypatch.setattr(sys, "stdin", _Stream(b"".join(lines)))
    monkeypatch.setattr(sys, "stdout", SimpleNamespace(buffer=out))
    compaction_worker.serve(os.getppid())
    ends = [len(line) for line in out.getvalue().splitlines(keepends=True)]
    assert flushed == [sum(ends[:count]) for count in range(1, len(ends) + 1)]


def test_the_process_is_killed_when_its_parent_dies_and_does_not_begin_without_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[tuple[int, ...]] = []
    library = SimpleNamespace(prctl=lambda *words: calls.append(words))
    monkeypatch.setattr("ctypes.CDLL", lambda _: library)
    compaction_worker.die_with(os.getppid())
    with pytest.raises(SystemExit) as end:
        compaction_worker.die_with(os.getppid() + 1)
    assert end.value.code == 1
    assert calls == [(1, signal.SIGKILL, 0, 0, 0)] * 2, "PR_SET_PDEATHSIG"


def test_seconds_waited_for_a_processor_are_the_systems_second_number(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    place = tmp_path / "schedstat"
    monkeypatch.setattr(compaction_worker, "_SCHEDSTAT", str(place))
    for content, seconds in (("7 2500000000 9\n", 2.5), ("7\n", 0.0), ("a b c\n", 0.0)):
        place.write_text(content)
        assert compaction_worker._seconds_waited() == seconds
    place.unlink()
    assert compaction_worker._seconds_waited() == 0.0


def test_a_throttle_lets_at_most_a_second_be_made_up_for(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(now=100.0, slept=[])
    time = SimpleNamespace(monotonic=lambda: clock.now, sleep=clock.slept.append)
    monkeypatch.setattr(compaction_worker, "time", time)
    throttle = compaction_worker.Throttle(1000.0, os.getppid())
    clock.now = 150.0
    throttle.breathe(1000)
    assert clock.slept == []
    throttle.breathe(500)
    assert clock.slept == [0.5]
