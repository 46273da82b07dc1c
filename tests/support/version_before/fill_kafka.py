"""State of Kafka's protocol: records, transactions, groups, share groups, settings, users, ACLs."""

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any

from confluent_kafka import (
    AcknowledgeType,
    Consumer,
    KafkaError,
    Producer,
    ShareConsumer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.version_before.stored_broker import PASSWORDS, StoredBroker

BASE_MS = 1_760_000_000_000
"""Timestamp of the first record of each topic."""
NEVER_EXPIRES_MS = 4_102_444_800_000
"""The same of v-idempotent, in the year 2100: its producer's state does not expire meanwhile."""
TRANSACTION_MS = 2**31 - 1
CODECS = ("gzip", "snappy", "lz4", "zstd")
SMALL = {"segment.bytes": "16384", "index.interval.bytes": "512"}
WAIT_SECONDS_MAX = 60
TOPICS: dict[str, tuple[int, dict[str, str]]] = {
    "v-plain": (3, SMALL),
    **{f"v-{codec}": (1, {}) for codec in CODECS},
    "v-compacted": (
        1,
        {
            "cleanup.policy": "compact",
            "segment.bytes": "4096",
            "min.cleanable.dirty.ratio": "0.01",
            "delete.retention.ms": "3000000000000",
        },
    ),
    "v-append-time": (1, {"message.timestamp.type": "LogAppendTime"}),
    "v-txn": (2, SMALL),
    "v-open": (1, {}),
    "v-idempotent": (1, {"message.timestamp.after.max.ms": str(2**63 - 1)}),
    "v-group": (2, {}),
    "v-share": (1, {}),
    "v-exchange": (1, {}),
    "v-read-by-amqp": (1, {"retention.bytes": "1000000000", "max.message.bytes": "2000000"}),
}
"""Name, number of partitions and topic configs."""


def until(holds: Callable[[], object], claim: str) -> None:
    """Return once `holds` is true; AssertionError with `claim` after a minute."""
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while not holds():
        assert time.monotonic() < deadline, f"not after {WAIT_SECONDS_MAX} s: {claim}"
        time.sleep(0.1)


def admin_of(broker: StoredBroker) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})


def producer_of(broker: StoredBroker, **settings: Any) -> Producer:
    given = {name.replace("_", "."): value for name, value in settings.items()}
    base = {"bootstrap.servers": broker.bootstrap, "linger.ms": 20, "log_level": 0}
    return Producer({**base, "message.timeout.ms": 60_000, **given})


def send(
    producer: Producer, topic: str, numbers: Sequence[int], partition: int = 0, size: int = 40
) -> None:
    """Produce numbered records; every third has headers, every fifth no key, some no value."""
    for number in numbers:
        headers = [("n", str(number).encode()), ("none", None), ("n", b"again")]
        producer.produce(
            topic,
            None if number % 7 == 6 else f"{topic} {number} ".encode().ljust(size, b"."),
            None if number % 5 == 4 else f"k{number % 11}".encode(),
            partition,
            timestamp=(NEVER_EXPIRES_MS if topic == "v-idempotent" else BASE_MS) + number,
            headers=headers if number % 3 == 0 else None,
        )
        producer.poll(0)


def flushed(producer: Producer) -> None:
    assert producer.flush(60) == 0


def create_topics(broker: StoredBroker) -> None:
    """Create all of TOPICS."""
    new = [NewTopic(name, parts, 1, config=configs) for name, (parts, configs) in TOPICS.items()]
    admin = admin_of(broker)
    for made in admin.create_topics(new).values():
        made.result(30)


def records(broker: StoredBroker) -> None:
    """Produce to the topics without transactions; trim one partition; wait for a compaction."""
    plain = producer_of(broker, batch_num_messages=25)
    for partition in range(3):
        send(plain, "v-plain", range(partition * 1000, partition * 1000 + 300), partition, 60)
    send(plain, "v-append-time", range(20))
    send(plain, "v-group", range(60))
    send(plain, "v-group", range(60, 100), 1)
    send(plain, "v-share", range(60))
    send(plain, "v-read-by-amqp", range(10))
    flushed(plain)
    for codec in CODECS:
        packed = producer_of(broker, compression_type=codec)
        send(packed, f"v-{codec}", range(100), size=200)
        flushed(packed)
    broker.run("topic", "trim", "v-plain:0", "--to", "120", "--yes")
    compacted = producer_of(broker, batch_num_messages=5)
    for start in range(0, 400, 50):
        send(compacted, "v-compacted", [n for n in range(start, start + 50) if n % 5 != 4])
        flushed(compacted)
    checkpoint = broker.log / "cleaner-offset-checkpoint"
    until(
        lambda: checkpoint.exists() and "v-compacted 0 " in checkpoint.read_text(),
        "v-compacted is cleaned",
    )


def transactions(broker: StoredBroker) -> list[Producer]:
    """Commit and abort transactions; return a producer whose transaction is open."""
    named = {
        name: producer_of(
            broker, transactional_id=f"v-{name}", transaction_timeout_ms=TRANSACTION_MS
        )
        for name in ("committing", "aborting", "open")
    }
    for producer in named.values():
        producer.init_transactions(30)
    for turn in range(3):
        for name in ("committing", "aborting"):
            named[name].begin_transaction()
        for partition in range(2):
            for at, name in enumerate(("committing", "aborting")):
                first = turn * 100 + partition * 40 + at * 20
                send(named[name], "v-txn", range(first, first + 20), partition)
                flushed(named[name])
        named["committing"].commit_transaction(30)
        named["aborting"].abort_transaction(30)
    in_group(broker, named["committing"])
    idempotent = producer_of(broker, enable_idempotence=True)
    send(idempotent, "v-idempotent", range(30))
    send(idempotent, "v-open", range(15))
    flushed(idempotent)
    named["open"].begin_transaction()
    send(named["open"], "v-open", range(100, 110))
    flushed(named["open"])
    return [named["open"]]


def in_group(broker: StoredBroker, producer: Producer) -> None:
    """Commit a group's offsets within a transaction."""
    consumer = consumer_of(broker, "g-transactional")
    producer.begin_transaction()
    send(producer, "v-txn", range(900, 905))
    offsets = [TopicPartition("v-group", 0, 17), TopicPartition("v-group", 1, 5)]
    producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), 30)
    producer.commit_transaction(30)
    consumer.close()


def consumer_of(broker: StoredBroker, group: str, **settings: Any) -> Consumer:
    given = {name.replace("_", "."): value for name, value in settings.items()}
    base = {"bootstrap.servers": broker.bootstrap, "group.id": group, "log_level": 0}
    quick = {"auto.offset.reset": "earliest", "enable.auto.commit": False}
    return Consumer({**base, **quick, **given})


def groups(broker: StoredBroker) -> None:
    """Read and commit as a classic and as a consumer group (KIP-848); both are left empty."""
    for group, protocol in (("g-classic", "classic"), ("g-consumer", "consumer")):
        consumer = consumer_of(broker, group, group_protocol=protocol)
        consumer.subscribe(["v-group"])
        seen = 0
        deadline = time.monotonic() + WAIT_SECONDS_MAX
        while seen < 100 and time.monotonic() < deadline:
            seen += sum(each.error() is None for each in consumer.consume(100, 0.5))
        assert seen == 100
        offsets = [TopicPartition("v-group", 0, 42, f"of {group}"), TopicPartition("v-group", 1, 7)]
        consumer.commit(offsets=offsets, asynchronous=False)
        consumer.close()


def share_group(broker: StoredBroker) -> None:
    """Accept, reject, release and leave records: the share partition's state has holes."""
    broker.run("config", "set", "group", "s-group", "share.auto.offset.reset=earliest")
    with closing(share_consumer(broker, "s-group")) as consumer:
        found: list[Any] = []
        while len(found) < 60:
            for message in consumer.poll(5):
                assert message.error() is None
                found.append(message)
                consumer.acknowledge(message, ACKNOWLEDGED[message.offset() % 6])
            consumer.commit_sync(30)


ACKNOWLEDGED = [
    AcknowledgeType.ACCEPT, AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE,
    AcknowledgeType.REJECT, AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE,
]  # fmt: skip


def share_consumer(broker: StoredBroker, group: str) -> ShareConsumer:
    """A member that reads v-share and acknowledges each record by itself."""
    consumer = ShareConsumer({
        "bootstrap.servers": broker.bootstrap, "group.id": group, "log_level": 0,
        "share.acknowledgement.mode": "explicit",
    })  # fmt: skip
    consumer.subscribe(["v-share"])
    return consumer


def administration(broker: StoredBroker) -> None:
    """Store users, ACLs, quotas and dynamic configs."""
    for user, password in PASSWORDS.items():
        secret = broker.directory / "password.txt"
        secret.write_text(password + "\n")
        broker.run("user", "create", user, "--password-file", str(secret))
    for line in (
        "acl create --allow-principal User:alice --producer --topic v-plain",
        "acl create --allow-principal User:alice --consumer --topic v- --group g- --prefixed",
        "acl create --deny-principal User:bob --operation read --topic v-txn --host 10.0.0.9",
        "acl create --allow-principal User:bob --operation alter --cluster",
        "acl create --allow-principal User:bob --operation write --transactional-id v-t",
        "quota set producer_byte_rate=100000000 --user alice",
        "quota set consumer_byte_rate=200000000 --client-id slow",
        "quota set connection_creation_rate=1000 --ip 127.0.0.9",
        "quota set request_percentage=900 --default user",
        "config set topic v-group retention.bytes=123456789",
        "config set topic v-group max.compaction.lag.ms=1234567",
        "config set broker default num.replica.fetchers=3",
        "config set group g-consumer consumer.session.timeout.ms=50000",
        "config set client-metrics m interval.ms=60000 metrics=org.apache.kafka.producer.",
    ):
        broker.run(*line.split())


def fill_kafka(broker: StoredBroker) -> list[Producer]:
    """Write all of it; the producers returned have open transactions and must be kept."""
    create_topics(broker)
    records(broker)
    kept = transactions(broker)
    groups(broker)
    share_group(broker)
    administration(broker)
    return kept


def is_end(error: KafkaError | None) -> bool:
    """Whether a consumer has come to a partition's end; AssertionError for any other error."""
    if error is None:
        return False
    assert error.name() == "_PARTITION_EOF", error
    return True
