"""The command in processes of its own, as a user starts it."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pyarrow.parquet as pq
from deltalake import DeltaTable

from headrace.pipeline.run.event_log import events_of
from tests.spark.long import QUICK_JAVA

SECONDS_MAX = 300
FLOWS = """
@dp.table(format="delta")
@hp.expect_or_drop("is no third", "id % 3 <> 0")
def rows():
    return hp.topic("{topic}", "id BIGINT NOT NULL, name STRING")

@dp.table(format="parquet")
def copies():
    return hp.topic("{topic}", "id BIGINT NOT NULL, name STRING").where("id % 2 = 0")
"""
"""Flows of a shop that runs in a process of its own."""
LOCAL = 'configuration = { "spark.master" = "local[2]" }\n'


class Finished(NamedTuple):
    """A command that has ended."""

    code: int
    out: str
    err: str


def start(*words: str) -> "subprocess.Popen[str]":
    """Start `headrace pipeline` with these words."""
    return subprocess.Popen(
        [sys.executable, "-m", "headrace", "pipeline", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | QUICK_JAVA,
    )


def finish(process: "subprocess.Popen[str]") -> Finished:
    """Wait for the end of a command."""
    try:
        out, err = process.communicate(timeout=SECONDS_MAX)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        raise AssertionError(f"has not ended: {out}\n{err}") from None
    return Finished(process.returncode, out, err)


def run(*words: str) -> Finished:
    """Run `headrace pipeline` to its end."""
    return finish(start(*words))


def events(storage: Path, kind: str) -> int:
    """Count the events of a kind in all event logs of a storage."""
    return sum(
        event["event"] == kind
        for log in (storage / "_pipeline" / "runs").glob("*.jsonl")
        for event in events_of(log)
    )


def wait_for(holds: Callable[[], bool], process: "subprocess.Popen[str]") -> None:
    """Wait until something holds while a process runs."""
    wait_for_any(holds, process)


def wait_for_any(holds: Callable[[], bool], *processes: "subprocess.Popen[str]") -> None:
    """Wait until something holds while one of these processes runs."""
    deadline = time.monotonic() + SECONDS_MAX
    while not holds():
        ended = [process for process in processes if process.poll() is not None]
        assert len(ended) < len(processes), [finish(process) for process in ended]
        assert time.monotonic() < deadline
        time.sleep(0.05)


def end(process: "subprocess.Popen[str]", number: signal.Signals) -> Finished:
    """Send a signal to a command and wait for its end."""
    process.send_signal(number)
    return finish(process)


def words(directory: Path, bootstrap: str, *more: str) -> Sequence[str]:
    """Return the words of a run."""
    return ["run", str(directory), "-b", bootstrap, *more]


def ids(shop: Path) -> tuple[list[int], list[int]]:
    """The ids in both tables, sorted."""
    rows = DeltaTable(str(shop / "data" / "rows")).to_pyarrow_table()["id"].to_pylist()
    files = (shop / "data" / "copies").glob("[!_]*.parquet")
    copies = [number for file in files for number in pq.read_table(file)["id"].to_pylist()]
    return sorted(rows), sorted(copies)


def more_batches(shop: Path, least: int) -> bool:
    """Tell whether the runs of a shop have had so many batches."""
    return events(shop / "data", "batch") >= least


def expected(count: int) -> tuple[list[int], list[int]]:
    """Return the ids that both tables have after so many records."""
    return [n for n in range(count) if n % 3], [n for n in range(count) if n % 2 == 0]


def end_in_batches(
    run: Sequence[str],
    shop: Path,
    send: Callable[[int, int], None],
    number: signal.Signals,
) -> tuple[int, list[Finished]]:
    """End two runs of a shop by a signal, each in its fifth batch; return records sent and endings.

    `send(partition, first)` sends ten records. Three runs then write all that is left.
    """
    count, ended = 0, []
    for _ in range(2):
        process = start(*run)
        for _ in range(4):
            send(count // 10 % 2, count)
            count += 10
            least = events(shop / "data", "batch") + 1
            wait_for(partial(more_batches, shop, least), process)
        send(0, count)
        count += 10
        ended.append(end(process, number))
    for _ in range(3):
        last = finish(start(*run, "--once"))
        assert last.code == 0, last
    return count, ended
