"""Offsets, topics and groups as RocketMQ's own files have them: export, and import with a plan.

    consumerOffset.json      {"offsetTable":{"topic@group":{0:5,1:7}}, …}
    topics.json              {"topicConfigTable":{"topic":{…}}, …}
    subscriptionGroup.json   {"subscriptionGroupTable":{"group":{…}}, …}

An import is all or nothing: each entry is checked first. An offset is refused unless the queue has
it: beyond the queue's end the client would be moved to the end, and what came before it skipped.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from headrace.frontends.rocketmq.administration.group_state import offsets_json
from headrace.frontends.rocketmq.answers import RequestRefused
from headrace.model.errors import ApiError, ErrorCode, Malformed
from headrace.operations.arguments import Arguments
from headrace.posix.awaiting import called_back
from headrace.wire.rocketmq.fastjson import FastJson, Keyed, decode_body, encode_body
from headrace.wire.rocketmq.group_configs import GroupConfig, group_config_json
from headrace.wire.rocketmq.topic_configs import TopicConfig, topic_config_json
from headrace.wire.rocketmq.topic_names import GROUP_CHARACTERS_MAX, check_name

if TYPE_CHECKING:
    from headrace.frontends.rocketmq.serving import ServedBroker

OFFSETS_FILE = "consumerOffset.json"
TOPICS_FILE = "topics.json"
GROUPS_FILE = "subscriptionGroup.json"


class ExportedFiles(NamedTuple):
    """The files by name, as text."""

    files: Mapping[str, str]


@dataclass(frozen=True)
class ExportFiles(Arguments[ExportedFiles]):
    """Return the offsets, topics and groups as RocketMQ's files."""

    OPERATION = "rocketmq.files.export"
    MUTATES = False


class PlannedOffset(NamedTuple):
    """An offset of an import: what the group has now, and why it is refused."""

    group: str
    topic: str
    queue: int
    offset: int
    present: int
    """The group's offset now; -1: none."""
    refused: str
    """Why it is not imported; empty: it is."""


@dataclass(frozen=True)
class PlanImport(Arguments[list[PlannedOffset]]):
    """Check the entries of a consumerOffset.json without changing anything."""

    OPERATION = "rocketmq.offsets.plan"
    MUTATES = False
    offsets: str


@dataclass(frozen=True)
class ImportOffsets(Arguments[list[PlannedOffset]]):
    """Store the offsets of a consumerOffset.json, or none of them if one is refused."""

    OPERATION = "rocketmq.offsets.import"
    offsets: str
    skip_refused: bool = False
    """Whether the others are stored if some are refused."""


async def export_files(broker: "ServedBroker", asked: ExportFiles) -> ExportedFiles:
    """Answer ExportFiles. Raises ApiError."""
    topics: dict[str, FastJson] = {
        name: topic_config_json(name, _topic_config(broker, info.topic_id), len(info.partitions))
        for name, info in sorted(broker.topic_names().items())
    }
    groups: dict[str, FastJson] = {
        group: group_config_json(broker.configs.groups.get(group) or GroupConfig(group))
        for group in broker.known_groups()
    }
    version: FastJson = {"counter": 1, "stateVersion": 0, "timestamp": broker.started_ms}
    return ExportedFiles(
        {
            OFFSETS_FILE: _text(offsets_json(broker)),
            TOPICS_FILE: _text({"dataVersion": version, "topicConfigTable": topics}),
            GROUPS_FILE: _text(
                {"dataVersion": version, "forbiddenTable": {}, "subscriptionGroupTable": groups}
            ),
        }
    )


def _topic_config(broker: "ServedBroker", topic_id: bytes) -> TopicConfig:
    return broker.configs.topics.get(topic_id.hex()) or TopicConfig()


def _text(value: FastJson) -> str:
    return encode_body(value).decode()


async def plan_import(broker: "ServedBroker", asked: PlanImport) -> list[PlannedOffset]:
    """Answer PlanImport. Raises ApiError."""
    return [_planned(broker, *entry) for entry in _entries(asked.offsets)]


async def import_offsets(broker: "ServedBroker", asked: ImportOffsets) -> list[PlannedOffset]:
    """Answer ImportOffsets once all are on disk. Raises ApiError."""
    plan = [_planned(broker, *entry) for entry in _entries(asked.offsets)]
    refused = [entry for entry in plan if entry.refused]
    if refused and not asked.skip_refused:
        first = refused[0]
        text = (
            f"{len(refused)} of {len(plan)} offsets are refused, nothing is changed; the first:"
            f" group {first.group}, topic {first.topic}, queue {first.queue}: {first.refused}"
        )
        raise ApiError(ErrorCode.INVALID_REQUEST, text)
    for entry in plan:
        if entry.refused:
            continue
        name = broker.topic(entry.topic).info.name
        store = partial(broker.offsets.store, entry.group, name, entry.queue, entry.offset)
        code = await called_back(store)
        if code is not ErrorCode.NONE:
            text = (
                f"the offset of group {entry.group}, topic {entry.topic}, queue {entry.queue} is"
                " not stored, those before it are: repeat the import"
            )
            raise ApiError(code, text)
    return plan


def _entries(text: str) -> list[tuple[str, str, int, int]]:
    """Return group, topic, queue and offset of each entry of a file. Raises ApiError."""
    try:
        body = decode_body(text.encode())
    except Malformed as error:
        raise _bad(str(error)) from None
    table = body.get("offsetTable") if isinstance(body, dict) else None
    if not isinstance(table, dict):
        raise _bad("it has no offsetTable")
    entries = []
    for name, queues in sorted(table.items()):
        topic, separator, group = name.partition("@")
        if not separator or "@" in group:
            raise _bad(f"{name!r} is not of the form topic@group")
        pairs = queues.pairs if isinstance(queues, Keyed) else tuple(_items(queues, name))
        for queue, offset in pairs:
            if isinstance(queue, str) and queue.isascii() and queue.isdigit():
                queue = int(queue)
            if type(queue) is not int or type(offset) is not int:
                raise _bad(f"{name} has a queue or an offset that is no number")
            entries.append((group, topic, queue, offset))
    return entries


def _items(queues: FastJson, name: str) -> list[tuple[FastJson, FastJson]]:
    if not isinstance(queues, dict):
        raise _bad(f"{name} has no offsets by queue")
    return [(queue, offset) for queue, offset in queues.items()]


def _bad(why: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, f"not a {OFFSETS_FILE}: {why}")


def _planned(
    broker: "ServedBroker", group: str, topic: str, queue: int, offset: int
) -> PlannedOffset:
    planned = PlannedOffset(group, topic, queue, offset, -1, "")
    try:
        check_name(group, GROUP_CHARACTERS_MAX, "group")
        found = broker.topic_if_any(topic)
        broker.check_group_is_free(group)
    except (Malformed, RequestRefused) as error:
        return planned._replace(refused=str(error))
    if found is None:
        return planned._replace(refused="the topic does not exist")
    if not 0 <= queue < found.queues:
        return planned._replace(refused=f"the topic has {found.queues} queues")
    present = broker.offsets.read(group, found.info.name, queue)
    planned = planned._replace(present=-1 if present is None else present)
    partition = broker.partition(found, queue)
    start, end = partition.log_start_offset, partition.readable_end(True)
    if not start <= offset <= end:
        return planned._replace(refused=f"the queue has the offsets {start} to {end}")
    if broker.offsets.is_reset(group, found.info.name, queue):
        return planned._replace(refused="an operator's reset is pending")
    return planned
