"""aiokafka: asyncio. Each call runs on a loop in a thread of its own, so that heartbeats go on."""

import asyncio
import threading
from collections.abc import Coroutine, Iterable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as Place
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import KafkaError

from tests.outside.clients.clients.base import NEWER, Rec

T = TypeVar("T")
WAIT_SECONDS = 60


class LoopThread:
    """An event loop in a thread."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(WAIT_SECONDS)

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()


def record(message: Any) -> Rec:
    """The common form of a message."""
    return Rec(
        value=message.value,
        key=message.key,
        headers=tuple(message.headers),
        timestamp=message.timestamp,
        partition=message.partition,
        offset=message.offset,
    )


class AioMember:
    def __init__(self, topic: str, settings: dict[str, Any]) -> None:
        self.group: str = settings["group_id"]
        self._thread = LoopThread()
        self._consumer = self._thread.run(self._start(topic, settings))

    async def _start(self, topic: str, settings: dict[str, Any]) -> Any:
        consumer = AIOKafkaConsumer(topic, **settings)
        await consumer.start()
        return consumer

    def poll(self, seconds: float) -> list[Rec]:
        polled = self._thread.run(self._consumer.getmany(timeout_ms=int(seconds * 1000)))
        return [record(message) for batch in polled.values() for message in batch]

    def assigned(self) -> set[int]:
        return {place.partition for place in self._consumer.assignment()}

    def commit(self) -> None:
        self._thread.run(self._consumer.commit())

    def close(self) -> None:
        self._thread.run(self._consumer.stop())
        self._thread.close()


class AioTransactions:
    def __init__(self, settings: dict[str, Any]) -> None:
        self._thread = LoopThread()
        self._producer = self._thread.run(self._start(settings))

    async def _start(self, settings: dict[str, Any]) -> Any:
        producer = AIOKafkaProducer(**settings)
        await producer.start()
        return producer

    def begin(self) -> None:
        self._thread.run(self._producer.begin_transaction())

    def send(self, topic: str, records: Sequence[Rec], partition: int = 0) -> None:
        async def sending() -> None:
            futures = [
                await self._producer.send(topic, each.value, each.key, partition=partition)
                for each in records
            ]
            for future in futures:
                await future

        self._thread.run(sending())

    def send_offsets(self, member: Any, topic: str, offsets: dict[int, int]) -> None:
        places = {Place(topic, index): offset for index, offset in offsets.items()}
        self._thread.run(self._producer.send_offsets_to_transaction(places, member.group))

    def commit(self) -> None:
        self._thread.run(self._producer.commit_transaction())

    def abort(self) -> None:
        self._thread.run(self._producer.abort_transaction())

    def close(self) -> None:
        with suppress(KafkaError, TimeoutError):  # a fenced producer cannot be stopped in order
            self._thread.run(asyncio.wait_for(self._producer.stop(), 5))
        self._thread.close()


class Aio:
    name = "aiokafka"

    def __init__(self, bootstrap: str, replicas: int = 1) -> None:
        self._replicas = replicas
        self._base: dict[str, Any] = {"bootstrap_servers": bootstrap}

    def unsupported(self) -> Iterable[str]:
        # 0.14 knows eager assignors only and has no DeleteGroups
        return ("cooperative rebalance", "delete group", *NEWER)

    def _with_consumer(self, work: Any, **settings: Any) -> Any:
        async def session() -> Any:
            consumer = AIOKafkaConsumer(**(self._base | {"enable_auto_commit": False} | settings))
            await consumer.start()
            try:
                return await work(consumer)
            finally:
                await consumer.stop()

        return asyncio.run(session())

    def _with_admin(self, work: Any) -> Any:
        async def session() -> Any:
            admin = AIOKafkaAdminClient(**self._base)
            await admin.start()
            try:
                return await work(admin)
            finally:
                await admin.close()

        return asyncio.run(session())

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

        async def session() -> list[int]:
            producer = AIOKafkaProducer(**settings)
            await producer.start()
            try:
                futures = [
                    await producer.send(
                        topic,
                        value=each.value,
                        key=each.key,
                        headers=list(each.headers),
                        partition=partition,
                        timestamp_ms=each.timestamp,
                    )
                    for each in records
                ]
                await producer.flush()
                answers = [await future for future in futures]
                return [answer.offset for answer in answers if answer is not None]  # acks=0: None
            finally:
                await producer.stop()

        return asyncio.run(session())

    def consume(
        self,
        topic: str,
        count: int,
        *,
        partition: int = 0,
        offset: int = 0,
        committed: bool = False,
    ) -> list[Rec]:
        async def work(consumer: Any) -> list[Rec]:
            place = Place(topic, partition)
            consumer.assign([place])
            consumer.seek(place, offset)
            found: list[Rec] = []
            deadline = asyncio.get_running_loop().time() + 30
            while len(found) < count and asyncio.get_running_loop().time() < deadline:
                polled = await consumer.getmany(timeout_ms=200)
                found += [record(message) for batch in polled.values() for message in batch]
            return found

        isolation = "read_committed" if committed else "read_uncommitted"
        read = self._with_consumer(
            work, isolation_level=isolation, max_partition_fetch_bytes=2_000_000
        )
        return list(read)

    def offset_for_time(self, topic: str, timestamp: int) -> int | None:
        async def work(consumer: Any) -> int | None:
            found = await consumer.offsets_for_times({Place(topic, 0): timestamp})
            at = found[Place(topic, 0)]
            return None if at is None or at.offset < 0 else int(at.offset)

        found: int | None = self._with_consumer(work)
        return found

    def watermarks(self, topic: str) -> tuple[int, int]:
        async def work(consumer: Any) -> tuple[int, int]:
            place = Place(topic, 0)
            low = await consumer.beginning_offsets([place])
            high = await consumer.end_offsets([place])
            return low[place], high[place]

        low, high = self._with_consumer(work)
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
    ) -> AioMember:
        del cooperative, newer
        settings = self._base | {
            "group_id": group,
            "group_instance_id": instance,
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
            "session_timeout_ms": session_ms,
            "heartbeat_interval_ms": 300,
        }
        return AioMember(topic, settings)

    def transactions(self, transactional_id: str, timeout_ms: int = 60_000) -> AioTransactions:
        settings = {"transactional_id": transactional_id, "transaction_timeout_ms": timeout_ms}
        return AioTransactions(self._base | settings)

    def create_topic(self, topic: str, partitions: int, config: dict[str, str]) -> None:
        wanted = NewTopic(topic, partitions, self._replicas, topic_configs=config)
        self._with_admin(lambda admin: admin.create_topics([wanted]))

    def delete_topic(self, topic: str) -> None:
        self._with_admin(lambda admin: admin.delete_topics([topic]))

    def add_partitions(self, topic: str, total: int) -> None:
        wanted = {topic: NewPartitions(total)}
        self._with_admin(lambda admin: admin.create_partitions(wanted))

    def topics(self) -> set[str]:
        return set(self._with_admin(lambda admin: admin.list_topics()))

    def partitions(self, topic: str) -> int:
        found = self._with_admin(lambda admin: admin.describe_topics([topic]))
        return len(found[0]["partitions"])

    def topic_config(self, topic: str) -> dict[str, str]:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        answers = self._with_admin(lambda admin: admin.describe_configs([resource]))
        entries = answers[0].resources[0][4]
        return {entry[0]: entry[1] for entry in entries}

    def set_topic_config(self, topic: str, name: str, value: str) -> None:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, configs={name: value})
        self._with_admin(lambda admin: admin.alter_configs([resource]))

    def groups(self) -> set[str]:
        found = self._with_admin(lambda admin: admin.list_consumer_groups())
        return {each[0] for each in found}

    def group_members(self, group: str) -> int:
        answers = self._with_admin(lambda admin: admin.describe_consumer_groups([group]))
        return len(answers[0].groups[0][5])

    def committed(self, group: str, topic: str) -> dict[int, int]:
        found = self._with_admin(lambda admin: admin.list_consumer_group_offsets(group))
        return {at.partition: each.offset for at, each in found.items() if at.topic == topic}

    def delete_group(self, group: str) -> None:
        raise AssertionError("not in this library")
