"""`LateLeaders`: created topics whose leaders have not confirmed in time that they have the logs.

The controller's next decision does not wait for them; the request that created the topic may.
"""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple

from headrace.broker.metadata_image import TopicInfo
from headrace.cluster.decisions.orders import Failed, Lead, Orders
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import TopicPartition


class Unmade(NamedTuple):
    """A created topic with partitions whose leaders have not confirmed the order to lead yet."""

    topic: TopicInfo
    awaited: frozenset[TopicPartition]


class Heard:
    """Late answers of leaders, received while a request waits for them."""

    def __init__(self) -> None:
        self._codes: dict[TopicPartition, ErrorCode] = {}
        self._news = asyncio.Event()

    def take(self, orders: Orders, failed: Failed) -> None:
        """Store the outcome of orders to lead."""
        for order in orders.orders:
            if isinstance(order, Lead):
                partition = order.replication.topic_partition
                self._codes[partition] = failed.get(partition, ErrorCode.NONE)
        self._news.set()

    async def completed(
        self, outcome: Sequence[TopicInfo | ApiError | Unmade], deadline: float
    ) -> list[TopicInfo | ApiError]:
        """Wait for missing answers; return for each topic its info or its error.

        `deadline`: in the event loop's time, may be over. REQUEST_TIMED_OUT: a leader has not
        answered; the topic exists and its logs are created later.
        """
        unmade = [topic for topic in outcome if isinstance(topic, Unmade)]
        awaited = {partition for topic in unmade for partition in topic.awaited}
        with suppress(TimeoutError):
            async with asyncio.timeout_at(deadline):
                while not awaited <= self._codes.keys():
                    self._news.clear()
                    await self._news.wait()
        return [self._became(topic) if isinstance(topic, Unmade) else topic for topic in outcome]

    def _became(self, unmade: Unmade) -> TopicInfo | ApiError:
        codes = {self._codes.get(key, ErrorCode.REQUEST_TIMED_OUT) for key in unmade.awaited}
        codes.discard(ErrorCode.NONE)
        if not codes:
            return unmade.topic
        lasting = codes - {ErrorCode.REQUEST_TIMED_OUT}
        if lasting:
            return ApiError(min(lasting))
        return ApiError(ErrorCode.REQUEST_TIMED_OUT, "it exists, and its leaders are not ready yet")


class LateLeaders:
    """Passes brokers' late answers to orders on to requests that wait. On the deciding thread."""

    def __init__(self) -> None:
        self._heard: list[Heard] = []

    @contextmanager
    def listening(self) -> Iterator[Heard]:
        """Collect late answers in the `with` block; enter it before the orders are sent."""
        heard = Heard()
        self._heard.append(heard)
        try:
            yield heard
        finally:
            self._heard.remove(heard)

    def answered(self, orders: Orders, failed: Failed) -> None:
        """Pass on the late outcome of orders."""
        for heard in self._heard:
            heard.take(orders, failed)
