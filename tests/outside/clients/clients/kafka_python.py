"""kafka-python: pure Python, Apache-style API."""

import time
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import closing
from typing import Any

from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as Place
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient, NewTopic
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.errors import IllegalStateError
from kafka.structs import MemberState, OffsetAndMetadata

from tests.outside.clients.clients.base import NEWER, Rec

JOIN_SECONDS = 30


def record(message: Any) -> Rec:
    """The common form of a message."""
    return Rec(
        value=message.value,
        key=message.key,
        headers=tuple((name, value) for name, value in message.headers),
        timestamp=message.timestamp,
        partition=message.partition,
        offset=message.offset,
    )


class KafkaPythonMember:
    """A consumer of which no join is cut short: its polls go on in a thread until it has joined.

    The library forgets a join that is answered between two polls: the next poll joins anew, and a
    leader's joining anew makes all members join. A member's poll that the others' answers wait for
    is over when the answers are there, so members polled in turn may do that for ever, each of
    their requests answered. An application that polls in one thread a member is not hurt so.
    """

    def __init__(self, consumer: Any, topic: str) -> None:
        self._topic = topic
        self._consumer = consumer
        self._thread = ThreadPoolExecutor(1)
        self._joining: Future[list[Rec]] | None = None
        self._closed = False

    def poll(self, seconds: float) -> list[Rec]:
        if self._joining is None:
            found = self._poll(seconds)
            if self._is_joining():
                self._joining = self._thread.submit(self._poll_until_joined)
            return found
        wait([self._joining], seconds)
        if not self._joining.done():
            return []
        joined, self._joining = self._joining, None
        return joined.result()

    def _poll(self, seconds: float) -> list[Rec]:
        polled = self._consumer.poll(timeout_ms=int(seconds * 1000))
        return [record(message) for batch in polled.values() for message in batch]

    def _poll_until_joined(self) -> list[Rec]:
        """Poll for as long as it joins, and at most JOIN_SECONDS: a later poll goes on."""
        found: list[Rec] = []
        deadline = time.monotonic() + JOIN_SECONDS
        while self._is_joining() and not self._closed and time.monotonic() < deadline:
            found += self._poll(0.5)
        return found

    def _is_joining(self) -> bool:
        return self._consumer.group_metadata().state is MemberState.REBALANCING

    def assigned(self) -> set[int]:
        return {place.partition for place in self._consumer.assignment()}

    def commit(self) -> None:
        assert self._joining is None, "what was polled while it joins is not handed over yet"
        self._consumer.commit()

    def group_metadata(self) -> Any:
        return self._consumer.group_metadata()

    def close(self) -> None:
        self._closed = True
        self._thread.shutdown()
        self._consumer.close()


class KafkaPythonTransactions:
    def __init__(self, settings: dict[str, Any]) -> None:
        self._producer = KafkaProducer(**settings)
        self._producer.init_transactions()

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, topic: str, records: Sequence[Rec], partition: int = 0) -> None:
        futures = [self._send(topic, each, partition) for each in records]
        self._producer.flush(30)
        for future in futures:
            future.get(30)

    def _send(self, topic: str, record: Rec, partition: int) -> Any:
        """Send once the client has asked for another epoch, where it is about to: it refuses."""
        deadline = time.monotonic() + 30
        while True:
            try:
                return self._producer.send(
                    topic, value=record.value, key=record.key, partition=partition
                )
            except IllegalStateError as error:
                if "BUMPING_PRODUCER_EPOCH" not in str(error) or time.monotonic() > deadline:
                    raise
                time.sleep(0.01)

    def send_offsets(self, member: Any, topic: str, offsets: dict[int, int]) -> None:
        places = {
            Place(topic, index): OffsetAndMetadata(offset, "", -1)
            for index, offset in offsets.items()
        }
        self._producer.send_offsets_to_transaction(places, member.group_metadata())

    def commit(self) -> None:
        self._producer.commit_transaction()

    def abort(self) -> None:
        self._producer.abort_transaction()

    def close(self) -> None:
        self._producer.close(timeout=1)


class KafkaPython:
    name = "kafka-python"

    def __init__(self, bootstrap: str, replicas: int = 1) -> None:
        self._replicas = replicas
        self._base: dict[str, Any] = {"bootstrap_servers": bootstrap}

    def unsupported(self) -> Iterable[str]:
        return NEWER

    def _admin(self) -> Any:
        return closing(KafkaAdminClient(**self._base))

    def _reader(self, **settings: Any) -> Any:
        return KafkaConsumer(**(self._base | {"enable_auto_commit": False} | settings))

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
        settings = self._base | {
            "compression_type": None if codec == "none" else codec,
            "acks": acks if acks == "all" else int(acks),
            "enable_idempotence": idempotent,
            "linger_ms": 20,
            "max_request_size": 2_000_000,
        }
        producer = KafkaProducer(**settings)
        try:
            futures = [
                producer.send(
                    topic,
                    value=each.value,
                    key=each.key,
                    headers=list(each.headers),
                    partition=partition,
                    timestamp_ms=each.timestamp,
                )
                for each in records
            ]
            producer.flush(30)
            return [future.get(30).offset for future in futures]
        finally:
            producer.close()

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
        consumer = self._reader(isolation_level=isolation, max_partition_fetch_bytes=2_000_000)
        place = Place(topic, partition)
        consumer.assign([place])
        consumer.seek(place, offset)
        found: list[Rec] = []
        deadline = time.monotonic() + 30
        while len(found) < count and time.monotonic() < deadline:
            polled = consumer.poll(timeout_ms=200)
            found += [record(message) for batch in polled.values() for message in batch]
        consumer.close()
        return found

    def offset_for_time(self, topic: str, timestamp: int) -> int | None:
        with closing(self._reader()) as consumer:
            found = consumer.offsets_for_times({Place(topic, 0): timestamp})[Place(topic, 0)]
            return None if found is None or found.offset < 0 else int(found.offset)

    def watermarks(self, topic: str) -> tuple[int, int]:
        place = Place(topic, 0)
        with closing(self._reader()) as consumer:
            return consumer.beginning_offsets([place])[place], consumer.end_offsets([place])[place]

    def member(
        self,
        topic: str,
        group: str,
        *,
        instance: str | None = None,
        cooperative: bool = False,
        session_ms: int = 10_000,
        newer: bool = False,
    ) -> KafkaPythonMember:
        del newer
        settings: dict[str, Any] = {
            "group_id": group,
            "auto_offset_reset": "earliest",
            "session_timeout_ms": session_ms,
            "heartbeat_interval_ms": 300,
            "group_instance_id": instance,
        }
        if cooperative:
            settings["partition_assignment_strategy"] = [CooperativeStickyAssignor]
        consumer = self._reader(**settings)
        consumer.subscribe([topic])
        # Before it joins. Its leader assigns what its view of the cluster has, nothing at first,
        # and joins again when the topic turns up there. But where a poll's time is up during that
        # second join, no later poll takes what comes of it: only the difference of two views asked
        # for it, and assigning makes them alike. The member then has no partitions and sends no
        # heartbeats, for good. Each question here fetches the metadata anew.
        deadline = time.monotonic() + 30
        while not consumer.partitions_for_topic(topic):
            assert time.monotonic() < deadline, f"{topic} is not in the metadata"
        return KafkaPythonMember(consumer, topic)

    def transactions(
        self, transactional_id: str, timeout_ms: int = 60_000
    ) -> KafkaPythonTransactions:
        settings = {"transactional_id": transactional_id, "transaction_timeout_ms": timeout_ms}
        return KafkaPythonTransactions(self._base | settings)

    def create_topic(self, topic: str, partitions: int, config: dict[str, str]) -> None:
        with self._admin() as admin:
            admin.create_topics([NewTopic(topic, partitions, self._replicas, topic_configs=config)])

    def delete_topic(self, topic: str) -> None:
        with self._admin() as admin:
            admin.delete_topics([topic])

    def add_partitions(self, topic: str, total: int) -> None:
        with self._admin() as admin:
            admin.create_partitions({topic: total})

    def topics(self) -> set[str]:
        with self._admin() as admin:
            return set(admin.list_topics())

    def partitions(self, topic: str) -> int:
        with self._admin() as admin:
            return len(admin.describe_topics([topic])[0]["partitions"])

    def topic_config(self, topic: str) -> dict[str, str]:
        with self._admin() as admin:
            resource = ConfigResource(ConfigResourceType.TOPIC, topic)
            entries = admin.describe_configs([resource], config_filter="all")["topic"][topic]
            return {name: entry["value"] for name, entry in entries.items()}

    def set_topic_config(self, topic: str, name: str, value: str) -> None:
        with self._admin() as admin:
            admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, {name: value})])

    def groups(self) -> set[str]:
        with self._admin() as admin:
            return {each["group_id"] for each in admin.list_groups()}

    def group_members(self, group: str) -> int:
        with self._admin() as admin:
            return len(admin.describe_groups([group])[group]["members"])

    def committed(self, group: str, topic: str) -> dict[int, int]:
        with self._admin() as admin:
            found = admin.list_group_offsets([group])[group]
            return {at.partition: each.offset for at, each in found.items() if at.topic == topic}

    def delete_group(self, group: str) -> None:
        with self._admin() as admin:
            admin.delete_groups([group])
