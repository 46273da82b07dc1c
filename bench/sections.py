"""Measurements that bring their own brokers, or none: what the rows' brokers cannot be used for.

A section goes through all its rounds by itself, so that what is dear to make is made once. Its size
can be shrunk (`--scale`) for a try; the goals belong to the whole one.
"""

import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench import (
    arrow_scan,
    compaction,
    flushes,
    idle_sessions,
    partitions,
    pressure,
    recovery,
)
from bench.checkouts import NotThereError
from bench.report import Goal
from bench.start import exec_to_first_acknowledgement
from bench.subjects import Subject, in_turn
from headrace.record.batch import Codec

SCANS = 9
"""Arrow scans in a round: each takes less than a second."""
COORDINATORS = 17
"""Partitions of `__consumer_offsets` that one of three brokers leads."""
Figures = dict[str, float]
Found = Iterator[tuple[str, Figures]]
"""Subject and figures, as they come in; no figures: the subject has no such thing."""


@dataclass(frozen=True)
class Section:
    """One measurement. `goals` bound ours / peer, `ceilings` our own figure, by figure name."""

    title: str
    measure: Callable[[Sequence[Subject], int], Found]
    """Of these subjects, so many rounds."""
    seconds_max: float
    """All rounds take no longer: what is not done by then has failed."""
    rounds_max: int = 3
    goals: dict[str, Goal] = field(default_factory=dict)
    ceilings: dict[str, Goal] = field(default_factory=dict)


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Let the body take so many seconds: then TimeoutError is raised in it. Main thread only."""

    def over(*_: object) -> None:
        raise TimeoutError(f"not done after {seconds:g} s")

    handler = signal.signal(signal.SIGALRM, over)
    left = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, *left)


@contextmanager
def _place(name: str) -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix=f"bench-{name}-"))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def start(subjects: Sequence[Subject], rounds: int) -> Found:
    """Exec to the first acknowledged produce, and the memory some seconds after it."""
    for number in range(rounds):
        for subject in in_turn(subjects, number):
            yield subject.name, exec_to_first_acknowledgement(subject.broker)


def in_checkouts(
    subjects: Sequence[Subject], number: int, module: str, function: str, *arguments: object
) -> Iterator[tuple[Subject, Any]]:
    """Have each checkout of a round call a function of its own `bench`; None: it has none."""
    for subject in in_turn(subjects, number):
        try:
            found = subject.checkout and subject.checkout.call(module, function, *arguments)
        except NotThereError:
            found = None
        yield subject, found


def flush_race(subjects: Sequence[Subject], rounds: int) -> Found:
    """How long each strategy takes to flush files, and what a broker makes of it."""
    counts = (1, 100, 1000)
    for number in range(rounds):
        for subject, raced in in_checkouts(subjects, number, "flushes", "race_bare", counts, 1.0):
            for name, count, taken in raced or ():
                yield subject.name, {f"{name}, {count:,} files: ms": taken}
            if subject.checkout is None:
                continue
            for name, count, (rate, _) in flushes.race_in_broker(subject.broker, counts, 2.0):
                yield subject.name, {f"{name}, {count:,} partitions: requests/s": rate}


def pressed(gigabytes: float) -> Callable[[Sequence[Subject], int], Found]:
    def measure(subjects: Sequence[Subject], rounds: int) -> Found:
        """What clients see of a machine full of dirty pages."""
        for number in range(rounds):
            for subject in in_turn([one for one in subjects if one.checkout], number):
                broker = subject.broker(True)
                for when, figures in pressure.measure(
                    broker, seconds=10.0, gigabytes=gigabytes, batch_bytes=900_000, acks=1
                ):
                    yield subject.name, {f"{when}: {name}": it for name, it in figures.items()}

    return measure


def restart(topics: int) -> Callable[[Sequence[Subject], int], Found]:
    def measure(subjects: Sequence[Subject], rounds: int) -> Found:
        """All subjects stay up between their rounds, but Kafka, which may take long, has one."""
        under_way = {
            subject.name: partitions.restarts(subject.broker, topics, 100, rounds)
            for subject in subjects
        }
        for number in range(rounds):
            for subject in in_turn(subjects, number):
                if subject.checkout is None and number:
                    continue
                yield subject.name, next(under_way[subject.name])
                if subject.checkout is None or number == rounds - 1:
                    under_way[subject.name].close()

    return measure


def compact(records: int, keys: int) -> Callable[[Sequence[Subject], int], Found]:
    def measure(subjects: Sequence[Subject], rounds: int) -> Found:
        for subject in subjects:  # a checkout compiles its kernels once a machine, and keeps them
            with subject.broker(False, compaction.CLEANER) as broker:
                compaction.measure(broker, records // 100, keys // 100, with_latency=False)
        for number in range(rounds):
            for subject in in_turn(subjects, number):
                with subject.broker(False, compaction.CLEANER) as broker:
                    found = compaction.measure(broker, records, keys, with_latency=True)
                yield subject.name, {unit: found[unit] for unit in compaction.REPORTED}

    return measure


def recover(gigabytes: float, count: int) -> Callable[[Sequence[Subject], int], Found]:
    def measure(subjects: Sequence[Subject], rounds: int) -> Found:
        with _place("recovery") as place:
            end = recovery.fill(place, int(gigabytes * 1e9), count)
            for number in range(rounds):
                for subject in in_turn(subjects, number):
                    broker = recovery.broker_of(subject)
                    found = recovery.measure(broker, place, count, end)
                    yield subject.name, {"MB/s": gigabytes * 1000 / found["seconds"], **found}

    return measure


def scan(records: int) -> Callable[[Sequence[Subject], int], Found]:
    def measure(subjects: Sequence[Subject], rounds: int) -> Found:
        with _place("arrow") as place:
            arrow_scan.write(place, "scan", records, Codec.LZ4)
            scans = (str(place), "scan", 1, SCANS)
            for number in range(rounds):
                for subject, found in in_checkouts(
                    subjects, number, "arrow_scan", "measure", *scans
                ):
                    yield subject.name, _millions(found or {})

    return measure


def _millions(found: Mapping[str, Any]) -> Figures:
    """A scan's rates as the table has them; one that a checkout does not tell is left out."""
    units = {
        "rows per CPU second": "M records/CPU-s",
        # Without a peer beside it, nothing else tells of a core that is shared.
        "rows per CPU second, best scan": "M records/CPU-s, best scan",
        "rows/s": "M records/s",
    }
    return {unit: found[name] / 1e6 for name, unit in units.items() if name in found}


def truncate(logs: int) -> Callable[[Sequence[Subject], int], Found]:
    def measure(subjects: Sequence[Subject], rounds: int) -> Found:
        """How long many logs take to be cut, and the loop meanwhile."""
        for number in range(rounds):
            with _place("truncate") as place:
                for subject, found in in_checkouts(
                    subjects, number, "truncations", "measure", str(place), logs
                ):
                    yield subject.name, found or {}

    return measure


def measured_by_checkout(
    module: str, *arguments: object
) -> Callable[[Sequence[Subject], int], Found]:
    """Make a section of `bench.<module>.measure`, run by each checkout's own code."""

    def measure(subjects: Sequence[Subject], rounds: int) -> Found:
        for number in range(rounds):
            for subject, found in in_checkouts(subjects, number, module, "measure", *arguments):
                yield subject.name, found or {}

    return measure


def create(topics: int) -> Callable[[Sequence[Subject], int], Found]:
    def measure(subjects: Sequence[Subject], rounds: int) -> Found:
        for number in range(rounds):
            for subject in in_turn(subjects, number):
                with subject.broker(True) as broker:
                    cpu = broker.cpu_seconds()
                    seconds = partitions.create_at_once(broker, topics)
                    yield subject.name, {"s": seconds, "CPU s": broker.cpu_seconds() - cpu}

    return measure


def sessions(count: int) -> Callable[[Sequence[Subject], int], Found]:
    def measure(subjects: Sequence[Subject], rounds: int) -> Found:
        for number in range(rounds):
            for subject in in_turn(subjects, number):
                yield subject.name, idle_sessions.measure(subject.broker(False), count)

    return measure


def count(number: float) -> str:
    """10 M, 250,000."""
    return f"{number / 1e6:g} M" if number >= 1e6 else f"{number:,.0f}"


def _loop_sections(scale: float) -> list[Section]:
    """What happens to thousands of partitions at once, while the loop is to have its turns."""
    thousand, changed = max(int(1000 * scale), 1), int(3333 * scale)
    idle = int(idle_sessions.PARTITIONS * scale)
    return [
        Section(
            f"{count(thousand)} logs cut short at once",
            truncate(thousand),
            seconds_max=120,
            ceilings={"s": Goal(most=5), "loop late, most: ms": Goal(most=20)},
        ),
        Section(
            f"{COORDINATORS} coordinators of {count(50_000 * scale)} records loaded at once",
            measured_by_checkout("loading", COORDINATORS, int(50_000 * scale)),
            seconds_max=600,
            # How late the loop is tells of the neighbours too, where others use the machine.
            ceilings={"its own work, most: ms": Goal(most=20)},
        ),
        Section(
            f"{count(thousand)} topics made by one request",
            create(thousand),
            seconds_max=120,
            ceilings={"s": Goal(most=0.5)},
        ),
        Section(
            f"leaders of {count(changed)} partitions change",
            measured_by_checkout("leadership", changed),
            seconds_max=120,
            ceilings={"CPU s": Goal(most=0.3), "its own work in a turn, most: ms": Goal(most=20)},
        ),
        Section(
            f"5,000 msg/s beside two fetch sessions of {count(idle)} partitions",
            sessions(idle),
            seconds_max=300,
            ceilings={"CPU ms/wake": Goal(most=1), "p99 beside them / alone": Goal(most=1.5)},
        ),
    ]


def all_sections(scale: float) -> list[Section]:
    """Every section, in the order in which they run."""
    records, keys = int(10e6 * scale), int(1e6 * scale)
    topics, gigabytes = max(int(100 * scale), 1), 10 * scale
    return [
        Section(
            "start",
            start,
            seconds_max=300,
            ceilings={"exec to first ack s": Goal(most=0.5), "RSS idle MB": Goal(most=60)},
        ),
        Section(
            f"{count(topics * 100)} partitions: stopped or killed, and up again",
            restart(topics),
            seconds_max=600,
            ceilings={
                "stopped: s to first ack": Goal(most=4),
                "killed: s to first ack": Goal(most=4),
                "RSS MB": Goal(most=150),
            },
        ),
        Section(
            f"recovery of {gigabytes:g} GB in segments of 1 MiB, {min(100, topics)} partitions",
            recover(gigabytes, min(100, topics)),
            seconds_max=600,
            rounds_max=2,
            goals={"MB/s": Goal(least=2)},
        ),
        Section(
            f"compaction of {count(records)} records of 100 B, {count(keys)} keys",
            compact(records, keys),
            seconds_max=900,
            goals={"records/s": Goal(least=2)},
            ceilings={"p99 beside it / idle": Goal(most=2)},
        ),
        Section(
            f"Arrow scan of {count(records / 2)} records, lz4, 16 KB batches, all columns",
            scan(records // 2),
            seconds_max=180,
            rounds_max=5,
            ceilings={"M records/CPU-s": Goal(least=15)},
        ),
        *_loop_sections(scale),
        Section("log.flush.strategy raced", flush_race, seconds_max=600, rounds_max=1),
        Section(
            f"the loop beside a writer of {4 * scale:g} GB, batches of 900 KB, acks=1",
            pressed(4 * scale),
            seconds_max=240,
            rounds_max=2,
        ),
    ]
