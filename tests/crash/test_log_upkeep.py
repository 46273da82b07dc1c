"""A live broker's upkeep of its logs: settings at run time, flushes counted, real rot found."""

import re
import time
from collections.abc import Callable
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from tests.support.processes.process import BrokerProcess, free_port

TOPIC = "kept"
ANOTHER = "another"
WAIT_SECONDS_MAX = 20.0


def broker_in(place: Path, **settings: object) -> BrokerProcess:
    broker = BrokerProcess(place, metrics_listener=f"127.0.0.1:{free_port()}")
    broker.settings |= {name.replace("_", "."): value for name, value in settings.items()}
    return broker


def metric(broker: BrokerProcess, name: str) -> float:
    address = broker.settings["metrics.listener"]
    with urlopen(f"http://{address}/metrics", timeout=5) as answer:
        text = answer.read().decode()
    found = re.search(rf"^{name} (\S+)$", text, re.MULTILINE)
    assert found is not None, f"{name} is not in\n{text}"
    return float(found[1])


def until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while not holds():
        assert time.monotonic() < deadline, f"not within {WAIT_SECONDS_MAX} s: {what}"
        time.sleep(0.05)


def make(
    broker: BrokerProcess, partitions: int = 1, config: dict[str, str] | None = None
) -> AdminClient:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(TOPIC, partitions, 1, config=config or {})])[TOPIC].result(10)
    return admin


def set_config(admin: AdminClient, name: str, value: str) -> None:
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, TOPIC, incremental_configs=[entry])
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(10)


def make_another(admin: AdminClient, config: dict[str, str]) -> None:
    admin.create_topics([NewTopic(ANOTHER, 1, 1, config=config)])[ANOTHER].result(10)


def begin_anew(broker: BrokerProcess) -> None:
    """Stop and start: the flushes that the topics' creation asked for are behind us."""
    assert broker.stop() == 0
    broker.start()

    def answers() -> bool:
        try:
            flushes(broker)
        except URLError:
            return False
        return True

    until(answers, "the metrics are served")


def flushes(broker: BrokerProcess) -> float:
    return metric(broker, "headrace_flush_seconds_count")


def watermarks(broker: BrokerProcess, topic: str) -> tuple[int, int]:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g"})
    try:
        low, high = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=5)
        return low, high
    finally:
        consumer.close()


def produce(
    broker: BrokerProcess, count: int, *, size: int = 10, partition: int = 0, topic: str = TOPIC
) -> list[object]:
    """One batch for each record; the errors."""
    settings = {"bootstrap.servers": broker.bootstrap, "acks": "all", "linger.ms": 0}
    producer = Producer(settings | {"retries": 0, "log_level": 2, "message.timeout.ms": 5000})
    errors: list[object] = []

    def answered(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            errors.append(error.code())

    for number in range(count):
        producer.produce(
            topic, b"%06d" % number + bytes(size), partition=partition, on_delivery=answered
        )
        producer.flush(10)
    return errors


def values(broker: BrokerProcess, start: int, count: int, partition: int = 0) -> list[bytes]:
    """The first bytes of `count` records from `start` on; fewer where they do not come."""
    settings = {"bootstrap.servers": broker.bootstrap, "group.id": "g", "log_level": 0}
    consumer = Consumer(settings | {"enable.auto.commit": False, "check.crcs": True})
    consumer.assign([TopicPartition(TOPIC, partition, start)])
    found: list[bytes] = []
    deadline = time.monotonic() + 5
    while len(found) < count and time.monotonic() < deadline:
        for message in consumer.consume(count, timeout=0.3):
            value = message.value()
            if message.error() is None and isinstance(value, bytes):
                found.append(value[:6])
    consumer.close()
    return found


def logs_of(broker: BrokerProcess, partition: int = 0) -> list[Path]:
    return sorted((broker.directory / "log" / f"{TOPIC}-{partition}").glob("*.log"))


def flip(path: Path, position: int) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        (byte,) = file.read(1)
        file.seek(position)
        file.write(bytes([byte ^ 0x10]))


def second_batch(path: Path) -> int:
    return int.from_bytes(path.read_bytes()[8:12], "big") + 12


def test_a_retention_that_is_lowered_acts_at_the_next_check(tmp_path: Path) -> None:
    with broker_in(tmp_path, log_retention_check_interval_ms=200) as broker:
        admin = make(broker, config={"file.delete.delay.ms": "100"})
        make_another(admin, {"retention.ms": "100"})
        assert not produce(broker, 3)
        assert not produce(broker, 1, topic=ANOTHER)
        until(lambda: watermarks(broker, ANOTHER) == (1, 1), "a check comes by")
        assert values(broker, 0, 3) == [b"000000", b"000001", b"000002"]
        set_config(admin, "retention.ms", "100")
        until(lambda: watermarks(broker, TOPIC) == (3, 3), "the start moves behind what expired")
        until(lambda: [one.name for one in logs_of(broker)] == [f"{3:020d}.log"], "the file goes")
        directory = logs_of(broker)[0].parent
        until(lambda: not list(directory.glob("*.deleted")), "the files are removed")
        assert not produce(broker, 1)


@pytest.mark.parametrize("by", ["broker", "topic", "topic at run time"])
def test_flush_messages_asks_for_just_the_flushes_it_says(tmp_path: Path, by: str) -> None:
    settings = {"log_flush_on_ack": "false"}
    if by == "broker":
        settings["log_flush_interval_messages"] = "10"
    with broker_in(tmp_path, **settings) as broker:
        admin = make(broker, config={"flush.messages": "10"} if by == "topic" else {})
        begin_anew(broker)
        if by == "topic at run time":
            set_config(admin, "flush.messages", "10")
        wanted = flushes(broker)
        # So often that one record more or less between two flushes would add up.
        for _ in range(12):
            assert not produce(broker, 9)
            assert flushes(broker) == wanted
            assert not produce(broker, 1)
            wanted += 1
            until(lambda: flushes(broker) == wanted, "one flush")  # noqa: B023 - asked at once


def test_flush_ms_flushes_what_waits_and_nothing_when_nothing_does(tmp_path: Path) -> None:
    with broker_in(tmp_path, log_flush_on_ack="false") as broker:
        admin = make(broker)
        make_another(admin, {"flush.ms": "1000"})
        begin_anew(broker)
        before = flushes(broker)
        assert not produce(broker, 5)

        def flushed_beside(wanted: float) -> None:
            assert not produce(broker, 1, topic=ANOTHER)
            until(lambda: flushes(broker) == wanted, "the other topic's record is flushed")

        flushed_beside(before + 1)
        set_config(admin, "flush.ms", "200")
        until(lambda: flushes(broker) == before + 2, "what waits is flushed, and had not been")
        for more in (3, 4):  # a second each, in which one topic's round comes by four times
            flushed_beside(before + more)


def test_rot_in_a_cold_segment_is_found_said_once_and_costs_its_own_batch(tmp_path: Path) -> None:
    settings = {"log_scrub_interval_ms": 1000, "log_scrub_bytes_per_second": 50_000_000}
    with broker_in(tmp_path, **settings) as broker:
        make(broker, config={"segment.bytes": "1048576"})
        assert not produce(broker, 12, size=300_000)
        cold = logs_of(broker)[1]
        assert len(logs_of(broker)) >= 3
        until(lambda: metric(broker, "headrace_log_scrubbed_bytes_total") > 4e6, "a round is done")
        assert metric(broker, "headrace_log_damaged_batches_total") == 0
        bad = int(cold.stem) + 1
        flip(cold, second_batch(cold) + 100)
        until(lambda: metric(broker, "headrace_log_damaged_batches_total") == 1, "the rot is found")
        time.sleep(2.5)
        assert metric(broker, "headrace_log_damaged_batches_total") == 1
        said = [line for line in broker.output.splitlines() if "damaged" in line]
        assert len(said) == 1
        assert f"{cold} at byte {second_batch(cold)}" in said[0]
        assert f"offset {bad}" in said[0]
        assert values(broker, 0, bad + 1) == [b"%06d" % at for at in range(bad)]
        assert values(broker, bad + 1, 12 - bad - 1) == [b"%06d" % at for at in range(bad + 1, 12)]
        assert not produce(broker, 1)


def test_a_damaged_partition_is_refused_by_name_and_the_others_are_served(tmp_path: Path) -> None:
    broker = broker_in(tmp_path)
    try:
        broker.start()
        make(broker, partitions=2)
        for partition in (0, 1):
            assert not produce(broker, 5, partition=partition)
        broker.kill()
        (log,) = logs_of(broker, 1)
        size = log.stat().st_size
        at = second_batch(log)
        flip(log, at + 70)
        broker.start()
        assert values(broker, 0, 5, partition=0) == [b"%06d" % number for number in range(5)]
        assert not produce(broker, 1, partition=0)
        assert produce(broker, 1, partition=1)
        assert values(broker, 0, 1, partition=1) == []
        assert log.stat().st_size == size
        assert metric(broker, "headrace_partitions_quarantined") == 1
        said = next(line for line in broker.output.splitlines() if "out of service" in line)
        assert f"{log} at byte {at}" in said
        assert "headrace log repair" in said
        flip(log, at + 70)  # what an operator does: the right bytes are put back
        broker.kill()
        broker.start()
        assert values(broker, 0, 5, partition=1) == [b"%06d" % number for number in range(5)]
    finally:
        broker.kill()
