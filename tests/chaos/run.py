"""Exactly-once under kills: `make chaos`, or `python -m tests.chaos.run --seconds 1800`.

A feeder writes, two copiers copy in transactions, two readers of committed data watch; meanwhile
the broker is killed, and copiers are killed or stopped for longer than their group waits. Every
kill comes after at least 100 commits since the one before. Prints the counts; status 1: a promise
broke.
"""

import argparse
import json
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient, NewTopic

from tests.chaos.copier import COPIES, EVEN, GROUP, ODD, QUICK, SOURCE, SOURCES
from tests.chaos.history import Copy, History, Verdict, judge
from tests.support.process import BrokerProcess

COPIERS = 2
COMMITS_BETWEEN_KILLS_MIN = 100
LAG_MAX = 5_000
PROGRESS_SECONDS_MAX = 90
DRAIN_SECONDS_MAX = 180
PAUSE_SECONDS = 4.0
ANY_BROKER: dict[str, Any] = {
    "group.min.session.timeout.ms": 500,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 500,
}


def reader(bootstrap: str, group: str) -> Consumer:
    return Consumer(
        QUICK
        | {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "check.crcs": True,
        }
    )


def copies_of(consumer: Consumer, seconds: float) -> Iterator[Copy]:
    """What comes within that time."""
    for message in consumer.consume(2000, seconds):
        if message.error() is not None:
            continue
        partition, offset, transaction = (message.value() or b"").decode().split()
        place = (message.topic() or "", message.partition() or 0)
        yield Copy(place, message.offset() or 0, (int(partition), int(offset)), transaction)


PLACES = [(topic, index) for topic in (EVEN, ODD) for index in range(COPIES)]


@dataclass
class Feeder:
    """Writes as fast as the copiers copy."""

    bootstrap: str
    copied: "Notes"
    written: Counter[int] = field(default_factory=Counter)
    failed: list[str] = field(default_factory=list)
    stop: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        producer = Producer(
            QUICK
            | {
                "bootstrap.servers": self.bootstrap,
                "enable.idempotence": True,
                "message.timeout.ms": DRAIN_SECONDS_MAX * 1000,
            }
        )
        number = 0
        while not self.stop.is_set():
            if number - self.copied.records > LAG_MAX:
                producer.poll(0.02)
                continue
            for _ in range(100):
                producer.produce(
                    SOURCE, b"%d" % number, partition=number % SOURCES, on_delivery=self._delivered
                )
                number += 1
            producer.poll(0.01)
        if producer.flush(DRAIN_SECONDS_MAX):
            self.failed.append("records never answered")

    def _delivered(self, error: object, message: object) -> None:
        if error is not None:
            self.failed.append(str(error))
        else:
            self.written[message.partition()] += 1  # type: ignore[attr-defined]


class Notes:
    """The copiers' notes, read as they come."""

    def __init__(self, path: Path, history: History) -> None:
        self._file = path.open("a+b")
        self._file.seek(0)
        self._history = history
        self._rest = b""
        self.commits = 0
        self.records = 0

    def read(self) -> None:
        *lines, self._rest = (self._rest + self._file.read()).split(b"\n")
        for raw in lines:
            line = json.loads(raw)
            self._history.note(line)
            if line["what"] == "committed":
                self.commits += 1
                self.records += self._history.transactions[line["transaction"]].copies


class CopierProcess:
    """A copier that is started again whenever it ends."""

    def __init__(self, bootstrap: str, name: str, directory: Path) -> None:
        notes = str(directory / "notes.jsonl")
        self._command = [sys.executable, "-m", "tests.chaos.copier", bootstrap, name, notes]
        self._errors = (directory / f"{name}.err").open("ab")
        self.starts = 0
        self.start()

    def start(self) -> None:
        self.starts += 1
        self.process = subprocess.Popen(self._command, stderr=self._errors)

    def tend(self) -> None:
        """A copier that was fenced ends by itself."""
        if self.process.poll() is not None:
            self.start()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self.start()

    def pause(self, seconds: float) -> None:
        """Let the group and its transaction give it up, and have it come back as a zombie."""
        self.process.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        self.process.send_signal(signal.SIGCONT)

    def end(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._errors.close()


class Chaos:
    """One run."""

    def __init__(self, directory: Path, seed: int, **settings: object) -> None:
        self.directory = directory
        self.chance = random.Random(seed)
        self.broker = BrokerProcess(directory / "broker", **(ANY_BROKER | settings))
        self.broker.start()
        self.history = History()
        self.kills: Counter[str] = Counter()
        self.between_min = sys.maxsize
        self.unclean: list[str] = []
        self._create_topics()
        self.notes = Notes(directory / "notes.jsonl", self.history)
        self.feeder = Feeder(self.broker.bootstrap, self.notes)
        self.copiers = [
            CopierProcess(self.broker.bootstrap, f"copier-{n}", directory) for n in range(COPIERS)
        ]
        self._watching = threading.Event()
        self._threads = [threading.Thread(target=self.feeder.run)]
        self._threads += [
            threading.Thread(target=self._watch, args=(f"reader-{n}",)) for n in range(2)
        ]
        for thread in self._threads:
            thread.start()

    def _create_topics(self) -> None:
        admin = AdminClient({"bootstrap.servers": self.broker.bootstrap, "log_level": 0})
        wanted = [NewTopic(SOURCE, SOURCES, 1), NewTopic(EVEN, COPIES, 1), NewTopic(ODD, COPIES, 1)]
        for future in admin.create_topics(wanted).values():
            future.result(30)

    def _watch(self, name: str) -> None:
        consumer = reader(self.broker.bootstrap, name)
        consumer.assign([Place(topic, index, 0) for topic, index in PLACES])
        while not self._watching.is_set():
            self.history.seen[name].extend(copies_of(consumer, 0.2))
        consumer.close()

    # disturbing

    def ride(self, seconds: float) -> None:
        """Disturb until the time is over."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            before = self.notes.commits
            self._wait_for(partial(self._has_committed, before + COMMITS_BETWEEN_KILLS_MIN))
            time.sleep(self.chance.uniform(0.0, 0.1))
            self._disturb()
            self.notes.read()
            self.between_min = min(self.between_min, self.notes.commits - before)

    def _has_committed(self, commits: int) -> bool:
        return self.notes.commits >= commits

    def _disturb(self) -> None:
        how = self.chance.choices(["broker", "copier", "both", "pause"], [10, 6, 3, 1])[0]
        self.kills[how] += 1
        copier = self.chance.choice(self.copiers)
        if how in ("broker", "both"):
            self.broker.kill()
        if how in ("copier", "both"):
            copier.kill()
        if how in ("broker", "both"):
            self.broker.start()
        if how == "pause":
            copier.pause(PAUSE_SECONDS)

    def _wait_for(self, reached: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PROGRESS_SECONDS_MAX
        while True:
            self.notes.read()
            if reached():
                return
            for copier in self.copiers:
                copier.tend()
            if time.monotonic() > deadline:
                raise AssertionError(f"no progress:\n{self.broker.output[-3000:]}")
            time.sleep(0.02)

    # judging

    def finish(self) -> Verdict:
        """Let all be copied, end everything, judge."""
        self.feeder.stop.set()
        self._threads[0].join()
        self.history.sources = dict(self.feeder.written)
        self._drain()
        for copier in self.copiers:
            copier.end()
        self.notes.read()
        self.history.final = self._read_all()
        self._watching.set()
        for thread in self._threads:
            thread.join()
        return judge(self.history)

    def _drain(self) -> None:
        """Until the group has come to the end of the source."""
        consumer = reader(self.broker.bootstrap, GROUP)
        wanted = [Place(SOURCE, index) for index in range(SOURCES)]
        deadline = time.monotonic() + DRAIN_SECONDS_MAX
        while time.monotonic() < deadline:
            found = consumer.committed(wanted, 30)
            if all(self.history.sources.get(one.partition, 0) <= one.offset for one in found):
                break
            for copier in self.copiers:
                copier.tend()
            time.sleep(0.1)
        consumer.close()

    def _read_all(self) -> list[Copy]:
        """Up to the last stable offset of every partition, which must be its end."""
        consumer = reader(self.broker.bootstrap, "final")
        ends = {}
        for topic, index in PLACES:
            _, ends[topic, index] = consumer.get_watermark_offsets(Place(topic, index), 30)
        consumer.assign([Place(topic, index, 0) for topic, index in PLACES])
        found: list[Copy] = []
        deadline = time.monotonic() + DRAIN_SECONDS_MAX
        while time.monotonic() < deadline:
            found.extend(copies_of(consumer, 0.5))
            at = {(one.topic, one.partition): one.offset for one in consumer.position([
                Place(topic, index) for topic, index in PLACES
            ])}  # fmt: skip
            if all(at[place] >= end or end == 0 for place, end in ends.items()):
                break
        else:
            self.unclean.append(f"not readable up to the end: at {at} of {ends}")
        consumer.close()
        return found

    def close(self) -> None:
        """Leave nothing running."""
        self.feeder.stop.set()
        self._watching.set()
        for copier in self.copiers:
            copier.end()
        for thread in self._threads:
            thread.join(30)
        self.broker.stop()


def ride(directory: Path, seconds: float, seed: int, **settings: object) -> bool:
    """One run, the broker with `settings`; prints what came of it. Whether everything held."""
    chaos = Chaos(directory, seed, **settings)
    try:
        chaos.ride(seconds)
        verdict = chaos.finish()
    finally:
        chaos.close()
    problems = chaos.feeder.failed + chaos.unclean
    enough = chaos.between_min >= COMMITS_BETWEEN_KILLS_MIN
    told = ", ".join(f"{name} {count}" for name, count in sorted(chaos.kills.items()))
    print(f"{chaos.kills.total()} disturbances ({told}), at least {chaos.between_min} commits each")
    print(f"{verdict}")
    for problem in problems[:5]:
        print(f"  {problem}")
    return verdict.holds() and not problems and enough


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1800)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--page-cache", action="store_true", help="acknowledge before the flush")
    arguments = parser.parse_args()
    settings = {"log.flush.on.ack": str(not arguments.page_cache).lower()}
    print(f"chaos: {arguments.seconds:.0f} seconds, seed {arguments.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="headrace-chaos-") as directory:
        held = ride(Path(directory), arguments.seconds, arguments.seed, **settings)
    print("held" if held else "BROKE")
    return not held


if __name__ == "__main__":
    sys.exit(main())
