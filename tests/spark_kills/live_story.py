"""Real Spark drivers that are killed at named points and started again, and what they wrote.

Each play appends records to every partition, starts a driver, and kills it (its JVM and workers
too, as a power cut would) when one of its processes stands at the point. A last driver writes what
is left; then every offset has exactly one effect in the topics and in the table.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tests.spark.kit import Topics
from tests.spark.long import QUICK_JAVA
from tests.spark.sink_kit import committed_rows, numbers_of
from tests.spark_kills.live_points import (
    ACTION,
    BLOCKS,
    DIE,
    LOSE_SHUFFLE,
    MEET,
    POINT,
    SECOND_STANDS,
    SIGN,
    WAIT,
)  # fmt: skip
from tests.spark_kills.speculation import BEGUN, GIVEN_UP, WON, attempts_of, speculating
from tests.support.spark.tables import read

if TYPE_CHECKING:
    from collections.abc import Iterator

PARTITIONS = 3
RECORDS_A_PLAY = 20
"""In each of the six partitions."""
SECONDS_MAX = 500.0
TASKS = (8, 3, 5)
SLOW = {WAIT: "first attempt stands", SECOND_STANDS: "second one stands", MEET: "both write"}
ROOT = Path(__file__).resolve().parents[2]


class LiveStory:
    """One pipeline of two queries, and the drivers that run it one after the other."""

    module = "tests.spark_kills.live_driver"
    """The drivers' program."""

    def __init__(self, topics: Topics, place: Path, seed: int, kind: str = "delta") -> None:
        self.topics, self.place, self.kind = topics, place, kind
        self.sources = [topics.create(PARTITIONS) for _ in range(2)]
        self.targets = [topics.create(PARTITIONS) for _ in range(2)]
        self.counts: Counter[str] = Counter()
        self.written = 0
        self._chance = random.Random(seed)
        self._plays = 0
        place.mkdir(parents=True, exist_ok=True)

    def append(self) -> None:
        """Write more records, numbered through all partitions."""
        for topic in self.sources:
            for partition in range(PARTITIONS):
                self.topics.number(topic, partition, self.written, RECORDS_A_PLAY)
                self.written += RECORDS_A_PLAY

    def play(self, point: str) -> None:
        """Kill a driver at the point."""
        self.append()
        with self.driver(point, WAIT, _query_of(point)) as driver:
            self.wait_for_sign(driver, point)
        self.counts[f"driver killed, {point}"] += 1

    def disturb(self, point: str, action: str) -> None:
        """Let a worker die, or the shuffle's files go, at the point; Spark mends it by itself."""
        self.append()
        with self.driver(point, action, _query_of(point)) as driver:
            self.finish(driver)
        assert self.sign.exists(), f"no process came by {point}"
        what = {DIE: "worker killed, task tried again", LOSE_SHUFFLE: "shuffle lost, stage again"}
        self.counts[f"{what[action]}, {point}"] += 1

    def speculate(self, point: str, action: str, master: str) -> None:
        """Let a task be slow at the point, on a cluster that begins a second attempt at it then.

        WAIT: the first attempt stands until Spark kills it. SECOND_STANDS: the second one does, as
        soon as it is there. MEET: both are there, and then write all they have.
        """
        self.append()
        before = self.without_effect()
        with self.driver(point, action, _query_of(point), master=master) as driver:
            try:
                self.finish(driver)
            finally:
                for ending in (".go", ".end"):
                    self.sign.with_suffix(ending).touch()
        found = attempts_of(self.events)
        assert found[BEGUN], f"{point}: no second attempt was begun"
        assert found[GIVEN_UP], f"{point}: no attempt was given up"
        if action == WAIT:
            assert found[WON], f"{point}: the first attempt stands, and none of the others won"
        self.counts[f"slow task, {SLOW[action]}, {point}"] += 1
        for name, count in found.items():
            self.counts[f"{name}, {_query_of(point)}"] += count
        if _query_of(point) == "topic":
            lost = self.without_effect() - before
            assert lost, f"{point}: no attempt wrote what another one wrote too"
            self.counts["records written by attempts that do not count, topic"] += lost

    def without_effect(self) -> int:
        """How many records are in the topics that readers of committed data do not see."""
        bootstrap, count = self.topics.bootstrap, 0
        for topic in self.targets:
            count += len(committed_rows(bootstrap, topic, committed=False))
            count -= len(committed_rows(bootstrap, topic))
        return count

    def complete(self) -> None:
        """Let a driver write all that is left, and count."""
        with self.driver() as driver:
            self.finish(driver)
        self.check()

    def overtake(self, point: str) -> str:
        """Start a second driver while the first one is at the point; what the first one says."""
        self.append()
        queries = _query_of(point)
        with self.driver(point, WAIT, queries) as older:
            self.wait_for_sign(older, point)
            sign = self.sign
            with self.driver(queries=queries) as newer:
                self.finish(newer)
            sign.with_suffix(".go").touch()
            said, _ = older.communicate(timeout=SECONDS_MAX)
        self.counts[f"two drivers at once, {point}"] += 1
        return said

    @property
    def sign(self) -> Path:
        """The file that says that the point was reached."""
        return self.place / f"sign-{self._plays}"

    @property
    def events(self) -> Path:
        """Where Spark notes what the last driver's tasks did."""
        return self.place / f"events-{self._plays}"

    @contextmanager
    def driver(
        self,
        point: str = "",
        action: str = WAIT,
        queries: str = "topic,table",
        master: str | None = None,
    ) -> "Iterator[subprocess.Popen[str]]":
        """A driver; at the end it and all of its processes are killed.

        `master`: of a cluster, on which it speculates.
        """
        self._plays += 1
        tasks = TASKS[self._plays % len(TASKS)]
        self.counts[f"drivers with {tasks} tasks"] += 1
        planted = {POINT: point, ACTION: action, SIGN: str(self.sign)} if point else {}
        environment = {
            **planted, "HEADRACE_NUMBA": "0", "PYTHONPATH": str(ROOT),
            BLOCKS: str(self.place / "blocks"), **QUICK_JAVA,
        }  # fmt: skip
        more = {} if master is None else speculating(master, self.events, environment)
        arguments = [
            self.topics.bootstrap, str(self.place), str(tasks), self.kind,
            ",".join(self.sources), ",".join(self.targets), queries, json.dumps(more),
        ]  # fmt: skip
        driver = subprocess.Popen(
            [sys.executable, "-m", self.module, *arguments],
            env={**os.environ, **environment},
            start_new_session=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            yield driver
        finally:
            kill_session(driver.pid)
            driver.wait()
            if driver.stdout is not None:
                driver.stdout.close()

    def wait_for_sign(self, driver: "subprocess.Popen[str]", point: str) -> None:
        """Return when a process is at the point."""
        end = time.monotonic() + SECONDS_MAX
        while not self.sign.exists():
            if driver.poll() is not None:
                raise AssertionError(f"it ended before {point}: {driver.communicate()[0]}")
            assert time.monotonic() < end, f"no process came by {point}"
            time.sleep(0.05)

    def finish(self, driver: "subprocess.Popen[str]") -> None:
        """Wait until the driver has written all."""
        said, _ = driver.communicate(timeout=SECONDS_MAX)
        assert driver.returncode == 0, said

    def check(self) -> None:
        """Raise AssertionError unless every record is in the topics once, and in the table once."""
        expected = list(range(self.written))
        found = numbers_of(self.topics.bootstrap, *self.targets)
        assert found == expected, f"topics: {_difference(found, self.written)}"
        values = read(self.place / "table", self.kind).column("value").to_pylist()
        rows = sorted(int(value) for value in values)
        assert rows == expected, f"table: {_difference(rows, self.written)}"
        self.counts["records, each once in topics and table"] = self.written


def _query_of(point: str) -> str:
    return point.partition(":")[0]


def kill_session(session: int) -> None:
    """Kill every process of a session that was started here, workers in groups of their own too."""
    end = time.monotonic() + 30
    while members := _members(session):
        assert time.monotonic() < end, f"{members} do not end"
        for process in members:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        time.sleep(0.02)


def _members(session: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with suppress(OSError):
            state, _, _, of = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
            if int(of) == session and state != "Z":
                found.append(int(entry.name))
    return found


def _difference(found: list[int], until: int) -> str:
    counted = Counter(found)
    missing = [number for number in range(until) if not counted[number]]
    doubled = [number for number, count in counted.items() if count > 1]
    return f"missing {missing[:9]} ({len(missing)}), doubled {doubled[:9]} ({len(doubled)})"
