"""What works while something is broken: a feeder, copiers and readers, and the notes of all.

One idempotent producer writes numbered records, copiers copy them in transactions, readers of
committed data watch. What was acknowledged, and what was seen, is the history that is judged.
"""

import json
import signal
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaException, Message, Producer
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient, NewTopic

from tests.chaos.copier import (
    COPIES,
    EVEN,
    GROUP,
    LIBRARY_WAITS,
    ODD,
    QUICK,
    SOURCE,
    SOURCES,
    messages_of,
)
from tests.chaos.history import Copy, History, Verdict, judge
from tests.support.processes.process import wait_or_kill

COPIERS = 2
AHEAD_MAX = 5_000
"""Records that the feeder may be ahead of the copiers."""
AHEAD_RATE = 20.0
"""Records a second of a feeder that is as far ahead: that producing goes on is seen by them."""
DRAIN_SECONDS_MAX = 180
COPY_SECONDS_MAX = 900.0
"""How long the copiers may take for what is left in the end, as long as they get on."""
STILL_SECONDS_MAX = 90.0
"""How long they may get nowhere: many times what transactions and members are given up after."""
MESSAGES_MAX = 2000
"""Messages that a reader takes at once."""
ANY_BROKER: dict[str, Any] = {
    "group.min.session.timeout.ms": 500,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 500,
}
PLACES = [(topic, index) for topic in (EVEN, ODD) for index in range(COPIES)]
SOURCE_PLACES = [(SOURCE, index) for index in range(SOURCES)]


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


def copy_of(message: Message) -> Copy:
    partition, offset, transaction = (message.value() or b"").decode().split()
    place = (message.topic() or "", message.partition() or 0)
    return Copy(place, message.offset() or 0, (int(partition), int(offset)), transaction)


class Pulse:
    """Operations acknowledged to clients, and the longest time without any."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0
        self._last = time.monotonic()
        self._still_seconds_max = 0.0

    def beat(self) -> None:
        """Count one operation that was acknowledged just now."""
        with self._lock:
            now = time.monotonic()
            self._still_seconds_max = max(self._still_seconds_max, now - self._last)
            self._last = now
            self._count += 1

    def lap(self) -> tuple[int, float]:
        """Return the operations since the last lap and the longest time without one; begin anew."""
        with self._lock:
            now = time.monotonic()
            lap = self._count, max(self._still_seconds_max, now - self._last)
            self._count, self._last, self._still_seconds_max = 0, now, 0.0
            return lap


class Feeder:
    """Writes `rate` records a second, and hardly more than `ahead_max` beyond the copies."""

    def __init__(
        self, bootstrap: str, copied: "Notes", pulse: Pulse, rate: float | None, ahead_max: int
    ) -> None:
        self._bootstrap = bootstrap
        self._copied = copied
        self._pulse = pulse
        self._rate = rate
        self._ahead_max = ahead_max
        self.acknowledged: dict[int, list[int]] = defaultdict(list)
        """Of each partition the numbers, in the order of their acknowledgements."""
        self.failed: list[str] = []
        self.stop = threading.Event()

    def run(self) -> None:
        producer = Producer(
            QUICK
            | {
                "bootstrap.servers": self._bootstrap,
                "enable.idempotence": True,
                "message.timeout.ms": DRAIN_SECONDS_MAX * 1000,
            }
        )
        batch = 100 if self._rate is None else max(1, int(self._rate / 50))
        number, due, looked = 0, 0.0, time.monotonic()
        while not self.stop.is_set():
            ahead = number - self._copied.records > self._ahead_max
            rate = AHEAD_RATE if ahead else self._rate
            now = time.monotonic()
            due = batch if rate is None else min(due + (now - looked) * rate, 10 * batch)
            looked = now
            if due < batch:
                producer.poll(0.02)
                continue
            due -= batch
            for _ in range(batch):
                producer.produce(
                    SOURCE, b"%d" % number, partition=number % SOURCES, on_delivery=self._delivered
                )
                number += 1
            producer.poll(0.01)
        if producer.flush(DRAIN_SECONDS_MAX):
            self.failed.append("records never answered")

    def _delivered(self, error: object, message: Message) -> None:
        if error is not None:
            self.failed.append(str(error))
        else:
            self.acknowledged[message.partition() or 0].append(int(message.value() or b""))
            self._pulse.beat()


class Notes:
    """The copiers' notes, read as they come."""

    def __init__(self, path: Path, history: History, pulse: Pulse) -> None:
        self._file = path.open("a+b")
        self._file.seek(0)
        self._history = history
        self._pulse = pulse
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
                self._pulse.beat()


class CopierProcess:
    """A copier, started again whenever it is not there."""

    def __init__(self, bootstrap: str, name: str, directory: Path) -> None:
        notes = str(directory / "notes.jsonl")
        self._command = [sys.executable, "-m", "tests.chaos.copier", bootstrap, name, notes]
        self._errors = (directory / f"{name}.err").open("ab")
        self._ended = False
        self.library_waits = 0
        """How often it ended since its library waited for nothing."""
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(self._command, stderr=self._errors)

    def tend(self) -> None:
        """A copier that was fenced ends by itself."""
        if not self._ended and self.process.poll() is not None:
            self.library_waits += self.process.returncode == LIBRARY_WAITS
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

    def tell_calls(self) -> None:
        """Have it print the calls of its threads to its file of errors."""
        self.process.send_signal(signal.SIGUSR1)

    def end(self) -> None:
        """End it for good."""
        self._ended = True
        self.process.terminate()
        wait_or_kill(self.process, 30)
        self._errors.close()


def until_copied(
    counts: Mapping[int, int],
    copied: Callable[[], Mapping[int, int]],
    *,
    seconds_max: float = COPY_SECONDS_MAX,
    still_seconds_max: float = STILL_SECONDS_MAX,
) -> str | None:
    """Return when as much is copied of each partition as `counts` says; else what is to be said.

    A loaded machine copies slowly for as long as it takes; one that stands still is at fault.
    """
    began = moved = time.monotonic()
    most: Mapping[int, int] = {}
    while True:
        error = ""
        try:
            found = copied()
        except KafkaException as problem:  # its coordinator may be about to move
            found, error = most, f"; {problem}"
        if all(count <= found.get(index, -1) for index, count in counts.items()):
            return None
        now = time.monotonic()
        if any(offset > most.get(index, -1) for index, offset in found.items()):
            most, moved = found, now
        if now - moved > still_seconds_max or now - began > seconds_max:
            places = ", ".join(
                f"{index}: {most.get(index, -1)} of {count}" for index, count in counts.items()
            )
            return (
                f"not all was copied {now - began:.0f} s after the end ({places}), the last of it"
                f" {now - moved:.0f} s ago{error}"
            )
        time.sleep(0.1)


class Load:
    """All of them at work on `bootstrap`, with `replicas` of each partition."""

    def __init__(
        self,
        bootstrap: str,
        directory: Path,
        *,
        replicas: int = 1,
        rate: float | None = None,
        ahead_max: int = AHEAD_MAX,
    ) -> None:
        self.bootstrap = bootstrap
        self.history = History()
        self.pulse = Pulse()
        self.problems: list[str] = []
        self._create_topics(replicas)
        self.notes = Notes(directory / "notes.jsonl", self.history, self.pulse)
        self.feeder = Feeder(bootstrap, self.notes, self.pulse, rate, ahead_max)
        self.copiers = [
            CopierProcess(bootstrap, f"copier-{number}", directory) for number in range(COPIERS)
        ]
        self._watching = threading.Event()
        self._threads = [threading.Thread(target=self.feeder.run)]
        self._threads += [
            threading.Thread(target=self._watch, args=(f"reader-{number}",)) for number in range(2)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def library_waits(self) -> int:
        """How often a copier was begun again since its library waited for nothing."""
        return sum(copier.library_waits for copier in self.copiers)

    def _create_topics(self, replicas: int) -> None:
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        config = {"min.insync.replicas": str(min(2, replicas)), "segment.bytes": str(4 << 20)}
        partitions = {SOURCE: SOURCES, EVEN: COPIES, ODD: COPIES}
        wanted = [NewTopic(*found, replicas, config=config) for found in partitions.items()]
        for future in admin.create_topics(wanted).values():
            future.result(30)

    def _watch(self, name: str) -> None:
        consumer = reader(self.bootstrap, name)
        consumer.assign([Place(topic, index, 0) for topic, index in PLACES])
        while not self._watching.is_set():
            self.history.seen[name].extend(map(copy_of, messages_of(consumer, MESSAGES_MAX, 0.2)))
        consumer.close()

    def tend(self) -> None:
        """Take in what copiers noted, and start again those that ended."""
        self.notes.read()
        for copier in self.copiers:
            copier.tend()

    # judging

    def finish(self) -> Verdict:
        """Let all be copied, end everything, judge."""
        self.feeder.stop.set()
        self._threads[0].join()
        self.history.acknowledged = {
            partition: list(numbers) for partition, numbers in self.feeder.acknowledged.items()
        }
        self._drain()
        for copier in self.copiers:
            copier.end()
        self.notes.read()
        for message in self._read_all(SOURCE_PLACES):
            self.history.written[message.partition() or 0].append(int(message.value() or b""))
        self.history.final = [copy_of(message) for message in self._read_all(PLACES)]
        self._watching.set()
        for thread in self._threads:
            thread.join()
        self.problems += self.feeder.failed
        return judge(self.history)

    def _drain(self) -> None:
        """Until the group has come to the end of the source, or copies no more."""
        consumer = reader(self.bootstrap, GROUP)
        wanted = [Place(SOURCE, index) for index in range(SOURCES)]
        counts = {index: len(found) for index, found in self.history.acknowledged.items()}

        def copied() -> dict[int, int]:
            self.tend()
            return {one.partition: one.offset for one in consumer.committed(wanted, 30)}

        problem = until_copied(counts, copied)
        if problem is not None:
            self.problems.append(problem)
            for copier in self.copiers:
                copier.tell_calls()
        consumer.close()

    def _read_all(self, places: list[tuple[str, int]]) -> list[Message]:
        """Up to the last stable offset of every partition, which must be its end."""
        consumer = reader(self.bootstrap, "final")
        ends = {}
        for topic, index in places:
            _, ends[topic, index] = consumer.get_watermark_offsets(Place(topic, index), 30)
        consumer.assign([Place(topic, index, 0) for topic, index in places])
        found: list[Message] = []
        deadline = time.monotonic() + DRAIN_SECONDS_MAX
        while time.monotonic() < deadline:
            found.extend(messages_of(consumer, MESSAGES_MAX, 0.5))
            at = {(one.topic, one.partition): one.offset for one in consumer.position([
                Place(topic, index) for topic, index in places
            ])}  # fmt: skip
            if all(at[place] >= end or end == 0 for place, end in ends.items()):
                break
        else:
            self.problems.append(f"not readable up to the end: at {at} of {ends}")
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
