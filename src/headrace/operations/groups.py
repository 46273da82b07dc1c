"""DeleteGroups for consumer groups and share groups, and OffsetDelete."""

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from headrace.model.errors import ErrorCode
from headrace.operations.audit import shortened
from headrace.operations.permissions import AdminOperation
from headrace.ports.callbacks import Done
from headrace.posix.awaiting import called_back

if TYPE_CHECKING:
    from headrace.operations.context import OperationContext

Place = tuple[str, int]
"""A partition: its topic and number."""


async def delete_groups(
    context: "OperationContext", group_ids: Sequence[str]
) -> dict[str, ErrorCode]:
    """Delete empty groups with their offsets; return each group's result once it is committed.

    NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND and GROUP_AUTHORIZATION_FAILED are results of single groups.
    """
    names = tuple(dict.fromkeys(group_ids))
    forbidden = context.refused(AdminOperation.DELETE_GROUP, names)
    allowed = [name for name in names if name not in forbidden]
    deleted = await asyncio.gather(*(_delete(context, name) for name in allowed))
    codes = dict.fromkeys(names, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    codes |= dict(zip(allowed, deleted, strict=True))
    for name, code in codes.items():
        context.changed(code, {"group": name})
    return codes


async def _delete(context: "OperationContext", group_id: str) -> ErrorCode:
    """Delete one group, of either kind; return the result."""
    coordinators = context.coordinators
    shared = coordinators.share.is_share_group(group_id)
    delete = coordinators.share.delete_group if shared else coordinators.groups.delete
    return await called_back(partial(delete, group_id))


class OffsetsDeleted(NamedTuple):
    """The result of OffsetDelete: the group's error and each partition's."""

    error: ErrorCode
    """The group's error: GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP, INVALID_GROUP_ID, or NONE."""
    codes: Mapping[Place, ErrorCode]
    """The result of each partition, if the group has no error."""


async def delete_offsets(
    context: "OperationContext", group_id: str, places: Mapping[str, Sequence[int]]
) -> OffsetsDeleted:
    """Delete a group's committed offsets of partitions, by topic (KIP-496).

    The group may not be subscribed to the topic: GROUP_SUBSCRIBED_TO_TOPIC for its partitions.
    UNKNOWN_TOPIC_OR_PARTITION and TOPIC_AUTHORIZATION_FAILED are results of partitions, too.
    """
    if not context.permits(AdminOperation.DELETE_GROUP, group_id):
        return OffsetsDeleted(ErrorCode.GROUP_AUTHORIZATION_FAILED, {})
    hidden = context.refused(AdminOperation.DELETE_OFFSETS_OF_TOPIC, places)
    topics = context.broker.image.topics
    codes: dict[Place, ErrorCode] = {}
    wanted: list[Place] = []
    for name, partitions in places.items():
        size = len(topics[name].partitions) if name in topics and name not in hidden else 0
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        for partition in partitions:
            codes[name, partition] = (
                ErrorCode.TOPIC_AUTHORIZATION_FAILED if name in hidden else unknown
            )
            if 0 <= partition < size:
                wanted.append((name, partition))
    error, found = await _deleted_offsets(context, group_id, wanted)
    codes |= dict(zip(wanted, found, strict=False))
    if error is not ErrorCode.NONE:
        context.changed(error, {"group": group_id})
        return OffsetsDeleted(error, codes)
    for name, partitions in places.items():
        by_code: dict[ErrorCode, list[str]] = {}
        for partition in partitions:
            by_code.setdefault(codes[name, partition], []).append(str(partition))
        for code, numbers in by_code.items():
            shown = shortened(",".join(numbers))
            context.changed(code, {"group": group_id, "topic": name, "partitions": shown})
    return OffsetsDeleted(error, codes)


async def _deleted_offsets(
    context: "OperationContext", group_id: str, wanted: Sequence[Place]
) -> tuple[ErrorCode, list[ErrorCode]]:
    """Delete offsets by the group's coordinator; return the group's error and each partition's."""

    def ask(done: Done[tuple[ErrorCode, list[ErrorCode]] | BaseException]) -> None:
        context.coordinators.groups.delete_offsets(
            group_id, wanted, lambda error, codes: done((error, codes))
        )

    return await called_back(ask)
