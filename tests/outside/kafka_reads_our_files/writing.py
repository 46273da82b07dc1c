"""What the brokers are given to write: all codecs, transactions, compaction, deleted history."""

import random
import time
from collections.abc import Mapping
from threading import Event, Thread

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
MEBIBYTE = 1 << 20
SMALL = {"segment.bytes": str(MEBIBYTE), "index.interval.bytes": "2048"}
COMPACTED = SMALL | {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "100",
    "segment.ms": "1500",
}
TOPICS: Mapping[str, tuple[int, Mapping[str, str]]] = {
    "j-plain": (3, SMALL),
    **{f"j-{codec}": (1, SMALL) for codec in CODECS},
    "j-append-time": (1, SMALL | {"message.timestamp.type": "LogAppendTime"}),
    "j-compacted": (1, COMPACTED),
    "j-deleted": (1, SMALL | {"retention.bytes": str(2 * MEBIBYTE)}),
    "j-transactions": (2, SMALL),
    "j-undecided": (1, SMALL),
}
GROUPS = ("j-group-a", "j-group-b")
NEWER_GROUP = "j-group-newer"


def create(bootstrap: str, topics: Mapping[str, tuple[int, Mapping[str, str]]] = TOPICS) -> None:
    """Create the topics."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    wanted = [
        NewTopic(name, count, 1, config=dict(config)) for name, (count, config) in topics.items()
    ]
    for future in admin.create_topics(wanted).values():
        future.result(60)
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        found = admin.list_topics(timeout=10).topics
        if all(len(found[name].partitions) == topics[name][0] for name in topics if name in found):
            break
        time.sleep(0.1)


class Writer:
    """Writes by a seed; equal seeds write equal records."""

    def __init__(self, bootstrap: str, seed: int) -> None:
        self.bootstrap = bootstrap
        self.chance = random.Random(seed)
        self.at = 1_790_000_000_000 + seed % 1000

    def producer(self, **settings: object) -> Producer:
        return Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "linger.ms": 2,
                "batch.size": 20_000,
                "log_level": 0,
                **settings,
            }
        )

    def fields(self, size: int = 400) -> dict[str, object]:
        """Key, value, headers and time of a record."""
        chance = self.chance
        self.at += chance.randrange(-20, 40)
        key = None if chance.random() < 0.1 else b"key-%d" % chance.randrange(500)
        value = None if chance.random() < 0.02 else chance.randbytes(chance.randrange(size)).hex()
        headers = [(f"h{n}", chance.randbytes(3)) for n in range(chance.randrange(3))]
        return {"key": key, "value": value, "headers": headers, "timestamp": self.at}

    def plain(self, topics: Mapping[str, int], count: int, **settings: object) -> None:
        """`count` records for each topic, by an idempotent producer."""
        producer = self.producer(**{"enable.idempotence": True, **settings})
        for topic, partitions in topics.items():
            for number in range(count):
                fields = self.fields()
                producer.produce(topic, partition=number % partitions, **fields)
                if number % 500 == 0:
                    producer.poll(0)
        assert producer.flush(60) == 0

    def keyed(self, topic: str, keys: int, count: int) -> None:
        """Keys written over and over, some taken back."""
        producer = self.producer(**{"compression.type": "lz4"})
        for _ in range(count):
            value = None if self.chance.random() < 0.1 else self.chance.randbytes(150).hex()
            producer.produce(topic, key=b"k%d" % self.chance.randrange(keys), value=value)
            producer.poll(0)
        assert producer.flush(60) == 0

    def transactions(self, topic: str, partitions: int, count: int) -> None:
        """Producers taking turns: committed and aborted transactions, plain records between."""
        producers = []
        for number in range(3):
            producer = self.producer(
                **{
                    "transactional.id": f"j-{number}",
                    "transaction.timeout.ms": 600_000,
                    "compression.type": CODECS[number],
                }
            )
            producer.init_transactions(60)
            producers.append(producer)
        for _ in range(count):
            self.chance.shuffle(producers)
            begun = producers[: self.chance.randrange(1, 4)]
            for producer in begun:
                producer.begin_transaction()
            for _ in range(self.chance.randrange(1, 30)):
                producer = self.chance.choice(begun)
                fields = self.fields()
                producer.produce(topic, partition=self.chance.randrange(partitions), **fields)
            for producer in begun:
                producer.flush(60)
                if self.chance.random() < 0.4:
                    producer.abort_transaction(60)
                else:
                    producer.commit_transaction(60)
            self.plain({topic: partitions}, self.chance.randrange(5))

    def undecided(self, topic: str) -> Producer:
        """A transaction that stays open while the producer that is returned lives."""
        self.plain({topic: 1}, 50)
        producer = self.producer(
            **{"transactional.id": "j-open", "transaction.timeout.ms": 600_000}
        )
        producer.init_transactions(60)
        producer.begin_transaction()
        for _ in range(30):
            producer.produce(topic, **self.fields())
        assert producer.flush(60) == 0
        self.plain({topic: 1}, 20)
        return producer

    def commit(self, topics: Mapping[str, int]) -> None:
        """Offsets of two groups, some with metadata, some committed again."""
        for group in GROUPS:
            consumer = Consumer(
                {"bootstrap.servers": self.bootstrap, "group.id": group, "log_level": 0}
            )
            for _ in range(3):
                chosen = [
                    TopicPartition(topic, partition, self.chance.randrange(1, 40))
                    for topic, partitions in topics.items()
                    for partition in range(partitions)
                ]
                commit_patiently(consumer, chosen)
            consumer.close()

    def newer(self, topic: str) -> None:
        """A member of KIP-848's protocol comes, commits what it read, and goes."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": NEWER_GROUP,
                "group.protocol": "consumer",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "log_level": 0,
            }
        )
        consumer.subscribe([topic])
        if not consumer.consume(20, 60):
            raise TimeoutError(f"{NEWER_GROUP} has read nothing of {topic}")
        consumer.commit(asynchronous=False)
        consumer.close()


def commit_patiently(consumer: Consumer, offsets: list[TopicPartition]) -> None:
    """Commit; a coordinator's topic that was just made is not at once ready."""
    for left in range(30, -1, -1):
        try:
            consumer.commit(offsets=offsets, asynchronous=False)
            return
        except KafkaException:
            if not left:
                raise
            time.sleep(0.5)


class Unending(Thread):
    """Writes on until it is stopped, or its broker is gone."""

    def __init__(self, bootstrap: str, topics: Mapping[str, int], seed: int) -> None:
        super().__init__(daemon=True)
        self.bootstrap = bootstrap
        self.topics = topics
        self.chance = random.Random(seed)
        self.over = Event()

    def run(self) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "linger.ms": 1,
                "log_level": 0,
                "compression.type": "zstd",
                "message.timeout.ms": 3000,
            }
        )
        while not self.over.is_set():
            for topic, partitions in self.topics.items():
                key = b"k%d" % self.chance.randrange(400)
                value = self.chance.randbytes(200).hex()
                partition = self.chance.randrange(partitions)
                try:
                    producer.produce(topic, key=key, value=value, partition=partition)
                except BufferError:
                    producer.poll(0.05)
            producer.poll(0)
        producer.purge()
