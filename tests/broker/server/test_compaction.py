"""The process that compacts: it works, says what fails, is killed at once, and goes when idle."""

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from headrace.config.broker import load
from headrace.config.topic_settings import topic_log_config
from headrace.log import file_names
from headrace.log.compaction.cleaner_settings import CleanerSettings
from headrace.log.compaction.job import Cleaned, Damaged, Done, Event, Job, Stopped
from headrace.record import batch as wire
from headrace.server import compaction_worker
from headrace.server.compaction import ProcessWorker
from headrace.server.compaction_worker import Throttle, Turns
from headrace.testing import BrokerThread

Told = list[Event | Stopped]


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_NUMBA", "0")


def job(directory: Path, batches: int = 50) -> Job:
    """One segment on a real disk, with five keys."""
    data = b"".join(
        wire.build([wire.new_record(b"%d" % at * 20, b"k%d" % (at % 5), 1)], base_offset=at)
        for at in range(batches)
    )
    (directory / file_names.segment_file(0, file_names.LOG)).write_bytes(data)
    return Job(
        directory=str(directory), partition="t-0", segments=((0, len(data)),), first_dirty=0,
        upper=batches, aborted=(), producers=(), now_ms=1, delete_retention_ms=1,
        segment_bytes=1 << 20, segment_index_bytes=4096, index_interval_bytes=4096,
        map_bytes=1 << 20, load_factor=0.9, io_buffer_bytes=4096,
        io_bytes_per_second=float("inf"), inflated_bytes_max=1 << 20,
    )  # fmt: skip


async def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)


async def ended(told: Told) -> Told:
    await until(lambda: bool(told) and isinstance(told[-1], (Done, Damaged, Stopped)))
    return told


def test_a_job_is_done_by_a_process_that_goes_when_there_is_nothing_more(tmp_path: Path) -> None:
    async def scenario() -> None:
        worker = ProcessWorker(idle_seconds=0.3)
        told: Told = []
        worker.start(job(tmp_path), told.append)
        cleaned, done = await ended(told)
        assert isinstance(cleaned, Cleaned)
        assert isinstance(done, Done)
        assert (done.counts.records_read, done.counts.records_kept) == (50, 5)
        pid = worker.pid
        assert pid is not None
        assert os.getpriority(os.PRIO_PROCESS, pid) > os.getpriority(os.PRIO_PROCESS, 0)
        again: Told = []
        worker.start(job(tmp_path), again.append)
        await ended(again)
        assert worker.pid == pid
        await until(lambda: worker.pid is None)
        await until(lambda: not Path(f"/proc/{pid}").exists())
        worker.close()
        await worker.ended()

    asyncio.run(scenario())
    kept = (tmp_path / "00000000000000000000.log.cleaned").read_bytes()
    assert [header.base_offset for _, header in wire.iterate(kept)] == [45, 46, 47, 48, 49]


def test_what_the_disk_says_no_to_is_told_and_the_process_goes_on(tmp_path: Path) -> None:
    async def scenario() -> None:
        worker = ProcessWorker()
        wanted = job(tmp_path)
        told: Told = []
        worker.start(wanted._replace(directory=str(tmp_path / "gone")), told.append)
        (failed,) = await ended(told)
        assert isinstance(failed, Stopped)
        assert "FileNotFoundError" in failed.reason
        pid = worker.pid
        again: Told = []
        worker.start(wanted, again.append)
        assert isinstance((await ended(again))[-1], Done)
        assert worker.pid == pid
        worker.close()
        await worker.ended()
        assert worker.pid is None

    asyncio.run(scenario())


def test_damage_is_told_with_file_and_position(tmp_path: Path) -> None:
    async def scenario() -> None:
        wanted = job(tmp_path)
        log = tmp_path / file_names.segment_file(0, file_names.LOG)
        data = bytearray(log.read_bytes())
        data[80] ^= 1
        log.write_bytes(data)
        worker = ProcessWorker()
        told: Told = []
        worker.start(wanted, told.append)
        (damaged,) = await ended(told)
        assert isinstance(damaged, Damaged)
        assert f"{log} at byte 0: the checksum" in damaged.reason
        worker.close()
        await worker.ended()

    asyncio.run(scenario())


def test_one_that_is_stopped_is_dead_and_the_next_job_gets_another(tmp_path: Path) -> None:
    async def scenario() -> None:
        worker = ProcessWorker()
        slow = job(tmp_path, 20_000)._replace(io_bytes_per_second=1000.0)
        told: Told = []
        worker.start(slow, told.append)
        await until(lambda: worker.pid is not None)
        pid = worker.pid
        worker.stop()
        assert await ended(told) == [Stopped("asked to")]
        assert pid is not None
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
        again: Told = []
        worker.start(job(tmp_path), again.append)
        assert isinstance((await ended(again))[-1], Done)
        assert worker.pid != pid
        worker.close()
        await worker.ended()

    asyncio.run(scenario())


def test_the_throttle_keeps_to_its_rate_and_ends_without_its_parent() -> None:
    throttle = Throttle(100_000.0, os.getppid())
    began = time.monotonic()
    for _ in range(10):
        throttle.breathe(5_000)
    assert 0.4 < time.monotonic() - began < 5
    with pytest.raises(SystemExit):
        Throttle(1e9, os.getppid() + 1).breathe(1)


class _Work:
    """Steps of 0.21 s of a processor each, and by what policy they were done."""

    def __init__(self, waits: list[float]) -> None:
        self.waits = waits
        self.ran = 0.0
        self.waited = 0.0
        self.policies: list[int] = []

    def steps(self) -> Iterator[Event | int]:
        for wait in self.waits:
            self.ran += 0.21
            self.waited += wait
            self.policies.append(os.sched_getscheduler(0))
            yield 1
        yield Damaged("the end")


def test_work_is_done_only_while_nobody_else_wants_to_unless_that_is_next_to_never(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    work = _Work([0.0, 0.0, 1.0, 20.0, 1.0, 0.1, 0.0])
    told: list[int] = []
    monkeypatch.setattr(compaction_worker, "time", SimpleNamespace(thread_time=lambda: work.ran))
    turns = Turns(lambda: work.waited)
    assert list(turns.events(work.steps(), told.append)) == [Damaged("the end")]
    idle, other = os.SCHED_IDLE, os.SCHED_OTHER
    assert work.policies == [other, idle, idle, idle, other, other, idle]
    assert told == [1] * 7


def test_what_a_step_or_the_throttle_raises_ends_the_work() -> None:
    def stop(size: int) -> None:
        raise SystemExit(size)

    with pytest.raises(SystemExit):
        list(Turns().events(iter([1, 2]), stop))


def test_the_keys_of_the_cleaner_count() -> None:
    given = {
        "log.cleaner.enable": "false", "log.cleaner.backoff.ms": "7",
        "log.cleaner.dedupe.buffer.size": "2097152", "log.cleaner.io.buffer.load.factor": "0.5",
        "log.cleaner.io.buffer.size": "8192", "log.cleaner.io.max.bytes.per.second": "1e6",
    }  # fmt: skip
    found = CleanerSettings(load(flags=given)[0])
    assert (found.enabled, found.backoff_ms, found.dedupe_buffer_bytes) == (False, 7, 2 << 20)
    assert (found.load_factor, found.io_buffer_bytes, found.io_bytes_per_second) == (0.5, 4096, 1e6)


def test_a_compacted_topic_closes_its_active_segment_within_max_compaction_lag() -> None:
    config, _ = load()
    lag = {"max.compaction.lag.ms": "5000"}
    assert topic_log_config(config, lag | {"cleanup.policy": "compact"}).segment_ms == 5000
    assert topic_log_config(config, lag).segment_ms == 604_800_000


def test_what_the_cleaner_counts_is_among_the_metrics() -> None:
    with BrokerThread({"metrics.listener": "127.0.0.1:0"}) as broker:
        names_of = broker.call(lambda server: set(server.metrics.gauges))
    assert {"headrace_cleaner_read_bytes_total", "headrace_cleaner_keyless_total",
            "headrace_cleaner_seconds_total",
            "headrace_cleaner_uncleanable_partitions"} <= names_of  # fmt: skip
