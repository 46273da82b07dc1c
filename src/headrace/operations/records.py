"""DeleteRecords: move the log start offset of partitions forward.

A result is returned once the new log start offset is on disk, so that deleted records do not
reappear after a restart, and once every replica on a living broker starts at that offset, so that
they do not reappear with another leader.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from headrace.broker.partition import TO_HIGH_WATERMARK
from headrace.model.errors import ApiError, ErrorCode
from headrace.operations.audit import shortened
from headrace.operations.permissions import AdminOperation, authorization_failed
from headrace.posix.awaiting import called_back
from headrace.security.authorizer import ResourceType

if TYPE_CHECKING:
    from headrace.broker.partition import Partition
    from headrace.broker.topic_keepers import TopicKeeper
    from headrace.operations.context import OperationContext

Key = tuple[str, int]
"""Topic name and partition number."""
NO_OFFSET = -1
"""The low watermark of a failed deletion."""
CHECKPOINT_SECONDS_MAX = 30.0
"""Longest wait for the whole request, also where the client allows more."""


class Trimmed(NamedTuple):
    """The result of DeleteRecords for one partition."""

    low_watermark: int
    """The lowest log start offset of the partition's living replicas; -1 if `error` is not NONE."""
    error: ErrorCode = ErrorCode.NONE


_LATE = Trimmed(NO_OFFSET, ErrorCode.REQUEST_TIMED_OUT)
"""Result of a partition whose deletion has not finished in time: it may still happen."""


async def delete_records(
    context: "OperationContext",
    before: Sequence[tuple[Key, int]],
    seconds: float | None = None,
) -> dict[Key, Trimmed]:
    """Delete each partition's records below an offset (-1: the high watermark); return all results.

    Waits `seconds` at most, and never longer than `CHECKPOINT_SECONDS_MAX`; REQUEST_TIMED_OUT after
    that. A compacted topic without "delete" in its cleanup.policy and an internal topic are
    refused. A topic of another protocol is purged by that protocol (`TopicKeeper.purge`). Errors
    are in the results: the function raises none.
    """
    outcome: dict[Key, Trimmed] = {}
    cut: dict[Key, Partition] = {}
    seconds = min(seconds or CHECKPOINT_SECONDS_MAX, CHECKPOINT_SECONDS_MAX)
    until = context.broker.clock.monotonic() + seconds
    forbidden = _forbidden(context, {topic for (topic, _), _ in before})
    for key, offset in before:
        try:
            if key[0] in forbidden:
                raise authorization_failed(ResourceType.TOPIC)
            if (keeper := context.broker.topic_keepers.of(key[0])) is not None:
                outcome[key] = await _purged(context, keeper, key, offset, until)
                continue
            partition = context.broker.partition(*key)
            await _flushed(context, partition, offset, until)
            outcome[key] = Trimmed(partition.delete_records(offset))
            cut[key] = partition
        except ApiError as error:
            outcome[key] = Trimmed(NO_OFFSET, error.code)
        except TimeoutError:
            outcome[key] = _LATE
    if cut:
        try:
            await asyncio.wait_for(called_back(context.broker.checkpoint), seconds)
        except TimeoutError:
            outcome |= dict.fromkeys(cut, _LATE)
        else:
            outcome |= await _cut_everywhere(context, cut, outcome, until)
    _audit(context, outcome)
    return outcome


def _audit(context: "OperationContext", outcome: Mapping[Key, Trimmed]) -> None:
    """Write one audit line per topic and error code, with the new start of each partition."""
    lines: dict[tuple[str, ErrorCode], list[str]] = {}
    for (topic, number), (low_watermark, error) in outcome.items():
        lines.setdefault((topic, error), []).append(f"{number}:{low_watermark}")
    for (topic, error), starts in lines.items():
        context.changed(error, {"topic": topic, "below": shortened(",".join(starts))})


async def _flushed(
    context: "OperationContext", partition: "Partition", before: int, until: float
) -> None:
    """Wait for the flush of records appended with acks=1, if `before` exceeds the high watermark.

    Raises ApiError, and TimeoutError at `until` (seconds of the monotonic clock).
    """
    if TO_HIGH_WATERMARK < before <= partition.high_watermark:
        return
    await asyncio.wait_for(
        called_back(partition.role.when_flushed), until - context.broker.clock.monotonic()
    )


def _forbidden(context: "OperationContext", names: set[str]) -> frozenset[str]:
    """Return the topics whose records the caller may not delete.

    A topic of another protocol may also be purged with that protocol's own permission.
    """
    keepers = {name: context.broker.topic_keepers.of(name) for name in names}
    purged = {
        name
        for name, keeper in keepers.items()
        if keeper is not None and keeper.may_purge(context.caller.identity, name)
    }
    return context.refused(AdminOperation.DELETE_TOPIC, names - purged)


async def _purged(
    context: "OperationContext", keeper: "TopicKeeper", key: Key, before: int, until: float
) -> Trimmed:
    """Purge another protocol's topic below `before`; REQUEST_TIMED_OUT at `until`."""
    try:
        start = await asyncio.wait_for(
            keeper.purge(*key, before), until - context.broker.clock.monotonic()
        )
    except TimeoutError:
        return _LATE
    return Trimmed(start)


async def _cut_everywhere(
    context: "OperationContext",
    cut: dict[Key, "Partition"],
    outcome: dict[Key, Trimmed],
    until: float,
) -> dict[Key, Trimmed]:
    """Wait until the followers of `cut` have deleted too.

    Return the results of those that have any.
    """
    followed = [key for key, partition in cut.items() if partition.role.term is not None]
    waits = [_cut_at(context, cut[key], outcome[key][0], until) for key in followed]
    return dict(zip(followed, await asyncio.gather(*waits), strict=True))


async def _cut_at(
    context: "OperationContext", partition: "Partition", start: int, until: float
) -> Trimmed:
    """Wait until all living replicas start at `start` or above; return the partition's result.

    REQUEST_TIMED_OUT at `until`; NOT_LEADER_OR_FOLLOWER if this broker stops leading before that.
    """
    broker = context.broker
    changed = asyncio.Event()

    def picture_changed(delta: object, structural: bool) -> None:
        changed.set()

    partition.watch(changed.set)
    broker.image.observers.append(picture_changed)
    try:
        while (term := partition.role.term) is not None:
            lowest = term.lowest_start(broker.image.brokers)
            if lowest >= start:
                return Trimmed(lowest)
            changed.clear()
            await asyncio.wait_for(changed.wait(), until - broker.clock.monotonic())
        return Trimmed(NO_OFFSET, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    except TimeoutError:
        return _LATE
    finally:
        partition.unwatch(changed.set)
        broker.image.observers.remove(picture_changed)
