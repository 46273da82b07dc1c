"""An idempotent producer under load, what it was told, and what a topic holds against that."""

import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from confluent_kafka import Consumer, Producer, TopicPartition

IN_FLIGHT_MAX = 20_000
SETTLE_SECONDS_MAX = 120
BODY = bytes(88)


@dataclass
class Load:
    """A producer in a thread that numbers its records; remembers what was acknowledged, and where.

    `settings` are librdkafka's, beside idempotence and acks=all.
    """

    bootstrap: str
    topic: str
    partitions: int
    settings: Mapping[str, Any] = field(default_factory=dict)
    event_ms: int = 0
    """Timestamp of all records; 0: the time of sending."""
    burst: int = 50
    """Records for each partition between two looks at what was answered."""
    pause_seconds: float = 0.002
    """How long it looks."""
    acknowledged: dict[tuple[int, int], int | None] = field(default_factory=dict)
    """(partition, number) → offset; None where librdkafka knows none: it counts a request whose
    answer it missed as successful once a later one of the partition is."""
    failed: list[str] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        given = {"bootstrap.servers": self.bootstrap, "enable.idempotence": True, "acks": "all"}
        self._producer = Producer({**given, "log_level": 0, **self.settings})
        self._counts = [0] * self.partitions
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._stop.is_set():
            if len(self._producer) > IN_FLIGHT_MAX:
                self._producer.poll(0.01)
                continue
            for _ in range(self.burst):
                number += 1
                for partition in range(self.partitions):
                    self._send(partition, number)
            self._producer.poll(self.pause_seconds)

    def _send(self, partition: int, number: int) -> None:
        def delivered(error: object, message: object) -> None:
            if error is not None:
                self.failed.append(str(error))
            else:
                self.acknowledged[partition, number] = message.offset()  # type: ignore[attr-defined]
                self._counts[partition] += 1

        value = b"%012d" % number + BODY
        self._producer.produce(
            self.topic, value, partition=partition, timestamp=self.event_ms, on_delivery=delivered
        )

    def goes_on(self, count: int, seconds_max: float = SETTLE_SECONDS_MAX) -> bool:
        """Wait until each partition has `count` more acknowledged; False where one has not."""
        wanted = [before + count for before in self._counts]
        deadline = time.monotonic() + seconds_max
        while any(reached < least for reached, least in zip(self._counts, wanted, strict=True)):
            if time.monotonic() > deadline:
                return False
            time.sleep(0.005)
        return True

    def finish(self) -> None:
        """Stop sending and wait until every record has its answer."""
        self._stop.set()
        self._thread.join()
        left = self._producer.flush(SETTLE_SECONDS_MAX)
        if left:
            self.failed.append(f"{left} records never answered")


class Kept(NamedTuple):
    """A topic's records compared with the acknowledged ones; the last four must be 0."""

    acknowledged: int
    lost: int
    duplicated: int
    out_of_order: int
    elsewhere: int
    """Records at another offset than the acknowledged one."""

    def holds(self) -> bool:
        return not (self.lost or self.duplicated or self.out_of_order or self.elsewhere)

    def __str__(self) -> str:
        return (
            f"lost {self.lost}, duplicated {self.duplicated}, out of order {self.out_of_order},"
            f" at another offset {self.elsewhere}"
        )


def kept(load: Load, bootstrap: str) -> Kept:
    """Read all that is committed, and compare it with what was acknowledged."""
    at: dict[tuple[int, int], int] = {}
    duplicated = out_of_order = 0
    last = dict.fromkeys(range(load.partitions), 0)
    for partition, offset, number in read_all(bootstrap, load.topic, load.partitions):
        duplicated += (partition, number) in at
        out_of_order += number < last[partition]
        last[partition] = max(last[partition], number)
        at[partition, number] = offset
    lost = sum(place not in at for place in load.acknowledged)
    elsewhere = sum(
        offset is not None and at.get(place, offset) != offset
        for place, offset in load.acknowledged.items()
    )
    return Kept(len(load.acknowledged), lost, duplicated, out_of_order, elsewhere)


def read_all(bootstrap: str, topic: str, partitions: int) -> Iterator[tuple[int, int, int]]:
    """(partition, offset, number) of every record there is."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "check", "enable.auto.commit": False}
    settings["isolation.level"] = "read_committed"
    # Where connecting takes long librdkafka begins anew, and fails what was asked meanwhile.
    settings["metadata.recovery.strategy"] = "none"
    consumer = Consumer(settings | {"check.crcs": True, "log_level": 0})
    places = [TopicPartition(topic, index, 0) for index in range(partitions)]
    # A broker that stands still takes connections: librdkafka tries another after ten seconds.
    left = sum(consumer.get_watermark_offsets(place, timeout=60)[1] for place in places)
    consumer.assign(places)
    deadline = time.monotonic() + SETTLE_SECONDS_MAX
    while left and time.monotonic() < deadline:
        for message in consumer.consume(10_000, 1.0):
            left -= 1
            yield message.partition(), message.offset(), int(message.value()[:12])
    consumer.close()
