"""Compaction in its own process, killed while it works, and with its broker."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.processes.process import BrokerProcess

pytestmark = pytest.mark.timeout(1800)
KEYS = 100
WAIT_SECONDS_MAX = 240.0
"""Far more than any wait takes on a quiet machine: a loaded one fails no test."""
SETTINGS: dict[str, Any] = {
    "log_cleaner_backoff_ms": 200,
    "log_segment_delete_delay_ms": 300,
    "log_flush_on_ack": "true",
}
TOPIC = {
    "cleanup.policy": "compact",
    "segment.bytes": "200000",
    "min.cleanable.dirty.ratio": "0.01",
}


def eventually(true: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while not true():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def workers_of(broker: BrokerProcess) -> list[int]:
    """Process ids of the broker's compaction workers."""
    assert broker.process is not None
    try:
        children = Path(f"/proc/{broker.process.pid}/task/{broker.process.pid}/children")
        found = [int(one) for one in children.read_text().split()]
        return [one for one in found if b"compaction_worker" in commands(one)]
    except FileNotFoundError:
        return []


def commands(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def create(broker: BrokerProcess, **more: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    config = TOPIC | {name.replace("_", "."): value for name, value in more.items()}
    admin.create_topics([NewTopic("c", 1, 1, config=config)])["c"].result(WAIT_SECONDS_MAX)


def write(broker: BrokerProcess, start: int, count: int) -> dict[bytes, bytes]:
    """Write `count` records over KEYS keys; the last value of each."""
    last: dict[bytes, bytes] = {}
    producer = Producer({"bootstrap.servers": broker.bootstrap, "enable.idempotence": True})
    for number in range(start, start + count):
        key, value = b"key-%d" % (number % KEYS), b"%d-" % number + b"x" * 90
        producer.produce("c", value, key)
        last[key] = value
        if number % 1000 == 0:
            producer.flush(WAIT_SECONDS_MAX)
    assert producer.flush(WAIT_SECONDS_MAX) == 0
    return last


def read(broker: BrokerProcess) -> list[tuple[int, bytes, bytes]]:
    """Every record of the topic."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "reads",
                         "enable.partition.eof": True})  # fmt: skip
    found: list[tuple[int, bytes, bytes]] = []
    try:
        consumer.assign([TopicPartition("c", 0, 0)])
        deadline = time.monotonic() + WAIT_SECONDS_MAX
        while time.monotonic() < deadline:
            message = consumer.poll(1)
            if message is not None and message.error():
                return found
            if message is not None:
                found.append((message.offset(), message.key(), message.value()))
    finally:
        consumer.close()
    raise AssertionError("the end was not reached")


def last_of(found: list[tuple[int, bytes, bytes]]) -> dict[bytes, bytes]:
    offsets = [offset for offset, _, _ in found]
    assert offsets == sorted(set(offsets))
    return {key: value for _, key, value in found}


def checkpoint(broker: BrokerProcess) -> int:
    path = broker.directory / "log" / "cleaner-offset-checkpoint"
    if not path.exists():
        return 0
    entries = [line.split() for line in path.read_text().splitlines()[2:]]
    return next((int(offset) for topic, _, offset in entries if topic == "c"), 0)


def names_of(broker: BrokerProcess) -> list[str]:
    return sorted(os.listdir(broker.directory / "log" / "c-0"))


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker takes the twin in plain Python: nothing waits for a compiler on a busy machine."""
    monkeypatch.setenv("HEADRACE_NUMBA", "0")


@pytest.fixture
def compiled(plain: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker takes the compiled kernel, which is compiled by now."""
    pytest.importorskip("numba")
    monkeypatch.delenv("HEADRACE_NUMBA")
    warm = (
        "from headrace.kernels.compact_records import KernelRecords as K;"
        "from headrace.log.compaction.records import Span;"
        "from headrace.record.batch import build, new_record;"
        "data = build([new_record(b'', b'')])[61:]; k = K(9, 9); s = Span(data, 1, 0, 0);"
        "k.index(s, 0); k.filter(s, 0, True); k.rebase(data, 1, 1);"
        "k._kernel.grow_table(k._table, k._table.copy())"
    )
    subprocess.run([sys.executable, "-c", warm], check=True, timeout=200)


@pytest.fixture
def broker(tmp_path: Path) -> BrokerProcess:
    return BrokerProcess(tmp_path, **SETTINGS)


def test_a_topic_is_compacted_while_clients_read_it(compiled: None, broker: BrokerProcess) -> None:
    with broker:
        create(broker)
        last = write(broker, 0, 20_000)
        assert last_of(read(broker)) == last
        eventually(lambda: checkpoint(broker) > 15_000, broker.output)
        found = read(broker)
        assert last_of(found) == last
        assert len(found) < 6_000
        assert len(workers_of(broker)) == 1
        eventually(
            lambda: not [one for one in names_of(broker) if one.endswith("deleted")], "files"
        )


def test_a_worker_killed_in_the_middle_harms_nothing_and_is_replaced(
    tmp_path: Path,
) -> None:
    settings = SETTINGS | {"log_cleaner_io_max_bytes_per_second": 1_000_000}
    broker = BrokerProcess(tmp_path, **settings)
    with broker:
        create(broker)
        last = write(broker, 0, 20_000)
        written = 20_000
        while stopped(broker) < 2:
            if kill_in_the_middle(broker, written):
                continue
            # The compaction ended before this process, which others may hold up, has seen it.
            last |= write(broker, written, 5_000)
            written += 5_000
        assert last_of(read(broker)) == last
        eventually(lambda: compacted(broker, written), broker.output)
        found = read(broker)
        assert last_of(found) == last
        assert len(found) < 6_000
        eventually(lambda: cleaned(broker) == [], broker.output)


def kill_in_the_middle(broker: BrokerProcess, written: int) -> bool:
    """Kill the worker while files are half done; whether the broker has noticed, or False if the
    compaction ended before."""
    before = stopped(broker)
    eventually(lambda: half_done(broker) or compacted(broker, written), broker.output)
    if half_done(broker):
        for pid in workers_of(broker):
            os.kill(pid, signal.SIGKILL)
    eventually(lambda: stopped(broker) > before or compacted(broker, written), broker.output)
    return stopped(broker) > before


def compacted(broker: BrokerProcess, written: int) -> bool:
    """Whether all but the records of the last segment, at most 5,000, are compacted."""
    return checkpoint(broker) > written - 5_000


def half_done(broker: BrokerProcess) -> bool:
    """Whether a worker has begun to write segments and not handed them over."""
    return bool(cleaned(broker) and workers_of(broker))


def stopped(broker: BrokerProcess) -> int:
    """How often the broker has noticed that a worker did not end its work."""
    return broker.output.count("compaction stopped, retrying later")


def cleaned(broker: BrokerProcess) -> list[str]:
    return [one for one in names_of(broker) if one.endswith(".cleaned")]


def test_a_killed_broker_takes_its_worker_along_and_compacts_after_the_restart(
    tmp_path: Path,
) -> None:
    settings = SETTINGS | {"log_cleaner_io_max_bytes_per_second": 1_000_000}
    broker = BrokerProcess(tmp_path, **settings)
    broker.start()
    create(broker)
    last = write(broker, 0, 20_000)
    eventually(lambda: bool(cleaned(broker)), f"nothing half done\n{broker.output}")
    workers = workers_of(broker)
    assert workers
    broker.kill()
    eventually(lambda: not any(commands(one) for one in workers), "the worker outlived its broker")
    assert cleaned(broker)
    with broker:
        assert cleaned(broker) == [] or workers_of(broker)
        assert last_of(read(broker)) == last
        last |= write(broker, 20_000, 3_000)
        eventually(lambda: checkpoint(broker) > 18_000, broker.output)
        found = read(broker)
        assert last_of(found) == last
        assert len(found) < 6_000
        assert "damaged" not in broker.output
        assert "out of service" not in broker.output


def test_committed_offsets_survive_the_compaction_of_their_topic(tmp_path: Path) -> None:
    settings = SETTINGS | {
        "offsets_topic_num_partitions": 1,
        "offsets_topic_segment_bytes": 20_000,
        "log_cleaner_min_cleanable_ratio": 0.01,
    }
    broker = BrokerProcess(tmp_path, **settings)
    with broker:
        create(broker)
        write(broker, 0, 500)
        consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g",
                             "enable.auto.commit": False})  # fmt: skip
        for offset in range(1, 400):
            where = [TopicPartition("c", 0, offset)]
            consumer.commit(offsets=where, asynchronous=False)
        consumer.close()
        offsets = broker.directory / "log" / "cleaner-offset-checkpoint"
        eventually(
            lambda: offsets.exists() and "__consumer_offsets 0" in offsets.read_text(),
            broker.output,
        )
    for clean in (True, False):
        broker.start()
        again = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g"})
        found = again.committed([TopicPartition("c", 0)], timeout=20)
        again.close()
        assert [one.offset for one in found] == [399]
        if clean:
            broker.stop()
        else:
            broker.kill()
