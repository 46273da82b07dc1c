"""`make compat-kafka`: Apache Kafka itself judges our files, and we serve its.

1. Kafka 4.3.1 (KRaft) and 3.9.2 (ZooKeeper) write directories: all codecs, transactions,
   compaction, deleted history, groups. Stopped, and killed while writing and compacting, tails
   torn. We start on copies (`log import`) and serve exactly what Kafka's own client read.
2. We write more, with all codecs, compaction and groups; `log export` makes Kafka directories of
   it, and both Kafkas serve to a stock client what we served, record for record.
3. DumpLogSegments prints of every file of these directories what our dump prints, byte for byte.
"""

import argparse
import shutil
import signal
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from tests.outside.kafka_reads_our_files.brokers import (
    FROZEN,
    KAFKAS,
    Broker,
    Headrace,
    Kafka4,
    command,
    copied,
)
from tests.outside.kafka_reads_our_files.dumps import compare
from tests.outside.kafka_reads_our_files.jvm import NoJvm
from tests.outside.kafka_reads_our_files.reading import QUIET, Picture, partitions_of, read
from tests.outside.kafka_reads_our_files.writing import (
    CODECS,
    COMPACTED,
    SMALL,
    TOPICS,
    Unending,
    Writer,
    create,
)

GOLDEN = Path(__file__).parents[2] / "golden"
BUSY = {
    "log.cleaner.backoff.ms": 200,
    "log.retention.check.interval.ms": 500,
    "log.initial.task.delay.ms": 500,
    "log.segment.delete.delay.ms": 500,
}
WAIT_SECONDS_MAX = 30
PARTITIONS = sum(count for count, _ in TOPICS.values())


class Judge:
    """One judgement: what was compared, what differs."""

    def __init__(self, place: Path, seed: int) -> None:
        self.place = place
        self.seed = seed
        self.wrong: list[str] = []
        self.started = time.monotonic()

    def say(self, text: str) -> None:
        print(f"[{time.monotonic() - self.started:5.0f} s] {text}", flush=True)

    def check(self, what: str, theirs: Picture, ours: Picture) -> None:
        """Hold what a Kafka served against what we did."""
        wrong = theirs.differs(ours)
        self.wrong += [f"{what}: {one}" for one in wrong]
        read_, times, commits = theirs.counts
        verdict = f"{len(wrong)} DIFFERENCES" if wrong else "the same"
        self.say(
            f"{what}: {len(theirs.watermarks)} partitions, {read_} records, {times} times, "
            f"{commits} commits: {verdict}"
        )
        for one in wrong[:5]:
            print(f"    {one[:400]}")

    # --- directories of Kafka's, served by us -----------------------------------------------------

    def foreign(self, kafka: type[Broker]) -> Path:
        """Kafka writes, we read; the directory it left after a clean stop."""
        place = self.place / kafka.name
        log = place / "log"
        broker = kafka(place, log, **BUSY)
        broker.start()
        held = self._write(broker)
        theirs = read(broker.bootstrap, PARTITIONS)
        broker.stop()
        del held
        clean = copied(log, place / "clean")
        segments = len(list(clean.rglob("*.log")))
        self.say(f"{kafka.name}: written, {_megabytes(clean)} MB in {segments} segments")
        killed = self._kill(kafka, place, log)
        self._serve(kafka.name + ", stopped", clean, theirs)
        with kafka(place, copied(killed, place / "recovered"), **FROZEN) as again:
            theirs = read(again.bootstrap, PARTITIONS)
        self._serve(kafka.name + ", killed", killed, theirs)
        return clean

    def _write(self, broker: Broker) -> object:
        create(broker.bootstrap)
        writer = Writer(broker.bootstrap, self.seed)
        for codec in CODECS:
            writer.plain({f"j-{codec}": 1}, 3000, **{"compression.type": codec})
        writer.plain({"j-plain": 3, "j-append-time": 1}, 3000)
        writer.keyed("j-compacted", 300, 12_000)
        writer.plain({"j-deleted": 1}, 12_000)
        writer.transactions("j-transactions", 2, 60)
        writer.keyed("j-compacted", 300, 6000)
        writer.commit({"j-plain": 3, "j-zstd": 1, "j-transactions": 2})
        held = writer.undecided("j-undecided")
        wait(lambda: low(broker.bootstrap, "j-deleted") > 0)
        wait(lambda: count(broker.bootstrap, "j-compacted") < 9000)
        freeze(broker.bootstrap, "j-compacted", "j-deleted")
        time.sleep(2)
        return held

    def _kill(self, kafka: type[Broker], place: Path, log: Path) -> Path:
        """Start it again, kill it in the middle of writing and compacting, tear some tails."""
        broker = kafka(place, log, **BUSY)
        broker.start()
        partitions_of(broker.bootstrap, PARTITIONS)
        freeze(broker.bootstrap, "j-compacted", ratio="0.01", bytes_="-1")
        topics = {"j-compacted": 1, "j-zstd": 1, "j-none": 1, "j-plain": 3}
        unending = Unending(broker.bootstrap, topics, self.seed)
        unending.start()
        time.sleep(4 + self.seed % 5 / 5)
        broker.kill()
        unending.over.set()
        unending.join()
        for name, torn in (("j-none-0", -37), ("j-zstd-0", 51)):
            newest = max((log / name).glob("*.log"))
            data = newest.read_bytes()
            newest.write_bytes(data[:torn] if torn < 0 else data + data[-200 : -200 + torn])
        return log

    def _serve(self, what: str, source: Path, theirs: Picture) -> None:
        """`log import`, a start of ours, and what a client reads."""
        place = self.place / f"ours of {what}".replace(",", "").replace(" ", "-")
        command("log", "import", str(source), str(place / "log"))
        with Headrace(place, place / "log", **FROZEN) as broker:
            ours = read(broker.bootstrap, PARTITIONS)
        self.check(f"{what}, served by us", theirs, ours)
        self.dump(f"{what}, after our start and stop", place / "log")

    # --- directories of ours, served by Kafka -----------------------------------------------------

    def export(self, clean: Path) -> None:
        """Both Kafkas serve what we wrote, on top of what a Kafka had written."""
        place = self.place / "ours"
        log = place / "log"
        command("log", "import", str(clean), str(log))
        with Headrace(place, log, **BUSY) as broker:
            create(broker.bootstrap, OURS)
            writer = Writer(broker.bootstrap, self.seed + 1)
            for codec in CODECS:
                settings = {"compression.type": codec}
                writer.plain({f"o-{codec}": 1, f"j-{codec}": 1}, 1500, **settings)
            writer.keyed("o-compacted", 200, 10_000)
            writer.commit({"o-plain": 2, "j-plain": 3})
            writer.plain({"o-plain": 2}, 2000)
            writer.newer("o-plain")
            wait(lambda: count(broker.bootstrap, "o-compacted") < 6000, fatal=False)
            freeze(broker.bootstrap, "o-compacted")
            time.sleep(1)
            ours = read(broker.bootstrap, PARTITIONS + sum(count for count, _ in OURS.values()))
        command("log", "verify", str(log))
        self.dump("ours, written with all codecs", log)
        for kafka in KAFKAS:
            self._served_by(kafka, log, ours)

    def _served_by(self, kafka: type[Broker], log: Path, ours: Picture) -> None:
        place = self.place / f"export-{kafka.name}"
        target = place / "log"
        counts: dict[str, int] = {}
        for name in ours.watermarks:
            topic = name.rpartition("-")[0]
            counts[topic] = counts.get(topic, 0) + 1
        with kafka(place, target, **FROZEN) as broker:
            create(broker.bootstrap, {topic: (count, {}) for topic, count in counts.items()})
            ask_coordinator(broker.bootstrap)
        command("log", "export", str(log), str(target))
        self.dump(f"ours, exported to {kafka.name}", target)
        with kafka(place, target, **FROZEN) as broker:
            theirs = read(broker.bootstrap, len(ours.watermarks))
        self.check(f"ours, served by {kafka.name}", theirs, ours)

    # --- dumps ------------------------------------------------------------------------------------

    def dump(self, what: str, log: Path, *, full: bool = False) -> None:
        """DumpLogSegments and ours over every file."""
        files, lines, wrong = compare(log, full=full)
        self.wrong += [f"dump of {what}: {one}" for one in wrong]
        verdict = f"{len(wrong)} DIFFERENCES" if wrong else "byte for byte"
        self.say(f"dump of {what}: {files} files, {lines} lines: {verdict}")
        for one in wrong[:5]:
            print(f"    {one[:600]}")

    def golden(self) -> None:
        """The directories that are kept with the tests."""
        for name in ("kafka-4.3.1-clean", "kafka-3.9.2-clean"):
            with tarfile.open(GOLDEN / f"{name}.tgz") as archive:
                archive.extractall(self.place / "golden", filter="data")
            self.dump(name, self.place / "golden" / name, full=True)

    def written(self) -> None:
        """A directory written through the log itself: aborted transactions, snapshots, epochs."""
        from tests.support.log.log import content
        from tests.unit.logtools.test_verify import written

        disk = written()
        target = self.place / "written"
        for directory in ("", "t-0"):
            (target / directory).mkdir(parents=True, exist_ok=True)
            for name in disk.list(f"/data/{directory}".rstrip("/")):
                path = f"/data/{directory}/{name}".replace("//", "/")
                if not disk.is_directory(path):
                    (target / directory / name).write_bytes(content(disk, path))
        self.dump("ours, with transactions", target, full=True)


OURS = {
    **{f"o-{codec}": (1, SMALL) for codec in CODECS},
    "o-plain": (2, SMALL),
    "o-compacted": (1, COMPACTED),
}


def wait(until: Callable[[], bool], *, fatal: bool = True) -> None:
    """Until something has happened."""
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while not until():
        if time.monotonic() > deadline:
            assert not fatal, "what was waited for did not happen"
            return
        time.sleep(0.3)


def low(bootstrap: str, topic: str) -> int:
    """Where partition 0 begins."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "j-none", **QUIET})
    try:
        found: int = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=30)[0]
        return found
    finally:
        consumer.close()


def count(bootstrap: str, topic: str) -> int:
    """How many records partition 0 has."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "j-none",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            **QUIET,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    found = 0
    try:
        while True:
            for message in consumer.consume(500, timeout=0.2):
                if message.error() is not None:
                    return found
                found += 1
    finally:
        consumer.close()


def freeze(bootstrap: str, *topics: str, ratio: str = "1.0", bytes_: str = "-1") -> None:
    """Let neither the cleaner nor retention change these topics any more."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    wanted = {"min.cleanable.dirty.ratio": ratio, "retention.bytes": bytes_}
    resources = [
        ConfigResource(
            ResourceType.TOPIC,
            topic,
            incremental_configs=[
                ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
                for name, value in wanted.items()
            ],
        )
        for topic in topics
    ]
    wait(lambda: _done(admin.incremental_alter_configs(resources)))


def _done(futures: dict[ConfigResource, Future[None]]) -> bool:
    """Whether all went well; a broker that has just started knows no topics yet."""
    try:
        for future in futures.values():
            future.result(30)
    except KafkaException:
        return False
    return True


def ask_coordinator(bootstrap: str) -> None:
    """A group asks for its coordinator, and a Kafka makes `__consumer_offsets`, empty."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "j-none", **QUIET})
    try:
        consumer.committed([TopicPartition("j-plain", 0)], timeout=30)
    finally:
        consumer.close()


def _megabytes(path: Path) -> int:
    return sum(one.stat().st_size for one in path.rglob("*.log")) // 1_000_000


def main() -> int:
    """Judge; 0 where nothing differs."""
    parser = argparse.ArgumentParser(prog="make compat-kafka ARGS=…")
    parser.add_argument("--seed", type=int, default=int(time.time()) % 100_000)
    parser.add_argument("--keep", action="store_true", help="leave the directories there")
    parser.add_argument("--only", choices=["golden", "4.3.1", "3.9.2", "export"])
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the brokers go as well
    place = Path(tempfile.mkdtemp(prefix="kafka-judge-"))
    judge = Judge(place, given.seed)
    judge.say(f"seed {given.seed}, in {place}")
    try:
        if given.only in (None, "golden"):
            judge.golden()
            judge.written()
        clean = None
        for kafka in KAFKAS:
            wanted = given.only in (None, kafka.name.removeprefix("kafka-"))
            if wanted or (given.only == "export" and kafka is Kafka4):
                found = judge.foreign(kafka)
                clean = found if kafka is Kafka4 else clean
        if clean is not None and given.only in (None, "export"):
            judge.export(clean)
    except NoJvm as error:
        print(f"compat-kafka: {error}", file=sys.stderr)
        return 2
    finally:
        if not given.keep:
            shutil.rmtree(place, ignore_errors=True)
    judge.say(f"{len(judge.wrong)} differences; --seed {given.seed}")
    for one in judge.wrong:
        print(one[:500])
    return bool(judge.wrong)


if __name__ == "__main__":
    sys.exit(main())
