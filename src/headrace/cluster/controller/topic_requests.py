"""`TopicRequests`: topics that clients ask the controller to create, delete or grow.

Planned and checked on the metadata image, then decided on the facts, under the controller's lock.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from headrace.broker.broker import Broker
from headrace.broker.metadata_image import TopicInfo
from headrace.cluster.controller.late_leaders import Unmade
from headrace.cluster.controller.term import Result
from headrace.cluster.decisions.events import Event, TopicGrown, TopicsCreated, TopicsDeleted
from headrace.cluster.store.stored_topic import StoredTopic
from headrace.cluster.topics import internal_topics
from headrace.cluster.topics.creation import NewTopic, Spend, TopicPlanner
from headrace.model.errors import BEING_DELETED, ApiError, ErrorCode

if TYPE_CHECKING:
    from headrace.model.nouns import TopicPartition

TopicIds = Mapping[str, bytes]
"""Ids of topics, by their names."""


class TopicRequests:
    """Creation, deletion and growth of topics, each topic independently."""

    def __init__(self, broker: Broker, decided: Callable[[Event], Awaitable[Result]]) -> None:
        """Create the handler of requests about topics.

        `decided` decides an event, writes the changes and sends the orders, or raises ApiError.
        """
        self._broker = broker
        self._decided = decided

    async def create(
        self, wanted: Sequence[NewTopic], spend: Spend, *, validate_only: bool
    ) -> list[TopicInfo | ApiError | Unmade]:
        """Create topics as `ControllerPort.create_topics`; return the outcomes in the same order.

        `Unmade`: the topic exists, and some of its leaders have not answered in time.
        """
        planner = TopicPlanner(self._broker.image, self._broker.config)
        outcome: list[TopicInfo | ApiError | Unmade] = []
        stored: list[StoredTopic] = []
        for new_topic in wanted:
            try:
                planned = planner.plan(internal_topics.completed(new_topic, self._broker))
                spend(len(planned.replicas))
            except ApiError as error:
                outcome.append(error)
                continue
            planner.take(planned)
            topic_id = bytes(16) if validate_only else self._broker.random.uuid()
            topic = StoredTopic.of_plan(planned, topic_id, self._broker.image.drained)
            stored.append(topic)
            outcome.append(topic.shown())
        if stored and not validate_only:
            failed = await self._make_real(stored)
            outcome = [
                failed.get(topic.name, topic) if isinstance(topic, TopicInfo) else topic
                for topic in outcome
            ]
        return outcome

    async def _make_real(self, topics: Sequence[StoredTopic]) -> dict[str, ApiError | Unmade]:
        """Create planned topics; return those that were refused or have no log."""
        try:
            self._broker.check_writable()
            result = await self._decided(TopicsCreated(topics))
        except ApiError as error:
            return dict.fromkeys((topic.name for topic in topics), error)
        late: dict[str, set[TopicPartition]] = {}
        failed: dict[str, ApiError | Unmade] = {}
        for key, code in result.failed.items():
            if code is ErrorCode.REQUEST_TIMED_OUT:
                late.setdefault(key.topic, set()).add(key)
            else:
                failed[key.topic] = ApiError(code)
        shown = {topic.name: topic for topic in topics}
        unmade = {name: Unmade(shown[name].shown(), frozenset(keys)) for name, keys in late.items()}
        refused = {key.topic: ApiError(code, BEING_DELETED) for key, code in result.refused.items()}
        return unmade | failed | refused

    async def delete(
        self, names: Sequence[str], spend: Spend, ids: TopicIds
    ) -> dict[str, ApiError | None]:
        """Delete topics; on return they are not shown to clients and their deletion is durable.

        A topic with another id than in `ids` stays: INCONSISTENT_TOPIC_ID, with its id as the text.
        """
        image = self._broker.image
        outcome: dict[str, ApiError | None] = {}
        for name in names:
            try:
                if name not in image.topics:
                    raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                topic_id = image.topics[name].topic_id
                if ids.get(name, topic_id) != topic_id:
                    raise ApiError(ErrorCode.INCONSISTENT_TOPIC_ID, topic_id.hex())
                spend(len(image.topics[name].partitions))
                outcome[name] = None
            except ApiError as error:
                outcome[name] = error
        going = [name for name, error in outcome.items() if error is None]
        if going:
            try:
                # Durable before a log is deleted: after a restart the deletion continues, and the
                # remaining directories are not adopted as a topic.
                await self._decided(TopicsDeleted(going))
            except ApiError as error:
                outcome |= dict.fromkeys(going, error)
        return outcome

    async def grow(
        self,
        name: str,
        count: int,
        assignments: Sequence[Sequence[int]] | None,
        spend: Spend,
        *,
        validate_only: bool,
    ) -> None:
        """Add partitions to topic `name`, up to `count` in all. Raises ApiError."""
        broker = self._broker
        added = TopicPlanner(broker.image, broker.config).plan_growth(name, count, assignments)
        spend(len(added))
        if validate_only:
            return
        broker.check_writable()
        present = len(broker.image.topics[name].partitions)
        result = await self._decided(TopicGrown(name, present, added))
        for code in (*result.refused.values(), *result.failed.values()):
            raise ApiError(code)
