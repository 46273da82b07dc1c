"""Kafka Streams' word count with exactly_once_v2 against us, the broker killed in the middle.

Lines go in, words are counted; twice on the way the broker is killed (SIGKILL) and started again.
At the end each word's last committed count must be exactly how often it was written.

    python -m tests.outside.kafka_tools.streams
"""

import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.frontends.kafka.connection.registry import APIS
from headrace.wire.kafka.api import ApiKey
from tests.outside.kafka_reads_our_files.brokers import Headrace
from tests.outside.kafka_tools.programs import Missing, java_program

LINES = 3000
WORDS = ("race", "head", "water", "mill", "wheel", "stream", "gate")
PARTITIONS = 2
SECONDS_MAX = 180
_KILLS = (LINES // 3, 2 * LINES // 3)
_NEEDED = {ApiKey.END_TXN, ApiKey.TXN_OFFSET_COMMIT, ApiKey.ADD_PARTITIONS_TO_TXN}


def line(number: int) -> list[str]:
    """The words of one line."""
    return [WORDS[(number * step) % len(WORDS)] for step in (1, 2, 3)]


def write(broker: Headrace) -> Counter[str]:
    """Write all lines, the broker killed on the way; how often each word was written."""
    expected: Counter[str] = Counter()
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "enable.idempotence": True,
            "linger.ms": 5,
            "log_level": 0,
        }
    )
    failed: list[str] = []

    def told(error: object, _: object) -> None:
        if error is not None:
            failed.append(str(error))

    for number in range(LINES):
        if number in _KILLS:
            broker.kill()
            broker.start()
        words = line(number)
        expected.update(words)
        producer.produce("lines", " ".join(words), partition=number % PARTITIONS, on_delivery=told)
        producer.poll(0)
        time.sleep(0.002)
    if producer.flush(60) or failed:
        raise AssertionError(f"lines were not written: {failed[:3]}")
    return expected


def counted(bootstrap: str, expected: Counter[str]) -> dict[str, int]:
    """Each word's last committed count, once they are right or the time is over."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "judge",
            "log_level": 0,
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition("counts", at, 0) for at in range(PARTITIONS)])
    found: dict[str, int] = {}
    deadline = time.monotonic() + SECONDS_MAX
    quiet_since = time.monotonic()
    while time.monotonic() < deadline:
        message = consumer.poll(0.5)
        if message is None or message.error():
            if found == dict(expected) and time.monotonic() - quiet_since > 5:
                break
            continue
        quiet_since = time.monotonic()
        found[message.key().decode()] = int(message.value())
    consumer.close()
    return found


def main() -> int:
    """The exit status: 0 where every count is right."""
    if not {api.key for api in APIS} >= _NEEDED:
        print("Kafka Streams: left out, transactions are not served")
        return 0
    place = Path(tempfile.mkdtemp(prefix="headrace-streams-"))
    broker = Headrace(place, place / "log")
    try:
        command = java_program("WordCount", 384)
    except Missing as missing:
        print(missing, file=sys.stderr)
        return 1
    try:
        with broker:
            admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
            wanted = [NewTopic(name, PARTITIONS, 1) for name in ("lines", "counts")]
            for done in admin.create_topics(wanted).values():
                done.result(30)
            words = [broker.bootstrap, "word-count", "lines", "counts", str(place / "state")]
            with (place / "streams.out").open("wb") as out:
                streams = subprocess.Popen(
                    [*command, *words], stdin=subprocess.PIPE, stdout=out, stderr=out
                )
            try:
                _wait_for(place / "streams.out", b"running", streams)
                expected = write(broker)
                found = counted(broker.bootstrap, expected)
            finally:
                streams.kill()
                streams.wait()
        right = found == dict(expected)
        print(
            f"Kafka Streams 4.3.1, exactly_once_v2: {LINES} lines, {sum(expected.values())} words,"
            f" {len(_KILLS)} kills of the broker: {'counts are right' if right else 'WRONG COUNTS'}"
        )
        if not right:
            print(f"    expected {dict(expected)}\n    found    {found}")
            print((place / "streams.out").read_text(errors="replace")[-3000:])
        return int(not right)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _wait_for(path: Path, text: bytes, process: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while text not in path.read_bytes():
        if process.poll() is not None or time.monotonic() > deadline:
            said = path.read_text(errors="replace")[-3000:]
            raise AssertionError(f"the word count does not run:\n{said}")
        time.sleep(0.1)


if __name__ == "__main__":
    sys.exit(main())
