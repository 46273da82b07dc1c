"""A broker under everything at once, for minutes: nothing lost, nothing wrong, nothing that grows.

`python -m tests.soak.run --seconds 600` (make soak) prints counts and a verdict; status 1: it does
not hold. Small segments and short periods make rolls, retention, compaction and late removals
happen all the time. RSS and descriptors are those of the broker and its worker processes together.

The first minute, which the end is held against, begins once a log has been compacted: the process
that does it is there then, with its kernel compiled. A segment that is there may be open, once, and
how many are there follows the load: descriptors of those are told and not held against anything.
"""

import argparse
import re
import sys
import tempfile
import time
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient, NewTopic

from tests.soak.load import CODECS, PARTITIONS, Churner, Ledger, Member, Reader, Worker, Writer
from tests.support.processes.process import BrokerProcess

WARM_SECONDS = 60
GROWTH_MAX = 1.1
SETTINGS: dict[str, Any] = {
    "log_retention_check_interval_ms": 1000,
    "log_cleaner_backoff_ms": 500,
    "log_segment_delete_delay_ms": 1000,
    "offsets_topic_num_partitions": 2,
    "offsets_topic_segment_bytes": 1 << 18,
    "auto_create_topics_enable": "false",
}
RETAINED = {"segment.bytes": "131072", "retention.bytes": "262144", "file.delete.delay.ms": "1000"}
COMPACTED = {
    "segment.bytes": "131072",
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "2000",
    "file.delete.delay.ms": "1000",
}


_SEGMENT = re.compile(r"/\d{20}\.log$")
"""Not one that is deleted: then the link says so."""


@dataclass
class Use:
    """What a broker takes of the machine."""

    rss_kib: int = 0
    descriptors: int = 0
    """Without one for each segment."""
    segments: int = 0
    """Segments that are open."""

    def most(self, other: "Use") -> "Use":
        """The greater of each."""
        return Use(
            max(self.rss_kib, other.rss_kib),
            max(self.descriptors, other.descriptors),
            max(self.segments, other.segments),
        )


@dataclass
class Verdict:
    """What a soak found."""

    seconds: float
    counts: dict[str, int]
    wrong: list[str]
    early: Use
    late: Use
    restarts: int
    growth_max: float = GROWTH_MAX
    complaints: list[str] = field(default_factory=list)
    """Lines of the broker's log that tell of a fault."""

    def problems(self) -> list[str]:
        found = list(self.wrong) + self.complaints
        for what in ("rss_kib", "descriptors"):
            early, late = getattr(self.early, what), getattr(self.late, what)
            if late > early * self.growth_max:
                found.append(f"{what} grew from {early} to {late}")
        if self.counts.get("written", 0) < 20 * self.seconds:
            found.append("hardly anything was written: nothing is proved")
        if self.seconds >= 2 * WARM_SECONDS:
            for what in ("offsets retained away", "records compacted away"):
                if not self.counts.get(what):
                    found.append(f"no {what}: nothing is proved")
        return found

    def table(self) -> str:
        rows = [(name, str(count)) for name, count in sorted(self.counts.items())]
        rows += [
            ("restarts", str(self.restarts)),
            ("RSS, MiB", f"{self.early.rss_kib >> 10} -> {self.late.rss_kib >> 10}"),
            ("descriptors", f"{self.early.descriptors} -> {self.late.descriptors}"),
            ("open segments besides", f"{self.early.segments} -> {self.late.segments}"),
        ]
        lines = [f"  {name:28} {value:>14}" for name, value in rows]
        problems = self.problems()
        lines += [f"  ! {one}" for one in problems[:20]]
        return "\n".join([*lines, "holds" if not problems else "DOES NOT HOLD"])


def use_of(pid: int) -> Use:
    """RSS and descriptors of a process and its children."""
    total = Use()
    for one in [pid, *_children(pid)]:
        try:
            status = Path(f"/proc/{one}/status").read_text()
            opened = [_target(fd) for fd in Path(f"/proc/{one}/fd").iterdir()]
        except OSError:
            continue  # a worker that has just ended
        line = next((line for line in status.splitlines() if line.startswith("VmRSS:")), "0 0")
        total.rss_kib += int(line.split()[1])
        segments = {path for path in opened if _SEGMENT.search(path)}
        total.segments += len(segments)
        total.descriptors += len(opened) - len(segments)
    return total


def _target(fd: Path) -> str:
    try:
        return str(fd.readlink())
    except OSError:
        return ""  # closed meanwhile


def _children(pid: int) -> list[int]:
    try:
        return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


class Soak:
    """One run. `go` returns the verdict."""

    def __init__(self, directory: Path, seconds: float, restarts: int = 0) -> None:
        self._seconds = seconds
        self._restarts = restarts
        self._broker = BrokerProcess(directory, **SETTINGS)
        self._ledger = Ledger()
        self._retained = [f"retained-{codec}" for codec in CODECS]
        self._compacted = [f"compacted-{codec}" for codec in CODECS]

    def go(self, growth_max: float = GROWTH_MAX) -> Verdict:
        self._broker.start()
        try:
            self._make_topics()
            early, late = self._load()
            self._check_contents()
        finally:
            status = self._broker.stop()
        if status:
            self._ledger.say(f"the broker ended with status {status}")
        complaints = [
            line[:300]
            for line in self._broker.output.splitlines()
            if " ERROR " in line or " CRITICAL " in line or "Traceback" in line
        ]
        counts, wrong = dict(self._ledger.counts), self._ledger.wrong
        return Verdict(
            self._seconds, counts, wrong, early, late, self._restarts, growth_max, complaints[:10]
        )

    def _make_topics(self) -> None:
        admin = AdminClient({"bootstrap.servers": self._broker.bootstrap})
        new = [NewTopic(name, PARTITIONS, 1, config=RETAINED) for name in self._retained]
        new += [NewTopic(name, PARTITIONS, 1, config=COMPACTED) for name in self._compacted]
        for future in admin.create_topics(new).values():
            future.result(30)

    def _workers(self) -> list[Worker]:
        ledger, to = self._ledger, self._broker.bootstrap
        topics = self._retained + self._compacted
        found: list[Worker] = [
            Writer(ledger, to, name, codec, compacted=name in self._compacted)
            for names in (self._retained, self._compacted)
            for name, codec in zip(names, CODECS, strict=True)
        ]
        found += [Reader(ledger, to, topics, tail=True), Reader(ledger, to, topics, tail=False)]
        found += [Member(ledger, to, self._retained, number) for number in range(2)]
        return [*found, Churner(ledger, to, "churner")]

    def _load(self) -> tuple[Use, Use]:
        workers = self._workers()
        for worker in workers:
            worker.start()
        began = time.monotonic()
        warm = self._first_compaction(began) + min(WARM_SECONDS, self._seconds / 2)
        every = self._seconds / (self._restarts + 1)
        early, done = Use(), 0
        while (passed := time.monotonic() - began) < self._seconds:
            time.sleep(0.5)
            if done < self._restarts and passed > every * (done + 1):
                done += 1
                self._broker.stop()
                self._broker.start()
            now = self._use()
            if passed < warm:
                early = early.most(now)
        late = self._median_use()
        self._ledger.ending.set()
        for worker in workers:
            worker.join(120)
            if worker.is_alive():
                self._ledger.say(f"{worker.name} does not end")
        return early, late

    def _first_compaction(self, began: float) -> float:
        """Wait for it, a third of the time at most; how many seconds that took."""
        while (passed := time.monotonic() - began) < self._seconds / 3:
            if ": compacted up to" in self._broker.output:
                break
            time.sleep(0.2)
        return passed

    def _use(self) -> Use:
        process = self._broker.process
        return use_of(process.pid) if process is not None else Use()

    def _median_use(self) -> Use:
        """Of several looks: a worker process may be there at one of them."""
        looks = []
        for _ in range(9):
            looks.append(self._use())
            time.sleep(0.1)
        middle = len(looks) // 2
        return Use(
            sorted(one.rss_kib for one in looks)[middle],
            sorted(one.descriptors for one in looks)[middle],
            sorted(one.segments for one in looks)[middle],
        )

    # --- at the end ----------------------------------------------------------------------------

    def _check_contents(self) -> None:
        for topic in self._retained + self._compacted:
            for partition in range(PARTITIONS):
                self._check_partition(topic, partition)

    def _check_partition(self, topic: str, partition: int) -> None:
        ledger = self._ledger
        wrote = ledger.written[topic, partition]
        low, high, found = read_partition(self._broker.bootstrap, topic, partition)
        if high != max(wrote, default=-1) + 1:
            ledger.say(
                f"{topic}-{partition} ends at {high}, written up to {max(wrote, default=-1)}"
            )
        for offset, row in found.items():
            if wrote.get(offset) != row:
                ledger.say(f"{topic}-{partition}@{offset}: {row}, written {wrote.get(offset)}")
        if topic in self._retained:
            if low and low > 0:
                ledger.counts["offsets retained away"] += low
            missing = [offset for offset in wrote if offset >= low and offset not in found]
            if missing:
                ledger.say(f"{topic}-{partition}: {len(missing)} missing, first {min(missing)}")
            return
        newest: dict[bytes, int] = {}
        for offset in sorted(wrote):
            newest[wrote[offset][0]] = offset
        lost = [one for one in newest.values() if one not in found and wrote[one][1] != -1]
        if lost:
            ledger.say(f"{topic}-{partition}: {len(lost)} newest values lost, first {min(lost)}")
        ledger.counts["records compacted away"] += len(wrote) - len(found)


def read_partition(
    bootstrap: str, topic: str, partition: int
) -> tuple[int, int, dict[int, tuple[bytes, int]]]:
    """First offset, end, and of every offset key and checksum of the value."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "checks",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "check.crcs": True,
            "enable.partition.eof": True,
        }
    )
    try:
        low, high = consumer.get_watermark_offsets(Place(topic, partition), timeout=30)
        consumer.assign([Place(topic, partition, low)])
        found: dict[int, tuple[bytes, int]] = {}
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            for message in consumer.consume(5000, 1.0):
                if message.error() is not None:  # the end of the partition
                    return low, high, found
                value = message.value()
                check = -1 if value is None else zlib.crc32(value)
                found[message.offset()] = (message.key(), check)
        return low, high, found
    finally:
        consumer.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--restarts", type=int, default=0, help="clean restarts on the way")
    arguments = parser.parse_args()
    print(f"soak: {arguments.seconds:.0f} s, {arguments.restarts} restarts", flush=True)
    with tempfile.TemporaryDirectory(prefix="headrace-soak-") as directory:
        verdict = Soak(Path(directory), arguments.seconds, arguments.restarts).go()
    print(verdict.table())
    return bool(verdict.problems())


if __name__ == "__main__":
    sys.exit(main())
