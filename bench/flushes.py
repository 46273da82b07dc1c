"""How files reach the platter: the strategies of log.flush.strategy raced, bare and in a broker.

    python -m bench.flushes [--files 1,4,16,100,1000] [--seconds 2] [--no-broker]

Bare: a batch of BATCH_BYTES is appended to each of so many files, and all are flushed; the median
of the flush alone, in milliseconds. In a broker: requests a second with acks=all, one record each,
to so many partitions in turn, and the broker's CPU time for one. `threads` is what the broker has
not: sixteen threads with an fdatasync each.
"""

import argparse
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

from bench import rawload
from bench.subjects import Broker, Headrace
from headrace.posix.flush_strategies import FLUSHES, Flush

BATCH_BYTES = 170
THREADS = 16
WARM_UP = 3
FLUSHES_MAX = 400


class Threads:
    """Each file by itself, on a pool."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(THREADS)

    def flush(self, fds: Sequence[int], size: int, devices: Sequence[int]) -> None:
        list(self._pool.map(os.fdatasync, fds))


def bare(strategy: Flush, folder: Path, files: int, seconds: float) -> float:
    """Median milliseconds of a flush of `files` files that each got a batch."""
    fds = [os.open(folder / str(at), os.O_RDWR | os.O_CREAT) for at in range(files)]
    batch = bytes(BATCH_BYTES)
    taken: list[float] = []
    position = 0
    began = time.monotonic()
    while len(taken) < WARM_UP + FLUSHES_MAX and (
        time.monotonic() - began < seconds or len(taken) < WARM_UP + 3
    ):
        for fd in fds:
            os.pwrite(fd, batch, position)
        position += BATCH_BYTES
        at = time.perf_counter()
        strategy.flush(fds, BATCH_BYTES * files, fds[:1])
        taken.append(time.perf_counter() - at)
    for fd in fds:
        os.close(fd)
    return median(taken[WARM_UP:]) * 1e3


def in_broker(broker: Broker, partitions: int, seconds: float) -> tuple[float, float]:
    """Requests a second, and CPU microseconds for one."""
    topic = f"flushes-{partitions}"
    broker.create_topic(topic, partitions)
    for part in (0.5, seconds):
        cpu = broker.cpu_seconds()
        load = rawload.produce_everywhere(
            broker.bootstrap,
            topic,
            partitions=partitions,
            in_flight=max(partitions, 32),
            seconds=part,
        )
        cpu = broker.cpu_seconds() - cpu
    broker.delete_topic(topic)
    return load.requests_per_second, cpu / load.requests * 1e6


def race_bare(counts: Sequence[int], seconds: float) -> Iterator[tuple[str, int, float]]:
    """Strategy, files, milliseconds of a flush."""
    strategies: dict[str, Flush] = {name: made() for name, made in FLUSHES.items()}
    strategies["threads"] = Threads()
    for count in counts:
        for name, strategy in strategies.items():
            folder = Path(tempfile.mkdtemp(prefix="bench-flushes-"))
            try:
                yield name, count, bare(strategy, folder, count, seconds)
            finally:
                shutil.rmtree(folder)


def race_in_broker(
    broker_type: Callable[..., Broker], counts: Sequence[int], seconds: float
) -> Iterator[tuple[str, int, tuple[float, float]]]:
    """Strategy, partitions, requests a second and CPU microseconds for one."""
    for name in FLUSHES:
        with broker_type(True, f"log.flush.strategy={name}\n") as broker:
            for count in counts:
                yield name, count, in_broker(broker, count, seconds)


def print_race(title: str, first: str, found: Iterable[tuple[str, int, str]]) -> None:
    """One line for each number of files, one column for each strategy."""
    cells = {(count, name): text for name, count, text in found}
    names = list(dict.fromkeys(name for _, name in cells))
    table = Table(title=title, title_justify="left")
    for column in (first, *names):
        table.add_column(column, justify="right")
    for count in dict.fromkeys(count for count, _ in cells):
        table.add_row(f"{count:,}", *[cells[count, name] for name in names])
    Console(width=120).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.flushes", description=__doc__)
    parser.add_argument("--files", default="1,4,16,100,1000")
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--no-broker", action="store_true", help="the bare flushes only")
    given = parser.parse_args()
    counts = [int(part) for part in given.files.split(",")]
    bare_ones = race_bare(counts, given.seconds)
    print_race(
        "bare: ms of a flush (median)",
        "files",
        ((name, count, f"{taken:.2f}") for name, count, taken in bare_ones),
    )
    if not given.no_broker:
        brokers = race_in_broker(Headrace, counts, given.seconds)
        print_race(
            "broker, acks=all: requests/s (CPU µs each)",
            "partitions",
            ((name, count, f"{rate:,.0f} ({cpu:.1f})") for name, count, (rate, cpu) in brokers),
        )


if __name__ == "__main__":
    main()
