"""A member of a group that reads several topics, of each stock library, in one vocabulary."""

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Protocol

import confluent_kafka
from aiokafka import AIOKafkaConsumer
from aiokafka.coordinator.assignors.range import RangePartitionAssignor as AioRange
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor as AioRoundRobin
from aiokafka.coordinator.assignors.sticky.sticky_assignor import (
    StickyPartitionAssignor as AioSticky,
)
from kafka import KafkaConsumer
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

from tests.outside.clients.clients.aio import LoopThread

SESSION_MS = 6000 if os.environ.get("HEADRACE_TEST_BOOTSTRAP") else 2000
"""The shortest a broker grants by default; ours is told to grant a shorter one."""
HEARTBEAT_MS = 200
Place = tuple[str, int]


class Reader(Protocol):
    """A member; its offsets are committed by hand."""

    def poll(self, seconds: float) -> list[bytes]: ...

    def held(self) -> set[Place]: ...

    def commit(self) -> None:
        """Commit, synchronously, what was polled; the library's own error where that fails."""

    def close(self) -> None:
        """Leave the group, without a commit."""


def _places(consumer: Any) -> set[Place]:
    return {(one.topic, one.partition) for one in consumer.assignment()}


class ConfluentReader:
    """librdkafka. `strategy` uniform and server-range: KIP-848's protocol."""

    strategies = ("range", "roundrobin", "cooperative-sticky", "uniform", "server-range")

    def __init__(
        self,
        bootstrap: str,
        group: str,
        topics: Sequence[str],
        strategy: str = "range",
        poll_interval_ms: int = 60_000,
    ) -> None:
        settings: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "max.poll.interval.ms": max(poll_interval_ms, SESSION_MS),
            "log_level": 0,
        }
        if strategy in ("uniform", "server-range"):
            remote = strategy.removeprefix("server-")
            settings |= {"group.protocol": "consumer", "group.remote.assignor": remote}
        else:
            settings |= {
                "session.timeout.ms": SESSION_MS,
                "heartbeat.interval.ms": HEARTBEAT_MS,
                "partition.assignment.strategy": strategy,
            }
        self.problems: list[int] = []
        """Codes of the errors that `poll` was told."""
        self._consumer = confluent_kafka.Consumer(settings)
        self._consumer.subscribe(list(topics))

    def poll(self, seconds: float) -> list[bytes]:
        message = self._consumer.poll(seconds)
        if message is None:
            return []
        error = message.error()
        if error is not None:
            self.problems.append(error.code())
            return []
        value = message.value()
        assert isinstance(value, bytes)
        return [value]

    def held(self) -> set[Place]:
        return _places(self._consumer)

    def commit(self) -> None:
        self._consumer.commit(asynchronous=False)

    def close(self) -> None:
        self._consumer.close()


def _settings(bootstrap: str, group: str, assignor: Any, poll_interval_ms: int) -> dict[str, Any]:
    """What kafka-python and aiokafka know by the same names."""
    return {
        "bootstrap_servers": bootstrap,
        "group_id": group,
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
        "session_timeout_ms": SESSION_MS,
        "heartbeat_interval_ms": HEARTBEAT_MS,
        "max_poll_interval_ms": poll_interval_ms,
        "partition_assignment_strategy": [assignor],
    }


def _values(polled: Mapping[Any, Sequence[Any]]) -> list[bytes]:
    """Of what either has polled."""
    return [message.value for batch in polled.values() for message in batch]


class KafkaPythonReader:
    """kafka-python; its poll hands out one record at a time here."""

    _strategies: ClassVar[dict[str, Any]] = {
        "range": RangePartitionAssignor,
        "roundrobin": RoundRobinPartitionAssignor,
        "sticky": StickyPartitionAssignor,
        "cooperative-sticky": CooperativeStickyAssignor,
    }
    strategies = tuple(_strategies)

    def __init__(
        self,
        bootstrap: str,
        group: str,
        topics: Sequence[str],
        strategy: str = "range",
        poll_interval_ms: int = 60_000,
    ) -> None:
        assignor = self._strategies[strategy]
        self._consumer = KafkaConsumer(**_settings(bootstrap, group, assignor, poll_interval_ms))
        self._consumer.subscribe(list(topics))

    def poll(self, seconds: float) -> list[bytes]:
        return _values(self._consumer.poll(timeout_ms=int(seconds * 1000), max_records=1))

    def held(self) -> set[Place]:
        return _places(self._consumer)

    def commit(self) -> None:
        self._consumer.commit()

    def close(self) -> None:
        self._consumer.close(autocommit=False)


class AioReader:
    """aiokafka, on a loop of its own."""

    _strategies: ClassVar[dict[str, Any]] = {
        "range": AioRange,
        "roundrobin": AioRoundRobin,
        "sticky": AioSticky,
    }
    strategies = tuple(_strategies)

    def __init__(
        self,
        bootstrap: str,
        group: str,
        topics: Sequence[str],
        strategy: str = "range",
        poll_interval_ms: int = 60_000,
    ) -> None:
        self._thread = LoopThread()
        self._consumer: Any = None
        settings = _settings(bootstrap, group, self._strategies[strategy], poll_interval_ms)

        async def start() -> None:
            self._consumer = AIOKafkaConsumer(*topics, **settings)
            await self._consumer.start()

        # It returns when the group is formed, which others must be polled for meanwhile.
        self._starting = asyncio.run_coroutine_threadsafe(start(), self._thread.loop)

    def poll(self, seconds: float) -> list[bytes]:
        if not self._starting.done():
            return []
        self._starting.result()
        getting = self._consumer.getmany(timeout_ms=int(seconds * 1000), max_records=1)
        return _values(self._thread.run(getting))

    def held(self) -> set[Place]:
        return _places(self._consumer) if self._starting.done() else set()

    def commit(self) -> None:
        self._thread.run(self._consumer.commit())

    def close(self) -> None:
        try:
            self._starting.result(SESSION_MS / 1000 * 2)
            self._thread.run(self._consumer.stop())
        finally:
            self._thread.close()


READERS: dict[str, Callable[..., Reader]] = {
    "confluent-kafka": ConfluentReader,
    "kafka-python": KafkaPythonReader,
    "aiokafka": AioReader,
}
_STRATEGIES = {
    "confluent-kafka": ConfluentReader.strategies,
    "kafka-python": KafkaPythonReader.strategies,
    "aiokafka": AioReader.strategies,
}


def with_strategies(*wanted: str) -> list[tuple[str, str]]:
    """(library, strategy), of those wanted that the library has."""
    return [(library, one) for library, has in _STRATEGIES.items() for one in wanted if one in has]
