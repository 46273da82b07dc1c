"""Everything that clients of Kafka's protocol and the command can read, as JSON."""

import time
from contextlib import closing
from typing import Any

from confluent_kafka import AcknowledgeType, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.support.version_before.fill_kafka import (
    BASE_MS,
    admin_of,
    consumer_of,
    is_end,
    share_consumer,
)
from tests.support.version_before.stored_broker import PASSWORDS, StoredBroker

READ_SECONDS_MAX = 60
SHARE_QUIET_SECONDS = 4
"""A share group without records for so long has delivered all that it has."""
OPEN_TOPIC = "v-open"
OPEN_ID = "v-open"
"""The topic and the transactional id of the transaction that stays open."""
NEW = "__amqp.declarations"
"""A topic that a start of this version creates, closed to clients."""
GROUPS = ("g-classic", "g-consumer", "g-transactional")


def text(content: bytes | None) -> str | None:
    return None if content is None else content.decode("latin-1")


def read(
    broker: StoredBroker, wanted: list[TopicPartition], isolation: str
) -> dict[str, list[list[Any]]]:
    """All records of partitions that a consumer sees, up to the ends that it is told of."""
    consumer = consumer_of(
        broker, "reader", isolation_level=isolation, enable_partition_eof=True, check_crcs=True,
        fetch_wait_max_ms=10,
    )  # fmt: skip
    consumer.assign([TopicPartition(at.topic, at.partition, 0) for at in wanted])
    rows: dict[str, list[list[Any]]] = {f"{at.topic}-{at.partition}": [] for at in wanted}
    left = set(rows)
    deadline = time.monotonic() + READ_SECONDS_MAX
    while left:
        assert time.monotonic() < deadline, f"no end of {left}"
        for message in consumer.consume(1000, 0.05):
            place = f"{message.topic()}-{message.partition()}"
            if is_end(message.error()):
                left.discard(place)
                continue
            headers = [[name, text(value)] for name, value in message.headers() or ()]
            rows[place].append([
                message.offset(), *message.timestamp(),
                text(message.key()), text(message.value()), headers,
            ])  # fmt: skip
    consumer.close()
    return rows


def places(admin: AdminClient) -> list[TopicPartition]:
    """Every partition of topics that are not the broker's own."""
    topics = admin.list_topics(timeout=20).topics
    return [
        TopicPartition(topic, partition)
        for topic in sorted(topics)
        if topic not in ("__consumer_offsets", "__transaction_state", "__share_group_state", NEW)
        for partition in sorted(topics[topic].partitions)
    ]


def records(broker: StoredBroker) -> dict[str, Any]:
    """Records in both isolation levels, first and end offsets, offsets of times."""
    admin = admin_of(broker)
    wanted = places(admin)
    found: dict[str, Any] = {
        isolation: read(broker, wanted, isolation)
        for isolation in ("read_committed", "read_uncommitted")
    }
    consumer = consumer_of(broker, "reader")
    found["watermarks"] = {
        f"{at.topic}-{at.partition}": list(consumer.get_watermark_offsets(at, timeout=20))
        for at in wanted
        if at.topic != OPEN_TOPIC  # an abort's marker comes behind its records
    }
    times = [TopicPartition("v-plain", at, BASE_MS + at * 1000 + 150) for at in range(3)]
    found["offsets_for_times"] = [at.offset for at in consumer.offsets_for_times(times, timeout=20)]
    consumer.close()
    return found


def committed(broker: StoredBroker) -> dict[str, Any]:
    """Each group's committed offsets with their metadata."""
    found = {}
    for group in GROUPS:
        consumer = consumer_of(broker, group)
        wanted = [TopicPartition("v-group", at) for at in range(2)]
        found[group] = [[at.offset, at.metadata] for at in consumer.committed(wanted, timeout=20)]
        consumer.close()
    return found


def topics(broker: StoredBroker) -> list[Any]:
    """Ids, partitions and configs; replicas, but for leader epochs, which grow with each start."""
    described = broker.ask("topic", "describe", "-r", ".*")
    found = [topic for topic in described if topic["topic"] != NEW]
    for topic in found:
        for partition in topic["partitions"]:
            del partition["leader_epoch"]
            if topic["topic"] == OPEN_TOPIC or topic["internal"]:
                del partition["end_offset"]
    return sorted(found, key=lambda topic: str(topic["topic"]))


def logins(broker: StoredBroker) -> dict[str, bool]:
    """Whether each user's password is accepted, and another is refused, by each mechanism."""
    found = {}
    for user, password in PASSWORDS.items():
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
            admin = AdminClient({
                "bootstrap.servers": f"127.0.0.1:{broker.sasl_port}", "log_level": 0,
                "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": mechanism,
                "sasl.username": user, "sasl.password": password,
            })  # fmt: skip
            found[f"{user} {mechanism}"] = bool(admin.list_topics(timeout=20).brokers)
    return found


def settings(broker: StoredBroker) -> dict[str, Any]:
    """Configs that are set, quotas, users and ACLs."""
    configs = [each for each in broker.ask("config", "list") if each["name"] != NEW]
    for each in configs:  # those of the server.properties are this start's
        for name in [n for n, c in each["configs"].items() if c["source"] == "static"]:
            del each["configs"][name]
    return {
        "configs": sorted(configs, key=lambda each: (each["type"], each["name"])),
        "quotas": sorted(broker.ask("quota", "list"), key=str),
        "users": broker.ask("user", "list"),
        "acls": sorted(broker.ask("acl", "list"), key=str),
        "logins": logins(broker),
    }


def transactions(broker: StoredBroker) -> dict[str, Any]:
    """Transactional ids, and producers with sequence numbers that do not expire."""
    ids = [each["transactional_id"] for each in broker.ask("txn", "list")]
    described = {each["transactional_id"]: each for each in broker.ask("txn", "describe", *ids)}
    opened = described.pop(OPEN_ID)
    return {
        "ended": [described[name] for name in sorted(described)],
        "open": {
            key: opened[key] for key in ("state", "producer_id", "producer_epoch", "partitions")
        },
        "producers": broker.ask("producers", "v-idempotent"),
    }


def share_group(broker: StoredBroker) -> dict[str, Any]:
    """Where the share group begins, then each record that it still delivers, and how often."""
    (described,) = broker.ask("share", "describe", "s-group")
    found: dict[int, int] = {}
    quiet_from = time.monotonic()
    with closing(share_consumer(broker, "s-group")) as consumer:
        while time.monotonic() < quiet_from + SHARE_QUIET_SECONDS:
            for message in consumer.poll(0.5):
                assert message.error() is None
                found[message.offset()] = message.delivery_count()
                consumer.acknowledge(message, AcknowledgeType.ACCEPT)
                quiet_from = time.monotonic()
            consumer.commit_sync(30)
    described["members"] = []
    return {"described": described, "delivered": {str(at): found[at] for at in sorted(found)}}


def observe_kafka(broker: StoredBroker) -> dict[str, Any]:
    """Read everything; the share group's records are accepted by it."""
    return {
        "records": records(broker),
        "committed": committed(broker),
        "groups": [
            {key: each[key] for key in ("group", "state", "protocol", "partitions")}
            for each in broker.ask("group", "describe", *GROUPS)
        ],
        "topics": topics(broker),
        "settings": settings(broker),
        "transactions": transactions(broker),
        "share_group": share_group(broker),
    }
