"""How long a start takes that has to read everything again: ours, and Kafka's on the same files.

    python -m bench.recovery [gigabytes] [partitions] [kafka | headrace]

A topic is filled with segments of 1 MiB, one in two of batches of 16 KB, the other of one batch of
1 MB. The recovery points say 0 and there was no clean stop, so both read every byte and look at
every checksum, with two threads. Seconds from exec until the ends are answered; CPU seconds.
"""

import json
import os
import shutil
import signal
import struct
import sys
import tempfile
import time
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from bench import rawload
from bench.subjects import KAFKA, OURS, Broker, Subject
from headrace.record.batch import parse_header, stamp

TOPIC = "bench-recovery"
SEGMENT_BYTES = 1 << 20
SMALL_BYTES, LARGE_BYTES = 16_000, 1_000_000
RECORD_BYTES = 1000
THREADS = 2
WAIT_SECONDS_MAX = 240
SEGMENT_SUFFIXES = (".log", ".index", ".timeindex")
INDEX_EVERY = 4096


def segment_of(batch: bytes, first_offset: int) -> tuple[bytes, bytes, bytes, int]:
    """A full segment's `.log`, `.index` and `.timeindex`, and the offset after it."""
    header = parse_header(batch)
    offset, since = first_offset, 0
    parts, index = [], []
    for position in range(0, SEGMENT_BYTES - len(batch) + 1, len(batch)):
        own = bytearray(batch)
        stamp(memoryview(own), offset, 0)
        last = offset + header.last_offset_delta
        if since > INDEX_EVERY:
            index.append(struct.pack(">ii", last - first_offset, position))
            since = 0
        since += len(own)
        parts.append(bytes(own))
        offset = last + 1
    newest = struct.pack(">qi", header.max_timestamp, header.last_offset_delta)
    return b"".join(parts), b"".join(index), newest, offset


def fill(place: Path, total_bytes: int, partitions: int) -> int:
    """Write the segments of every partition into `place/<number>`; the end offset of each."""
    count = max(total_bytes // (partitions * SEGMENT_BYTES), 1)
    small = rawload.record_batch(RECORD_BYTES, SMALL_BYTES)
    large = rawload.record_batch(RECORD_BYTES, LARGE_BYTES)
    for partition in range(partitions):
        (place / str(partition)).mkdir(parents=True)
    offset = 0
    for number in range(count):
        contents = segment_of(large if number % 2 else small, offset)
        for partition in range(partitions):
            for suffix, content in zip(SEGMENT_SUFFIXES, contents[:3], strict=True):
                (place / str(partition) / f"{offset:020d}{suffix}").write_bytes(content)
        offset = contents[3]
    return offset


def hand_over(source: Path, target: Path) -> None:
    """Move segments from one partition's directory to another's."""
    for old in target.iterdir():
        if old.suffix in (*SEGMENT_SUFFIXES, ".snapshot", ".txnindex"):
            old.unlink()
    for file in source.iterdir():
        if file.suffix in SEGMENT_SUFFIXES:
            file.rename(target / file.name)


def broker_of(subject: Subject) -> Broker:
    """A broker that is to recover: ours flushes, as it does by default."""
    return subject.broker(subject.checkout is not None)


def measure(broker: Broker, place: Path, partitions: int, end: int) -> dict[str, float]:
    """Let `broker` recover what lies in `place`, and put it back there."""
    with broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
        config = {"segment.bytes": str(SEGMENT_BYTES), "retention.ms": "-1"}
        wanted = NewTopic(TOPIC, partitions, 1, config=config)
        for future in admin.create_topics([wanted], operation_timeout=60).values():
            future.result(120)
        logs = broker.directory / "log"
        while not all((logs / f"{TOPIC}-{one}").is_dir() for one in range(partitions)):
            time.sleep(0.1)
        time.sleep(2)
        broker.process.send_signal(signal.SIGKILL)
        broker.process.wait()
        for partition in range(partitions):
            hand_over(place / str(partition), logs / f"{TOPIC}-{partition}")
        (logs / ".kafka_cleanshutdown").unlink(missing_ok=True)
        lines = "".join(f"{TOPIC} {partition} 0\n" for partition in range(partitions))
        points = logs / "recovery-point-offset-checkpoint"
        points.write_text(f"0\n{partitions}\n{lines}")
        with (broker.directory / "server.properties").open("a") as properties:
            properties.write(f"num.recovery.threads.per.data.dir={THREADS}\n")
        os.sync()
        broker.start()
        until_answered(broker, partitions, end)
        found = {
            "seconds": round(time.monotonic() - broker.started, 2),
            "CPU s": round(broker.cpu_seconds(), 2),
            "RSS MB": round(broker.rss_megabytes(), 1),
        }
        broker.process.send_signal(signal.SIGKILL)
        broker.process.wait()
        for partition in range(partitions):
            hand_over(logs / f"{TOPIC}-{partition}", place / str(partition))
        return found


def until_answered(broker: Broker, partitions: int, end: int) -> None:
    """Return when the last offset of the first and the last partition is told."""
    settings = {"bootstrap.servers": broker.bootstrap, "group.id": "bench", "log_level": 0}
    settings |= {"reconnect.backoff.ms": "10", "reconnect.backoff.max.ms": "50"}
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    asker = Consumer(settings)
    for partition in (0, partitions - 1):
        while True:
            try:
                found = asker.get_watermark_offsets(TopicPartition(TOPIC, partition), timeout=2)
                if found[1] == end:
                    break
            except KafkaException:
                found = (-1, -1)
            if time.monotonic() > deadline or broker.process.poll() is not None:
                raise RuntimeError(f"{broker.name}: ends at {found}, not {end}")
            time.sleep(0.02)
    asker.close()


def main() -> None:
    gigabytes = float(sys.argv[1]) if sys.argv[1:] else 10.0
    partitions = int(sys.argv[2]) if sys.argv[2:] else 100
    subjects = {subject.name: subject for subject in (OURS, KAFKA)}
    wanted = sys.argv[3:] or list(subjects)
    place = Path(tempfile.mkdtemp(prefix="bench-recovery-"))
    try:
        end = fill(place, int(gigabytes * 1e9), partitions)
        os.sync()
        results: dict[str, object] = {"gigabytes": gigabytes, "partitions": partitions}
        for name in wanted:
            results[name] = measure(broker_of(subjects[name]), place, partitions, end)
            print(json.dumps({name: results[name]}), flush=True)
        print(json.dumps(results))
    finally:
        shutil.rmtree(place, ignore_errors=True)


if __name__ == "__main__":
    main()
