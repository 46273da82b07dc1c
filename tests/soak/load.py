"""What a soak does to a broker: writers, readers, groups and topics that come and go, in threads.

Every value carries its number and a checksum of itself, so that a reader needs no model to know
that it was served what was written; the model (`Ledger`) says at the end whether all of it was.
"""

import random
import threading
import time
import zlib
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

from confluent_kafka import OFFSET_END, Consumer, KafkaError, KafkaException, Message, Producer
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient, NewTopic

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
PARTITIONS = 2
KEYS = 150
ROUND_SECONDS = 0.1
CRC_BYTES = 4
NUMBER_BYTES = 12


def value_of(number: int, body: bytes) -> bytes:
    """Checksum, number, body."""
    told = b"%0*d" % (NUMBER_BYTES, number) + body
    return zlib.crc32(told).to_bytes(CRC_BYTES, "big") + told


def number_in(value: bytes) -> int:
    """The number of a value; ValueError where it is not what somebody wrote."""
    told = value[CRC_BYTES:]
    if len(value) < CRC_BYTES + NUMBER_BYTES or zlib.crc32(told).to_bytes(4, "big") != value[:4]:
        raise ValueError(f"a value nobody wrote: {value[:40]!r}")
    return int(told[:NUMBER_BYTES])


@dataclass
class Ledger:
    """What was acknowledged, and what went wrong."""

    written: dict[tuple[str, int], dict[int, tuple[bytes, int]]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    """Of each partition: offset to key and checksum of the value (-1: a tombstone)."""
    counts: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    wrong: list[str] = field(default_factory=list)
    ending: threading.Event = field(default_factory=threading.Event)

    def say(self, what: str) -> None:
        """Something is not as it must be."""
        if len(self.wrong) < 50:
            self.wrong.append(what)


class Worker(threading.Thread):
    """Repeats its `round` until the ledger's end; whatever it raises is a finding."""

    def __init__(self, ledger: Ledger, bootstrap: str, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self.ledger = ledger
        self.common = {
            "bootstrap.servers": bootstrap,
            "log_level": 0,
            "reconnect.backoff.max.ms": 500,
        }

    def run(self) -> None:
        try:
            self.begin()
            while not self.ledger.ending.is_set():
                self.round()
            self.end()
        except Exception as error:  # noqa: BLE001 - told at the end of the soak
            self.ledger.say(f"{self.name}: {error!r}")

    def begin(self) -> None: ...

    def round(self) -> None: ...

    def end(self) -> None: ...


class Writer(Worker):
    """An idempotent producer of one codec: small values, now and then large ones, tombstones."""

    def __init__(
        self, ledger: Ledger, bootstrap: str, topic: str, codec: str, *, compacted: bool
    ) -> None:
        super().__init__(ledger, bootstrap, f"writer of {topic}")
        self._topic, self._compacted = topic, compacted
        self._number = 0
        self._chance = random.Random(topic)
        self._producer = Producer(
            self.common
            | {
                "enable.idempotence": True,
                "compression.type": codec,
                "linger.ms": 5,
                "batch.size": 65_536,  # below segment.bytes
                "message.timeout.ms": 120_000,
            }
        )

    def round(self) -> None:
        for _ in range(12):
            self._number += 1
            size = 60_000 if self._chance.random() < 0.01 else self._chance.randrange(40, 800)
            value: bytes | None = value_of(self._number, self._chance.randbytes(size // 2) * 2)
            if self._compacted and self._chance.random() < 0.05:
                value = None
            key = b"key-%d" % self._chance.randrange(KEYS)
            partition = self._chance.randrange(PARTITIONS)
            self._producer.produce(
                self._topic, value, key, partition=partition, on_delivery=self._delivered
            )
        self._producer.poll(ROUND_SECONDS)
        time.sleep(ROUND_SECONDS / 2)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.ledger.say(f"{self.name}: {error}")
            return
        value, key, offset = message.value(), message.key(), message.offset()
        check = -1 if value is None else zlib.crc32(value)
        mine = self.ledger.written[self._topic, message.partition()]
        if offset in mine:
            self.ledger.say(f"{self._topic}: offset {offset} was given twice")
        mine[offset] = (key, check)
        self.ledger.counts["written"] += 1

    def end(self) -> None:
        if self._producer.flush(60):
            self.ledger.say(f"{self.name}: not everything was answered")


class Reader(Worker):
    """Reads some topics' partitions; from the end on, or again and again from the beginning."""

    def __init__(self, ledger: Ledger, bootstrap: str, topics: list[str], *, tail: bool) -> None:
        super().__init__(ledger, bootstrap, "tail" if tail else "from the beginning")
        self._topics, self._tail = topics, tail
        self._until = 0.0
        self._last: dict[tuple[str, int], int] = {}
        self._consumer = Consumer(
            self.common
            | {
                "group.id": f"reads {self.name}",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "check.crcs": True,
            }
        )

    def round(self) -> None:
        if time.monotonic() > self._until:
            self._until = time.monotonic() + (1e9 if self._tail else 4)
            self._last.clear()
            start = OFFSET_END if self._tail else 0
            self._consumer.assign(
                [Place(topic, at, start) for topic in self._topics for at in range(PARTITIONS)]
            )
        for message in self._consumer.consume(2000, ROUND_SECONDS):
            check_message(self.ledger, message, self._last, self.name)

    def end(self) -> None:
        self._consumer.close()


def check_message(
    ledger: Ledger, message: Message, last: dict[tuple[str, int], int], who: str
) -> None:
    """What a reader got is what somebody wrote, and its offsets only grow."""
    if message.error() is not None:
        ledger.say(f"{who}: {message.error()}")
        return
    place = message.topic(), message.partition()
    if message.offset() <= last.get(place, -1):
        ledger.say(f"{who}: {place} went back from {last[place]} to {message.offset()}")
    last[place] = message.offset()
    if message.value() is not None:
        try:
            number_in(message.value())
        except ValueError as error:
            ledger.say(f"{who}: {place}@{message.offset()}: {error}")
    ledger.counts[f"read, {who}"] += 1


class Member(Worker):
    """A member of a group: reads and commits; what is committed never goes back."""

    def __init__(self, ledger: Ledger, bootstrap: str, topics: list[str], number: int) -> None:
        super().__init__(ledger, bootstrap, f"member {number}")
        self._consumer = Consumer(
            self.common
            | {"group.id": "soaks", "enable.auto.commit": False, "auto.offset.reset": "earliest"}
        )
        self._consumer.subscribe(topics)

    def round(self) -> None:
        last: dict[tuple[str, int], int] = {}
        for message in self._consumer.consume(1000, ROUND_SECONDS):
            check_message(self.ledger, message, last, "members")
        if last:
            try:
                places = [Place(topic, at, upto + 1) for (topic, at), upto in last.items()]
                self._consumer.commit(offsets=places, asynchronous=False)
                self.ledger.counts["commits"] += 1
            except KafkaException:
                self.ledger.counts["commits refused"] += 1

    def end(self) -> None:
        self._consumer.close()


EXISTS, UNKNOWN = KafkaError.TOPIC_ALREADY_EXISTS, KafkaError.UNKNOWN_TOPIC_OR_PART
CUT = {KafkaError._TRANSPORT, KafkaError._TIMED_OUT}


class Churner(Worker):
    """Creates a topic, writes to it, deletes it, makes it again under its name."""

    def begin(self) -> None:
        self._admin = AdminClient(self.common)
        self._producer = Producer(self.common | {"acks": "all"})
        self._number = 0

    def round(self) -> None:
        name = f"comes-and-goes-{self._number % 3}"
        self._number += 1
        self._wait(
            lambda: self._admin.create_topics([NewTopic(name, 2, 1)])[name].result(30), EXISTS
        )
        for at in range(40):
            self._write(name, b"%d" % at, at % 2)
        if self._producer.flush(30):
            self.ledger.say(f"{name}: written to in vain")
        self._wait(lambda: self._admin.delete_topics([name])[name].result(30), UNKNOWN)
        self.ledger.counts["topics come and gone"] += 1
        self.ledger.ending.wait(0.3)

    def _write(self, name: str, value: bytes, partition: int) -> None:
        """Produce. A client that last looked before the topic was made again refuses at first."""
        deadline = time.monotonic() + 30
        while True:
            try:
                self._producer.produce(name, value, partition=partition)
                return
            except KafkaException as error:
                code = error.args[0].code()
                if code != KafkaError._UNKNOWN_TOPIC or time.monotonic() > deadline:
                    raise
                self._producer.poll(0.1)

    def _wait(self, action: Callable[[], object], already: int) -> None:
        """Do it. A connection that a restart cut does not say whether it was done: asked again,
        `already` is an answer too."""
        deadline, again = time.monotonic() + 30, False
        while True:
            try:
                action()
                return
            except KafkaException as error:
                code = error.args[0].code()
                if again and code == already:
                    return
                if code not in CUT or time.monotonic() > deadline:
                    self.ledger.say(f"{self.name}: {error}")
                    return
                again = True
