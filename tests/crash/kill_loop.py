"""kill -9 under load, again and again, while an idempotent librdkafka producer rides through.

`python -m tests.crash.kill_loop --kills 100` prints what was acknowledged, lost, duplicated and out
of order (the last three must be 0) and how long each start took. Status 1: a promise broke.
"""

import argparse
import random
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.process import BrokerProcess

TOPIC = "ridden"
PARTITIONS = 3
ACKNOWLEDGED_BETWEEN_KILLS_MIN = 1000
ANSWER_SECONDS_MAX = 1.0
IN_FLIGHT_MAX = 20_000
SETTLE_SECONDS_MAX = 120


@dataclass
class Load:
    """An idempotent producer in a thread; remembers what was acknowledged, and where."""

    bootstrap: str
    event_ms: int = 0
    """Timestamp of all records; 0: the time of sending."""
    acknowledged: dict[tuple[int, int], int] = field(default_factory=dict)
    """(partition, number) → offset."""
    failed: list[str] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 2,
                "message.timeout.ms": SETTLE_SECONDS_MAX * 1000,
                "reconnect.backoff.ms": 10,
                "reconnect.backoff.max.ms": 100,
                "retry.backoff.ms": 10,
                "retry.backoff.max.ms": 100,
                "topic.metadata.refresh.fast.interval.ms": 50,
                "log_level": 0,
            }
        )
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._stop.is_set():
            if len(self._producer) > IN_FLIGHT_MAX:
                self._producer.poll(0.01)
                continue
            for _ in range(50):
                number += 1
                for partition in range(PARTITIONS):
                    self._send(partition, number)
            self._producer.poll(0.002)

    def _send(self, partition: int, number: int) -> None:
        def delivered(error: object, message: object) -> None:
            if error is not None:
                self.failed.append(str(error))
            else:
                self.acknowledged[partition, number] = message.offset()  # type: ignore[attr-defined]

        value = b"%012d" % number + bytes(88)
        self._producer.produce(
            TOPIC, value, partition=partition, timestamp=self.event_ms, on_delivery=delivered
        )

    def finish(self) -> None:
        """Stop sending and wait until every record has its answer."""
        self._stop.set()
        self._thread.join()
        left = self._producer.flush(SETTLE_SECONDS_MAX)
        if left:
            self.failed.append(f"{left} records never answered")


@dataclass(frozen=True)
class Verdict:
    """What the log holds against what was acknowledged."""

    acknowledged: int
    lost: int
    duplicated: int
    out_of_order: int
    failed: list[str]
    starts: list[float]
    between_kills_min: int

    def holds(self) -> bool:
        return not (
            self.lost
            or self.duplicated
            or self.out_of_order
            or self.failed
            or self.between_kills_min < ACKNOWLEDGED_BETWEEN_KILLS_MIN
        )

    def prompt(self) -> bool:
        """Every start was quick: asked of a machine with nothing else to do (`make crash`)."""
        return max(self.starts) <= ANSWER_SECONDS_MAX

    def __str__(self) -> str:
        return (
            f"acknowledged {self.acknowledged} (at least {self.between_kills_min} between kills), "
            f"lost {self.lost}, duplicated {self.duplicated}, out of order {self.out_of_order}, "
            f"failed {len(self.failed)} {self.failed[:3]}; exec to answering: "
            f"max {max(self.starts):.3f} s over {len(self.starts)} starts"
        )


def read_all(bootstrap: str) -> Iterator[tuple[int, int, int]]:
    """(partition, offset, number) of every record there is."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "check", "enable.auto.commit": False}
    # Where connecting takes long librdkafka begins anew, and fails what was asked meanwhile.
    settings["metadata.recovery.strategy"] = "none"
    consumer = Consumer(settings | {"check.crcs": True, "log_level": 0})
    places = [TopicPartition(TOPIC, index, 0) for index in range(PARTITIONS)]
    left = sum(consumer.get_watermark_offsets(place, timeout=10)[1] for place in places)
    consumer.assign(places)
    deadline = time.monotonic() + SETTLE_SECONDS_MAX
    while left and time.monotonic() < deadline:
        for message in consumer.consume(10_000, 1.0):
            left -= 1
            yield message.partition(), message.offset(), int(message.value()[:12])
    consumer.close()


def judge(load: Load, bootstrap: str, starts: list[float], between: int) -> Verdict:
    """Compare what is there with what was acknowledged."""
    at: dict[tuple[int, int], int] = {}
    duplicated = out_of_order = 0
    last = dict.fromkeys(range(PARTITIONS), 0)
    for partition, offset, number in read_all(bootstrap):
        duplicated += (partition, number) in at
        out_of_order += number < last[partition]
        last[partition] = max(last[partition], number)
        at[partition, number] = offset
    lost = sum(at.get(place) != offset for place, offset in load.acknowledged.items())
    counts = (len(load.acknowledged), lost, duplicated, out_of_order)
    return Verdict(*counts, load.failed, starts, between)


def ride(directory: Path, kills: int, seed: int, event_ms: int = 0) -> Verdict:
    """Kill the broker `kills` times at random moments of load and judge what it kept."""
    chance = random.Random(seed)
    broker = BrokerProcess(directory)
    starts = [broker.start()]
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    for future in admin.create_topics(
        [NewTopic(TOPIC, PARTITIONS, 1, config={"retention.ms": "-1"})]
    ).values():
        future.result(30)
    load = Load(broker.bootstrap, event_ms)
    between_min = sys.maxsize
    try:
        for _ in range(kills):
            before = len(load.acknowledged)
            deadline = time.monotonic() + SETTLE_SECONDS_MAX
            while len(load.acknowledged) < before + ACKNOWLEDGED_BETWEEN_KILLS_MIN:
                if time.monotonic() > deadline:
                    raise AssertionError(f"no progress after a start:\n{broker.output[-3000:]}")
                time.sleep(0.005)
            time.sleep(chance.uniform(0.0, 0.08))
            broker.kill()
            between_min = min(between_min, len(load.acknowledged) - before)
            starts.append(broker.start())
    finally:
        load.finish()
        verdict = judge(load, broker.bootstrap, starts, between_min) if broker.process else None
        broker.stop()
    assert verdict is not None
    return verdict


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    arguments = parser.parse_args()
    print(f"kill loop: {arguments.kills} kills, seed {arguments.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="headrace-kill-") as directory:
        verdict = ride(Path(directory), arguments.kills, arguments.seed)
    print(f"{arguments.kills} kills: {verdict}")
    return not (verdict.holds() and verdict.prompt())


if __name__ == "__main__":
    sys.exit(main())
