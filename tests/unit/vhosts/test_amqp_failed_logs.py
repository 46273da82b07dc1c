"""Logs of durable queues that the controller could not create."""

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.broker.partition import Partition
from headrace.cluster.topics.creation import NewTopic
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import LeaderEpoch
from headrace.posix.clock import RealClock
from headrace.queue_stores.queue_settings import Published
from headrace.queues.model.declarations import DeclaredQueue
from headrace.queues.queue_names import queue_topic
from headrace.vhosts.declarations.declaration_log import DeclarationLog
from headrace.vhosts.durable_queues import DurableQueues
from tests.support.log.log import World
from tests.support.queues.log import CONFIG, PLACE, message
from tests.support.queues.queues import settings

QUEUE = DeclaredQueue("q", True, False, None, {}, settings())


class Controller:
    """A controller that refuses the first topics; then it creates them."""

    def __init__(self, refused: int) -> None:
        self.refused = refused
        self.asked: list[str] = []
        self.topics: dict[str, object] = {}

    async def create_topics(self, topics: Sequence[NewTopic]) -> list[object]:
        await asyncio.sleep(0)
        self.asked += (topic.name for topic in topics)
        if len(self.asked) <= self.refused:
            return [ApiError(ErrorCode.POLICY_VIOLATION, "too many partitions") for _ in topics]
        self.topics.update((topic.name, topic) for topic in topics)
        return list(topics)


class NothingDeclared(DeclarationLog):
    """A log of declarations for a test that declares nothing."""

    def __init__(self) -> None:
        """It has no topic."""


def test_refused_publish_has_the_log_of_its_queue_created_again() -> None:
    async def play() -> Controller:
        world, made = World(config=CONFIG), Controller(refused=2)
        partition = Partition(world.log(PLACE), flusher=world.directory.flusher)
        partition.role.lead(LeaderEpoch(1))
        broker: Any = SimpleNamespace(
            disk=world.disk,
            clock=RealClock(asyncio.get_running_loop()),
            broker_id=1,
            image=SimpleNamespace(topics=made.topics),
            partition=lambda *_: partition,
        )
        controller: Any = made
        queues = DurableQueues(broker, controller, NothingDeclared())
        store = queues.make_store("/", QUEUE, 0)
        published = Published(message("a"), 0, None, True)
        stored: list[bool] = []
        store.append(published, None)
        store.when_stored(stored.append)
        await queues.topic_made()
        assert stored == [False]
        for _ in range(2):
            with pytest.raises(ApiError, match="too many partitions"):
                store.append(published, None)
            await queues.topic_made()
        store.append(published, None)
        return made

    made = asyncio.run(play())
    assert made.asked == [queue_topic("/", "q")] * 3
