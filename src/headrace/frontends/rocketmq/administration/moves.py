"""Offsets, topics and groups as RocketMQ's own files have them: export, and import with a plan.

An import of offsets is all or nothing: each entry is checked first. An offset is refused unless the
queue has it: beyond the queue's end the client would be moved to the end, and what came before it
skipped. By a time, it becomes the first offset that the queue has stored since then.
`wire.rocketmq.store.config_files` has the form of the files.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from headrace.frontends.rocketmq.administration.group_state import offsets_json
from headrace.frontends.rocketmq.administration.resets import offset_at
from headrace.frontends.rocketmq.answers import RequestRefused
from headrace.model.errors import ApiError, ErrorCode, Malformed
from headrace.operations.arguments import Arguments
from headrace.posix.awaiting import called_back
from headrace.wire.rocketmq.fastjson import FastJson, encode_body
from headrace.wire.rocketmq.group_configs import GroupConfig, group_config_json
from headrace.wire.rocketmq.store.config_files import (
    GROUPS_FILE,
    OFFSETS_FILE,
    TOPICS_FILE,
    StoredOffset,
    decode_offsets,
)
from headrace.wire.rocketmq.topic_configs import TopicConfig, topic_config_json
from headrace.wire.rocketmq.topic_names import GROUP_CHARACTERS_MAX, check_name

if TYPE_CHECKING:
    from headrace.frontends.rocketmq.serving import ServedBroker


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
    given: int
    """The offset in the file, which differs if it was replaced by that of a time."""
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
    at_ms: int | None = None
    """As of `ImportOffsets`."""


@dataclass(frozen=True)
class ImportOffsets(Arguments[list[PlannedOffset]]):
    """Store the offsets of a consumerOffset.json, or none of them if one is refused."""

    OPERATION = "rocketmq.offsets.import"
    offsets: str
    skip_refused: bool = False
    """Whether the others are stored if some are refused."""
    at_ms: int | None = None
    """A time, ms since 1970: an offset that its queue does not have becomes the first one that was
    stored since then. None: it is refused."""


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
    return await _plan(broker, asked.offsets, asked.at_ms)


async def _plan(broker: "ServedBroker", text: str, at_ms: int | None) -> list[PlannedOffset]:
    """Return what becomes of each entry of a file. Raises ApiError."""
    try:
        entries = decode_offsets(text)
    except Malformed as error:
        raise ApiError(ErrorCode.INVALID_REQUEST, str(error)) from None
    return [await _planned(broker, entry, at_ms) for entry in entries]


async def import_offsets(broker: "ServedBroker", asked: ImportOffsets) -> list[PlannedOffset]:
    """Answer ImportOffsets once all are on disk. Raises ApiError."""
    plan = await _plan(broker, asked.offsets, asked.at_ms)
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


async def _planned(broker: "ServedBroker", entry: StoredOffset, at_ms: int | None) -> PlannedOffset:
    group, topic, queue, offset = entry
    planned = PlannedOffset(group, topic, queue, offset, offset, -1, "")
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
    if broker.offsets.is_reset(group, found.info.name, queue):
        return planned._replace(refused="an operator's reset is pending")
    partition = broker.partition(found, queue)
    start, end = partition.log_start_offset, partition.readable_end(True)
    if start <= offset <= end:
        return planned
    if at_ms is None:
        return planned._replace(refused=f"the queue has the offsets {start} to {end}")
    return planned._replace(offset=await offset_at(broker, found, queue, max(at_ms, 0)))
