"""Imports of topics.json and subscriptionGroup.json: a plan first, then all of it or nothing.

An entry is one of these:

    create      the topic or the group's settings do not exist yet
    change      it exists with other settings, or with fewer queues
    keep        it exists as the file says
    leave out   RocketMQ's brokers make it for themselves
    refuse      it cannot be had; `why` says why
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from headrace.frontends.rocketmq.answers import RequestRefused
from headrace.frontends.rocketmq.held.held_topics import made_topic
from headrace.frontends.rocketmq.serving import ServedTopic
from headrace.model.errors import ApiError, ErrorCode, Malformed
from headrace.operations.arguments import Arguments
from headrace.wire.rocketmq.group_configs import GroupConfig
from headrace.wire.rocketmq.store.config_files import decode_groups, decode_topics, is_inherited
from headrace.wire.rocketmq.store.system_names import is_system_group, is_system_topic
from headrace.wire.rocketmq.topic_configs import TopicConfig, changed_topic_config
from headrace.wire.rocketmq.topic_names import GROUP_CHARACTERS_MAX, check_name, is_own, kafka_name

if TYPE_CHECKING:
    from headrace.frontends.rocketmq.serving import ServedBroker

CREATE, CHANGE, KEEP, LEAVE_OUT, REFUSE = "create", "change", "keep", "leave out", "refuse"


class PlannedTopic(NamedTuple):
    """A topic of an import."""

    topic: str
    read_queues: int
    write_queues: int
    permission: int
    """A sum of 4, read, and 2, write."""
    present: int
    """The topic's queues now; -1: it does not exist."""
    action: str
    why: str
    """Why it is refused or left out."""


@dataclass(frozen=True)
class PlanTopics(Arguments[list[PlannedTopic]]):
    """Check the topics of a topics.json without changing anything."""

    OPERATION = "rocketmq.topics.plan"
    MUTATES = False
    topics: str


@dataclass(frozen=True)
class ImportTopics(Arguments[list[PlannedTopic]]):
    """Create the topics of a topics.json with their settings, or none if one is refused."""

    OPERATION = "rocketmq.topics.import"
    topics: str
    skip_refused: bool = False
    """Whether the others are made if some are refused."""
    found: bool = False
    """Whether topics that exist get the settings of Kafka's kind that created ones get: their
    records were put into the log directory before the broker knew them."""


class PlannedGroup(NamedTuple):
    """A group of an import."""

    group: str
    consume_enabled: bool
    retries_max: int
    action: str
    why: str


@dataclass(frozen=True)
class PlanGroups(Arguments[list[PlannedGroup]]):
    """Check the groups of a subscriptionGroup.json without changing anything."""

    OPERATION = "rocketmq.groups.plan"
    MUTATES = False
    groups: str


@dataclass(frozen=True)
class ImportGroups(Arguments[list[PlannedGroup]]):
    """Store the settings of the groups of a subscriptionGroup.json, or none if one is refused."""

    OPERATION = "rocketmq.groups.import"
    groups: str
    skip_refused: bool = False
    """Whether the others are stored if some are refused."""


# Topics


async def plan_topics(broker: "ServedBroker", asked: PlanTopics) -> list[PlannedTopic]:
    """Answer PlanTopics. Raises ApiError."""
    return [_planned_topic(broker, *entry) for entry in _topics(asked.topics)]


async def import_topics(broker: "ServedBroker", asked: ImportTopics) -> list[PlannedTopic]:
    """Answer ImportTopics. Raises ApiError: those before it are made, repeat the import."""
    entries = _topics(asked.topics)
    plan = [_planned_topic(broker, *entry) for entry in entries]
    refused = [f"topic {row.topic}: {row.why}" for row in plan if row.action == REFUSE]
    _check_refused(refused, len(plan), skipped=asked.skip_refused)
    for row, (name, config) in zip(plan, entries, strict=True):
        if row.action not in (REFUSE, LEAVE_OUT):
            await _make(broker, name, config, found=asked.found)
    return plan


def _topics(text: str) -> Sequence[tuple[str, TopicConfig]]:
    try:
        return list(decode_topics(text).items())
    except Malformed as error:
        raise ApiError(ErrorCode.INVALID_REQUEST, str(error)) from None


def _planned_topic(broker: "ServedBroker", name: str, config: TopicConfig) -> PlannedTopic:
    permission = config.permission
    row = PlannedTopic(name, config.read_queues, config.write_queues, permission, -1, CREATE, "")
    if is_system_topic(name) or is_inherited(config):
        return row._replace(action=LEAVE_OUT, why="a topic of RocketMQ's brokers")
    try:
        found = broker.topic_if_any(name)
        if found is None and kafka_name(name) in broker.broker.image.topics:
            raise Malformed(f"{kafka_name(name)} is an internal topic")
    except (Malformed, RequestRefused) as error:
        return row._replace(action=REFUSE, why=str(error))
    if found is None:
        return row
    same = _wanted(broker, found, config) == (found.config or TopicConfig())
    grows = _queues(config) > found.queues
    return row._replace(present=found.queues, action=CHANGE if grows or not same else KEEP)


def _queues(config: TopicConfig) -> int:
    return max(config.read_queues, config.write_queues)


def _wanted(broker: "ServedBroker", found: ServedTopic, config: TopicConfig) -> TopicConfig:
    present = found.config or TopicConfig()
    partitions = max(found.queues, _queues(config))
    return changed_topic_config(present, config, partitions, broker.broker.clock.wall_ms())


async def _make(broker: "ServedBroker", name: str, config: TopicConfig, *, found: bool) -> None:
    """Make a topic as the file says. Raises ApiError."""
    controller, settings = broker.controller, broker.settings
    partitions = _queues(config)
    async with broker.making:
        present = broker.topic_if_any(name)
        if present is None:
            await made_topic(
                broker.broker, controller, kafka_name(name), settings.topic_config, partitions
            )
        elif present.queues < partitions:
            await controller.create_partitions(present.info.name, partitions)
    topic = broker.topic(name)
    if found and present is not None:
        await controller.settings.alter_topic(topic.info.name, dict(settings.topic_config))
    await broker.numbered(topic)
    wanted = _wanted(broker, topic, config)
    if present is None or found:  # the disk's cleaner may delete messages of such topics
        wanted = wanted._replace(made=not is_own(name))
    if wanted != (topic.config or TopicConfig()):
        await broker.configs.topics.put(topic.info.topic_id.hex(), wanted)


# Groups


async def plan_groups(broker: "ServedBroker", asked: PlanGroups) -> list[PlannedGroup]:
    """Answer PlanGroups. Raises ApiError."""
    return [_planned_group(broker, config) for config in _groups(asked.groups)]


async def import_groups(broker: "ServedBroker", asked: ImportGroups) -> list[PlannedGroup]:
    """Answer ImportGroups. Raises ApiError: those before it are stored, repeat the import."""
    configs = _groups(asked.groups)
    plan = [_planned_group(broker, config) for config in configs]
    refused = [f"group {row.group}: {row.why}" for row in plan if row.action == REFUSE]
    _check_refused(refused, len(plan), skipped=asked.skip_refused)
    for row, config in zip(plan, configs, strict=True):
        if row.action in (CREATE, CHANGE):
            await broker.configs.groups.put(config.name, config)
            if not config.consume_enabled:
                broker.parked.wake(config.name)
    return plan


def _groups(text: str) -> Sequence[GroupConfig]:
    try:
        return list(decode_groups(text).values())
    except Malformed as error:
        raise ApiError(ErrorCode.INVALID_REQUEST, str(error)) from None


def _planned_group(broker: "ServedBroker", config: GroupConfig) -> PlannedGroup:
    row = PlannedGroup(config.name, config.consume_enabled, config.retries_max, CREATE, "")
    if is_system_group(config.name):
        return row._replace(action=LEAVE_OUT, why="a group of RocketMQ's brokers and tools")
    try:
        check_name(config.name, GROUP_CHARACTERS_MAX, "group")
    except Malformed as error:
        return row._replace(action=REFUSE, why=str(error))
    present = broker.configs.groups.get(config.name)
    if present is None:
        return row
    return row._replace(action=KEEP if present == config else CHANGE)


def _check_refused(refused: Iterable[str], count: int, *, skipped: bool) -> None:
    """Raise ApiError if entries are refused that are not to be skipped."""
    texts = list(refused)
    if texts and not skipped:
        text = f"{len(texts)} of {count} are refused, nothing is changed; the first: {texts[0]}"
        raise ApiError(ErrorCode.INVALID_REQUEST, text)
