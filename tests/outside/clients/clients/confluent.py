"""confluent-kafka: librdkafka."""

import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from tests.outside.clients.clients.base import Rec


def record(message: Message) -> Rec:
    """The common form of a message."""
    if message.error() is not None:
        raise KafkaException(message.error())
    return Rec(
        value=message.value(),
        key=message.key(),
        headers=tuple(message.headers() or ()),
        timestamp=message.timestamp()[1],
        partition=message.partition() or 0,
        offset=message.offset() or 0,
    )


class ConfluentMember:
    def __init__(self, settings: dict[str, Any], topic: str) -> None:
        self._topic = topic
        self._consumer = Consumer(settings)
        self._consumer.subscribe([topic])

    def poll(self, seconds: float) -> list[Rec]:
        return [record(message) for message in self._consumer.consume(500, seconds)]

    def assigned(self) -> set[int]:
        return {each.partition for each in self._consumer.assignment()}

    def commit(self) -> None:
        self._consumer.commit(asynchronous=False)

    def group_metadata(self) -> Any:
        return self._consumer.consumer_group_metadata()

    def close(self) -> None:
        self._consumer.close()


class ConfluentTransactions:
    def __init__(self, settings: dict[str, Any]) -> None:
        self._producer = Producer(settings)
        self._producer.init_transactions(30)
        self._errors: list[Any] = []

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, topic: str, records: Sequence[Rec], partition: int = 0) -> None:
        for each in records:
            self._producer.produce(
                topic, each.value, each.key, partition=partition, on_delivery=self._delivered
            )
        self._producer.flush(30)
        if self._errors:
            raise KafkaException(self._errors.pop())

    def _delivered(self, error: Any, _: Message) -> None:
        if error is not None:
            self._errors.append(error)

    def send_offsets(self, member: Any, topic: str, offsets: dict[int, int]) -> None:
        places = [TopicPartition(topic, index, offset) for index, offset in offsets.items()]
        self._producer.send_offsets_to_transaction(places, member.group_metadata(), 30)

    def commit(self) -> None:
        self._producer.commit_transaction(30)

    def abort(self) -> None:
        self._producer.abort_transaction(30)

    def close(self) -> None:
        with suppress(KafkaException):  # a fenced producer says so here too
            self._producer.purge()
            self._producer.flush(1)


class Confluent:
    name = "confluent-kafka"

    def __init__(self, bootstrap: str, replicas: int = 1) -> None:
        self._replicas = replicas
        self._base: dict[str, Any] = {"bootstrap.servers": bootstrap, "log_level": 0}
        self._admin = AdminClient(self._base)

    def unsupported(self) -> Iterable[str]:
        return ()

    def produce(
        self,
        topic: str,
        records: Sequence[Rec],
        *,
        codec: str = "none",
        acks: str = "all",
        idempotent: bool = False,
        partition: int | None = 0,
    ) -> list[int]:
        producer = Producer(
            self._base
            | {
                "compression.type": codec,
                "acks": acks,
                "enable.idempotence": idempotent,
                "linger.ms": 20,
                "message.max.bytes": 2_000_000,
            }
        )
        offsets: list[int] = []

        def delivered(error: Any, message: Message) -> None:
            if error is not None:
                raise KafkaException(error)
            offsets.append(message.offset() or 0)

        for each in records:
            options: dict[str, Any] = {"partition": partition} if partition is not None else {}
            if each.timestamp is not None:
                options["timestamp"] = each.timestamp
            producer.produce(
                topic,
                each.value,
                each.key,
                headers=list(each.headers),
                on_delivery=delivered,
                **options,
            )
            producer.poll(0)
        assert producer.flush(30) == 0
        return offsets

    def consume(
        self,
        topic: str,
        count: int,
        *,
        partition: int = 0,
        offset: int = 0,
        committed: bool = False,
    ) -> list[Rec]:
        isolation = "read_committed" if committed else "read_uncommitted"
        consumer = Consumer(
            self._base
            | {
                "group.id": "unused",
                "enable.auto.commit": False,
                "isolation.level": isolation,
                "fetch.message.max.bytes": 2_000_000,
                "check.crcs": True,
            }
        )
        consumer.assign([TopicPartition(topic, partition, offset)])
        found: list[Rec] = []
        deadline = time.monotonic() + 30
        while len(found) < count and time.monotonic() < deadline:
            found += [record(message) for message in consumer.consume(1000, 0.2)]
        consumer.close()
        return found

    def offset_for_time(self, topic: str, timestamp: int) -> int | None:
        consumer = Consumer(self._base | {"group.id": "unused"})
        found = consumer.offsets_for_times([TopicPartition(topic, 0, timestamp)], timeout=10)
        consumer.close()
        return found[0].offset if found[0].offset >= 0 else None

    def watermarks(self, topic: str) -> tuple[int, int]:
        consumer = Consumer(self._base | {"group.id": "unused"})
        low, high = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=10)
        consumer.close()
        return low, high

    def member(
        self,
        topic: str,
        group: str,
        *,
        instance: str | None = None,
        cooperative: bool = False,
        session_ms: int = 10_000,
        newer: bool = False,
    ) -> ConfluentMember:
        settings = self._base | {
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
        if newer:  # the broker says how long a session is, and how often to send a heartbeat
            settings["group.protocol"] = "consumer"
        else:
            settings |= {"session.timeout.ms": session_ms, "heartbeat.interval.ms": 300}
        if instance:
            settings["group.instance.id"] = instance
        if cooperative:
            settings["partition.assignment.strategy"] = "cooperative-sticky"
        return ConfluentMember(settings, topic)

    def transactions(
        self, transactional_id: str, timeout_ms: int = 60_000
    ) -> ConfluentTransactions:
        settings = {"transactional.id": transactional_id, "transaction.timeout.ms": timeout_ms}
        return ConfluentTransactions(self._base | settings)

    def create_topic(self, topic: str, partitions: int, config: dict[str, str]) -> None:
        wanted = NewTopic(topic, partitions, self._replicas, config=config)
        self._admin.create_topics([wanted])[topic].result(30)

    def delete_topic(self, topic: str) -> None:
        self._admin.delete_topics([topic])[topic].result(30)

    def add_partitions(self, topic: str, total: int) -> None:
        self._admin.create_partitions([NewPartitions(topic, total)])[topic].result(30)

    def topics(self) -> set[str]:
        return set(self._admin.list_topics(timeout=10).topics)

    def partitions(self, topic: str) -> int:
        return len(self._admin.list_topics(topic, timeout=10).topics[topic].partitions)

    def topic_config(self, topic: str) -> dict[str, str]:
        resource = ConfigResource(ResourceType.TOPIC, topic)
        entries = self._admin.describe_configs([resource])[resource].result(10)
        return {name: entry.value for name, entry in entries.items()}

    def set_topic_config(self, topic: str, name: str, value: str) -> None:
        entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        self._admin.incremental_alter_configs([resource])[resource].result(10)

    def groups(self) -> set[str]:
        listing = self._admin.list_consumer_groups().result(10)
        return {each.group_id for each in listing.valid}

    def group_members(self, group: str) -> int:
        described = self._admin.describe_consumer_groups([group])[group].result(10)
        return len(described.members)

    def committed(self, group: str, topic: str) -> dict[int, int]:
        consumer = Consumer(self._base | {"group.id": group})
        wanted = [TopicPartition(topic, index) for index in range(self.partitions(topic))]
        found = consumer.committed(wanted, timeout=10)
        consumer.close()
        return {each.partition: each.offset for each in found if each.offset >= 0}

    def delete_group(self, group: str) -> None:
        self._admin.delete_consumer_groups([group])[group].result(10)
