"""`AutoCreation`: topics created automatically, for metadata requests and for coordinators."""

from collections.abc import Awaitable, Callable, Iterable

from headrace.broker.broker import Broker
from headrace.broker.metadata_image import TopicInfo
from headrace.cluster.topics import internal_topics
from headrace.cluster.topics.creation import NewTopic, Spend, freely
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.invariant import invariant
from headrace.model.nouns import INTERNAL_TOPICS
from headrace.model.protocols import is_own_state

Create = Callable[[NewTopic, Spend], Awaitable[TopicInfo | ApiError]]
"""Creates a topic by the controller; on success this broker's metadata image has it."""


class AutoCreation:
    """Returns topics, and creates missing ones. Two methods of `controller_port.ControllerPort`."""

    def __init__(self, broker: Broker, create: Create) -> None:
        """Create the automatic creation of topics. `create` creates a topic by the controller."""
        self._broker = broker
        self._create = create

    async def auto_create(
        self, names: Iterable[str], *, spend: Spend = freely
    ) -> dict[str, ApiError | None]:
        """Create topics that clients asked about, as configured; None: the topic exists now.

        Internal topics get their own settings, or those of a protocol that declared their owner.
        UNKNOWN_TOPIC_OR_PARTITION if `auto.create.topics.enable` is off, INVALID_TOPIC_EXCEPTION
        for invalid names.
        """
        broker = self._broker
        outcome: dict[str, ApiError | None] = {}
        for name in names:
            if (keeper := broker.topic_keepers.of(name)) is not None:
                outcome[name] = await keeper.make(name)
                continue
            if name not in INTERNAL_TOPICS and not broker.config.auto_create_topics_enable:
                outcome[name] = ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                continue
            try:
                await self._create_or_find(internal_topics.new_topic(name, broker), spend)
                outcome[name] = None
            except ApiError as error:
                outcome[name] = error
        return outcome

    async def ensure_internal_topic(self, name: str) -> TopicInfo:
        """Create the internal topic with its own settings if it is missing, and return it.

        Raises ApiError.

        The number of partitions of an existing topic is not changed by the configuration.
        """
        known = name in INTERNAL_TOPICS or is_own_state(name)
        invariant(known, f"{name} is no internal topic")
        return await self._create_or_find(internal_topics.new_topic(name, self._broker), freely)

    async def _create_or_find(self, wanted: NewTopic, spend: Spend) -> TopicInfo:
        found = self._broker.image.topics.get(wanted.name)
        if found is not None:
            return found
        outcome = await self._create(wanted, spend)
        if isinstance(outcome, TopicInfo):
            return outcome
        if outcome.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise outcome
        found = self._broker.image.topics.get(wanted.name)
        if found is None:  # being deleted, or deleted again at once: clients retry
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{wanted.name} is being deleted")
        return found  # another request was faster
