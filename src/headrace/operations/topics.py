"""CreateTopics, CreatePartitions and DeleteTopics, by the controller; others: NOT_CONTROLLER."""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from headrace.cluster.topics.creation import NewTopic, Spend, duplicates, freely
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.protocols import is_own_state
from headrace.operations.audit import shortened
from headrace.operations.configs import shown_value
from headrace.operations.permissions import AdminOperation, authorization_failed
from headrace.operations.reserved_topics import check_not_reserved
from headrace.security.authorizer import ResourceType

if TYPE_CHECKING:
    from headrace.broker.metadata_image import TopicInfo
    from headrace.operations.context import OperationContext

NO_ID = UUID(int=0)
"""Kafka's topic id for "none"."""
_OWN_SECONDS = 0.2
"""Seconds by which the wait for leaders ends before the request's timeout.

Each topic then has its own result, in place of one timeout for all of them.
"""


class TopicSpec(NamedTuple):
    """A topic to be created; -1 partitions or replicas: the broker's default number."""

    name: str
    partitions: int = -1
    replication_factor: int = -1
    assignments: Sequence[tuple[int, tuple[int, ...]]] = ()
    """Partition number and its replicas' broker ids; if given, the two numbers above must be -1."""
    configs: Sequence[tuple[str, str | None]] = ()
    by_broker: bool = False
    """Whether another broker asks, which may create topics with a protocol's own state."""


async def create_topics(
    context: "OperationContext",
    topics: Sequence[TopicSpec],
    *,
    validate_only: bool = False,
    seconds: float | None = None,
    spend: Spend = freely,
) -> "dict[str, TopicInfo | ApiError]":
    """Create topics; return by name what was created, or the error.

    An error of one topic does not affect the others. A name listed twice is refused, both times.
    After `seconds` a topic's result is REQUEST_TIMED_OUT, and its creation continues. `spend`
    charges the partitions to the client's quota of topic changes (KIP-599). `validate_only`: check
    only.
    """
    refusal = context.controller.not_controller()
    outcome: dict[str, TopicInfo | ApiError]
    if refusal is None:
        outcome = await _create(context, topics, validate_only, seconds, spend)
    else:
        outcome = dict.fromkeys((topic.name for topic in topics), refusal)
    if not validate_only:
        asked = {topic.name: topic for topic in topics}
        for name, result in outcome.items():
            topic = asked[name]
            settings = (f"{key}={shown_value(2, key, value)}" for key, value in topic.configs)
            context.changed(
                result if isinstance(result, ApiError) else None,
                {
                    "topic": name,
                    "partitions": len(topic.assignments) or topic.partitions,
                    "configs": shortened(",".join(settings)),
                },
            )
    return outcome


async def _create(
    context: "OperationContext",
    topics: Sequence[TopicSpec],
    validate_only: bool,
    seconds: float | None,
    spend: Spend,
) -> "dict[str, TopicInfo | ApiError]":
    """Authorize, check and create the topics by the controller; return results by name."""
    outcome: dict[str, TopicInfo | ApiError] = {}
    twice = duplicates([topic.name for topic in topics])
    wanted: list[NewTopic] = []
    forbidden: frozenset[str] = frozenset()
    if not context.permits(AdminOperation.CREATE_ANY_TOPIC, told=False):
        names = (topic.name for topic in topics)
        forbidden = context.refused(AdminOperation.CREATE_TOPIC, names)
    for topic in topics:
        try:
            if topic.name in twice:
                raise ApiError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            if topic.name in forbidden:
                raise authorization_failed(ResourceType.TOPIC)
            if not (topic.by_broker and is_own_state(topic.name)):
                check_not_reserved(topic.name, lambda reserved: reserved.create)
            wanted.append(_wanted(topic))
        except ApiError as error:
            outcome[topic.name] = error
    creating = context.controller.create_topics(
        wanted,
        validate_only=validate_only,
        spend=spend,
        wait_seconds=0.0 if seconds is None else max(seconds - _OWN_SECONDS, 0.0),
    )
    try:
        results = await asyncio.wait_for(creating, seconds)
        outcome |= {topic.name: result for topic, result in zip(wanted, results, strict=True)}
    except TimeoutError:
        late = ApiError(ErrorCode.REQUEST_TIMED_OUT, "still being created")
        outcome |= dict.fromkeys((topic.name for topic in wanted), late)
    return outcome


def _wanted(topic: TopicSpec) -> NewTopic:
    """Return a topic's creation for the controller. ApiError: a duplicate partition or setting."""
    assignment: dict[int, tuple[int, ...]] = {}
    for partition, replicas in topic.assignments:
        if partition in assignment:
            raise ApiError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"partition {partition} is assigned twice"
            )
        assignment[partition] = replicas
    settings: dict[str, str | None] = {}
    for name, value in topic.configs:
        if name in settings:
            raise ApiError(
                ErrorCode.INVALID_CONFIG, f"{name} appears more than once in the request"
            )
        settings[name] = value
    return NewTopic(topic.name, topic.partitions, topic.replication_factor, assignment, settings)


class Growth(NamedTuple):
    """A topic and the number of partitions that it should have."""

    name: str
    total: int
    """Partitions in all, old and new."""
    assignments: list[tuple[int, ...]] | None = None
    """The replicas of each new partition; None: the controller chooses them."""


async def create_partitions(
    context: "OperationContext",
    topics: Sequence[Growth],
    *,
    validate_only: bool = False,
    seconds: float | None = None,
    spend: Spend = freely,
) -> dict[str, ApiError | None]:
    """Add partitions to topics; return one error per topic, None if its partitions were added.

    An error of one topic does not affect the others. After `seconds` a topic's result is
    REQUEST_TIMED_OUT. `spend` charges the partitions to the client's quota of topic changes
    (KIP-599).
    """
    refusal = context.controller.not_controller()
    outcome: dict[str, ApiError | None]
    if refusal is None:
        outcome = await _grow(context, topics, validate_only, seconds, spend)
    else:
        outcome = dict.fromkeys((topic.name for topic in topics), refusal)
    if not validate_only:
        counts = {topic.name: topic.total for topic in topics}
        for name, error in outcome.items():
            context.changed(error, {"topic": name, "partitions": counts[name]})
    return outcome


async def _grow(
    context: "OperationContext",
    topics: Sequence[Growth],
    validate_only: bool,
    seconds: float | None,
    spend: Spend,
) -> dict[str, ApiError | None]:
    """Authorize and add partitions by the controller, topic by topic; return errors by name."""
    twice = duplicates([topic.name for topic in topics])
    outcome: dict[str, ApiError | None] = {}
    deadline = None if seconds is None else asyncio.get_running_loop().time() + seconds
    for topic in topics:
        try:
            if topic.name in twice:
                raise ApiError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            context.require(AdminOperation.CREATE_PARTITIONS, topic.name)
            check_not_reserved(topic.name, lambda reserved: reserved.partitions)
            async with asyncio.timeout_at(deadline):
                await context.controller.create_partitions(
                    topic.name,
                    topic.total,
                    topic.assignments,
                    validate_only=validate_only,
                    spend=spend,
                )
            outcome[topic.name] = None
        except ApiError as error:
            outcome[topic.name] = error
        except TimeoutError:
            outcome[topic.name] = ApiError(ErrorCode.REQUEST_TIMED_OUT, "still being created")
    return outcome


class TopicRef(NamedTuple):
    """A topic by name, or by id where the name is None."""

    name: str | None
    topic_id: UUID = NO_ID


class Deleted(NamedTuple):
    """The result of deleting one topic: its name, its id and the error."""

    name: str | None
    """The topic's name; None if it was named by id and the caller may not learn the name."""
    topic_id: UUID
    error: ApiError | None
    """None: the topic was deleted."""


async def delete_topics(
    context: "OperationContext",
    topics: Sequence[TopicRef],
    *,
    disabled: ErrorCode = ErrorCode.TOPIC_DELETION_DISABLED,
    seconds: float | None = None,
    spend: Spend = freely,
) -> list[Deleted]:
    """Delete topics, by name or id; return one result per topic.

    For a topic of another protocol its owner (a queue, for instance) is deleted. `disabled` is the
    error while `delete.topic.enable` is false. After `seconds` a topic's result is
    REQUEST_TIMED_OUT, and its deletion continues. `spend` charges the partitions to the client's
    quota (KIP-599).
    """
    refusal = context.controller.not_controller()
    if refusal is None and not context.broker.config.delete_topic_enable:
        refusal = ApiError(disabled, "delete.topic.enable is false")
    if refusal is None:
        results = await _delete(context, topics, seconds, spend)
    else:
        results = [Deleted(*topic, refusal) for topic in topics]
    for name, topic_id, error in results:
        shown = None if topic_id == NO_ID else topic_id
        context.changed(error, {"topic": name, "id": shown})
    return results


async def _delete(
    context: "OperationContext", asked: Sequence[TopicRef], seconds: float | None, spend: Spend
) -> list[Deleted]:
    """Authorize and delete the topics; return one result per topic, refused ones first."""
    image = context.broker.image
    results: list[Deleted] = []
    going: dict[str, UUID] = {}
    forbidden = _undeletable(context, asked)
    twice = duplicates([str(name or topic_id) for name, topic_id in asked])
    for name, topic_id in asked:
        topic = image.topics_by_id.get(topic_id.bytes) if name is None else image.topics.get(name)
        shown = name
        if (name is None) == (topic_id == NO_ID):
            problem = ApiError(ErrorCode.INVALID_REQUEST, "either a name or an id, not both")
        elif str(name or topic_id) in twice or (topic is not None and topic.name in going):
            problem = ApiError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
        elif (name if topic is None else topic.name) in forbidden:
            problem = authorization_failed(ResourceType.TOPIC)
            known = topic is not None and context.permits(
                AdminOperation.NAME_TOPIC, topic.name, told=False
            )
            shown = topic.name if topic is not None and known else name
        elif topic is None and name is None:
            problem = ApiError(ErrorCode.UNKNOWN_TOPIC_ID)
        elif topic is None:
            problem = ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        else:
            going[topic.name] = UUID(bytes=topic.topic_id)
            continue
        results.append(Deleted(shown, topic_id, problem))
    outcome: dict[str, ApiError | None]
    try:
        outcome = await asyncio.wait_for(_deleted(context, list(going), spend), seconds)
    except TimeoutError:
        late = ApiError(ErrorCode.REQUEST_TIMED_OUT, "still being deleted")
        outcome = dict.fromkeys(going, late)
    return results + [Deleted(name, topic_id, outcome[name]) for name, topic_id in going.items()]


async def _deleted(
    context: "OperationContext", names: Sequence[str], spend: Spend
) -> dict[str, ApiError | None]:
    """Delete topics by the controller, other protocols' topics by their keeper; return errors."""
    keepers = {name: context.broker.topic_keepers.of(name) for name in names}
    topics = [name for name, keeper in keepers.items() if keeper is None]
    outcome = dict(await context.controller.delete_topics(topics, spend=spend))
    for name, keeper in keepers.items():
        if keeper is not None:
            outcome[name] = await keeper.delete(name)
    return outcome


def _undeletable(context: "OperationContext", asked: Sequence[TopicRef]) -> frozenset[str]:
    """Return the names of topics that the caller may not delete, whether they exist or not."""
    if context.permits(AdminOperation.DELETE_ANY_TOPIC, told=False):
        return frozenset()
    by_id = context.broker.image.topics_by_id
    names = {name for name, _ in asked if name is not None}
    names.update(by_id[topic.bytes].name for _, topic in asked if topic.bytes in by_id)
    return context.refused(AdminOperation.DELETE_TOPIC, names)
