"""`ReplicatedTopics`: the topics of a cluster's durable queues, created with their first use.

    unused ──want──► WANTED ──created by the controller──► in the metadata image
                      │  ▲
                      │  └── error, or too few brokers: again after a pause
                      └──► deleted: no longer wanted

A queue is used by a publish or a consumer on any broker, and that broker has the controller create
the topic; it refuses all requests but the first. The replicas are those that the
queue's record plans (`declarations/planned_replicas.py`), with others in place of those that are
not registered now, and at least a majority of them: a minority of brokers creates no queue.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from headrace.cluster.peers.queue_topic_calls import Outcomes, QueueTopicChanges
from headrace.model.errors import BEING_DELETED, ApiError, ErrorCode
from headrace.model.nouns import BrokerId
from headrace.model.protocols import AMQP
from headrace.ports.backoff import backoff_seconds
from headrace.queues.model.declarations import DeclaredQueue
from headrace.queues.queue_names import QueueName, queue_topic
from headrace.vhosts.queue_topics import new_topic

if TYPE_CHECKING:
    from headrace.broker.broker import Broker
    from headrace.cluster.peers.conversation import Run
    from headrace.cluster.topics.creation import NewTopic
    from headrace.replication.fetch_dependencies import Running

_logger = logging.getLogger(__name__)

TOPICS_AT_ONCE = 100
"""Topics in one request to the controller at most."""
PAUSE_SECONDS_MIN = 0.05
PAUSE_SECONDS_MAX = 1.0
"""Bounds of the seconds between two requests for topics that the first did not create."""


class _Wanted(NamedTuple):
    """A queue whose topic is to be created."""

    name: QueueName
    queue: DeclaredQueue


class TopicLinks(NamedTuple):
    """The broker's other parts, as the topics use them."""

    change: Callable[[QueueTopicChanges], Awaitable[Outcomes]]
    """Has the controller change topics. Raises ApiError."""
    replicas: Callable[[QueueName], Sequence[int]]
    """Returns the brokers that are planned for a queue; none: it is not declared."""
    run: "Run"
    """Starts a task on the event loop."""


class ReplicatedTopics:
    """The topics that this broker has created for its clients. On the deciding thread."""

    def __init__(self, broker: "Broker", links: TopicLinks) -> None:
        """Create without wanted topics."""
        self._broker = broker
        self._links = links
        self._wanted: dict[str, _Wanted] = {}
        self._running: Running | None = None

    def exists(self, name: QueueName) -> bool:
        """Return whether the metadata image has a queue's topic; without one it has no message."""
        return queue_topic(*name) in self._broker.image.topics

    def planned(self, name: QueueName) -> Sequence[int]:
        """Return the brokers that are planned for a queue; none: it is not declared."""
        return self._links.replicas(name)

    def want(self, vhost: str, queue: DeclaredQueue) -> None:
        """Have the topic of a durable queue created, unless it exists."""
        topic = queue_topic(vhost, queue.name)
        if topic in self._wanted or topic in self._broker.image.topics:
            return
        self._wanted[topic] = _Wanted(QueueName(vhost, queue.name), queue)
        if self._running is None:
            self._running = self._links.run(self._run())

    def close(self) -> None:
        """Create no topics any more: the broker stops."""
        self._wanted.clear()
        if self._running is not None:
            self._running.cancel()

    async def _run(self) -> None:
        """Create the wanted topics, until the metadata image has all of them."""
        failures = 0
        try:
            while self._wanted:
                before = len(self._wanted)
                await self._create(dict(islice(self._wanted.items(), TOPICS_AT_ONCE)))
                failures = 0 if len(self._wanted) < before else failures + 1
                if failures:
                    pause = backoff_seconds(failures, PAUSE_SECONDS_MIN, PAUSE_SECONDS_MAX)
                    await asyncio.sleep(pause)
        finally:
            self._running = None

    async def _create(self, some: dict[str, _Wanted]) -> None:
        """Have some topics created; forget those that exist or whose queues are deleted."""
        new: list[NewTopic] = []
        image = self._broker.image
        serving = image.brokers_with(AMQP.feature)
        # One that seems to be dead could be the first leader, until its session ends.
        reachable = [info.broker_id for info in image.reachable_brokers()]
        brokers = [broker for broker in reachable if broker in serving]
        for topic, wanted in some.items():
            planned = self._links.replicas(wanted.name)
            if topic in self._broker.image.topics or not planned:
                self._wanted.pop(topic, None)
                continue
            replicas = present_replicas(planned, brokers)
            if replicas:
                new.append(new_topic(topic, wanted.queue.settings, replicas))
            self._wanted[topic] = self._wanted.pop(topic)  # others come first the next time
        if not new:
            return
        try:
            outcomes = await self._links.change(QueueTopicChanges(created=new))
        except ApiError as error:
            _logger.warning("topics of queues are not created, retrying: %s", error)
            return
        for created, outcome in zip(new, outcomes, strict=True):
            if outcome is not None and not _exists(outcome):
                _logger.warning("topic %s is not created, retrying: %s", created.name, outcome)
            elif self._wanted.get(created.name) is some[created.name]:
                # Later the queue may be deleted and declared again, unused.
                del self._wanted[created.name]


def _exists(error: ApiError) -> bool:
    """Return whether a topic is not created as it exists, and is not being deleted."""
    return error.code is ErrorCode.TOPIC_ALREADY_EXISTS and error.message != BEING_DELETED


def present_replicas(planned: Sequence[int], brokers: Collection[BrokerId]) -> tuple[BrokerId, ...]:
    """Return as many registered brokers as are planned, those first; none: too few are registered.

    At least a majority of the planned number is needed.
    """
    kept = [BrokerId(broker) for broker in planned if broker in brokers]
    others = [broker for broker in sorted(brokers) if broker not in kept]
    found = (kept + others)[: len(planned)]
    return tuple(found) if len(found) > len(planned) // 2 else ()
