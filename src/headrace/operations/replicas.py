"""ElectLeaders, AlterPartitionReassignments (other brokers), AlterReplicaLogDirs (other disks)."""

import asyncio
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from headrace.cluster.decisions.events import ElectionType
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import BrokerId, TopicPartition
from headrace.operations.audit import shortened
from headrace.operations.permissions import PERMISSIONS, AdminOperation, authorization_failed

if TYPE_CHECKING:
    from headrace.operations.context import OperationContext

Outcome = Mapping[TopicPartition, ApiError | None]
"""The error of each partition, None if it was done."""


class Elected(NamedTuple):
    """The result of ElectLeaders: the request's error and each partition's."""

    error: ApiError | None
    """The error of the whole request, or None."""
    outcome: Outcome


async def elect_leaders(
    context: "OperationContext",
    election: int,
    partitions: Sequence[TopicPartition] | None,
    seconds: float | None = None,
) -> Elected:
    """Elect leaders of partitions; None: of all, without results of those that need no election.

    `election` is an `ElectionType`. After `seconds` the result is REQUEST_TIMED_OUT, and the
    election continues.
    """
    named = list(partitions or ())
    unclean = election == ElectionType.UNCLEAN
    word = "UNCLEAN" if unclean else "PREFERRED"
    forbidden = _refusal(context, AdminOperation.ELECT_LEADERS)
    if forbidden is not None:
        return Elected(forbidden, dict.fromkeys(named, forbidden))
    try:
        kind = ElectionType(election)
    except ValueError:
        invalid = ApiError(ErrorCode.INVALID_REQUEST)
        context.changed(invalid, {"election": word})
        return Elected(invalid, {})
    if partitions is None:
        named = [
            TopicPartition(name, index)
            for name, topic in context.broker.image.topics.items()
            for index in range(len(topic.partitions))
        ]
    outcome = await _elected(context, kind, named, seconds)
    if partitions is None:
        outcome = {
            partition: error
            for partition, error in outcome.items()
            if error is None or error.code is not ErrorCode.ELECTION_NOT_NEEDED
        }
    for topic, of_topic in groupby(outcome, key=lambda partition: partition.topic):
        by_code: dict[ErrorCode, list[str]] = {}
        for partition in of_topic:
            error = outcome[partition]
            code = ErrorCode.NONE if error is None else error.code
            by_code.setdefault(code, []).append(str(partition.partition))
        for code, numbers in by_code.items():
            shown = shortened(",".join(numbers))
            context.changed(code, {"topic": topic, "partitions": shown, "election": word})
    return Elected(None, outcome)


async def _elected(
    context: "OperationContext",
    kind: ElectionType,
    partitions: list[TopicPartition],
    seconds: float | None,
) -> Outcome:
    """Have the controller elect leaders; return each partition's error."""
    try:
        return await asyncio.wait_for(context.controller.replicas.elect(kind, partitions), seconds)
    except TimeoutError:
        late = ApiError(ErrorCode.REQUEST_TIMED_OUT, "still being elected")
        return dict.fromkeys(partitions, late)
    except ApiError as error:
        return dict.fromkeys(partitions, error)


class Reassigned(NamedTuple):
    """The result of AlterPartitionReassignments: the request's error and each partition's."""

    error: ApiError | None
    """The error of the whole request, or None."""
    forbidden: bool
    """Whether `error` is a refusal by the authorizer."""
    outcome: Outcome


async def reassign_partitions(
    context: "OperationContext",
    asked: Mapping[TopicPartition, tuple[BrokerId, ...] | None],
    *,
    factor_may_change: bool = True,
    seconds: float | None = None,
) -> Reassigned:
    """Begin to move partitions to other brokers; replicas None cancel a move in progress.

    After `seconds` the result is REQUEST_TIMED_OUT, and the moves are begun later.
    `factor_may_change` false: a different number of replicas is refused.
    """
    forbidden = _refusal(context, AdminOperation.REASSIGN_PARTITIONS)
    if forbidden is not None:
        return Reassigned(forbidden, True, dict.fromkeys(asked, forbidden))
    moving = context.controller.replicas.reassign(asked, factor_may_change=factor_may_change)
    try:
        outcome: Outcome = await asyncio.wait_for(moving, seconds)
    except TimeoutError:
        late = ApiError(ErrorCode.REQUEST_TIMED_OUT, "still being begun")
        outcome = dict.fromkeys(asked, late)
    except ApiError as error:
        context.changed(error, {})
        return Reassigned(error, False, {})
    for partition, replicas in asked.items():
        shown = "CANCELLED" if replicas is None else ",".join(map(str, replicas))
        detail = {"partition": str(partition), "replicas": shortened(shown)}
        context.changed(outcome[partition], detail)
    return Reassigned(None, False, outcome)


def move_replicas(
    context: "OperationContext", moves: Sequence[tuple[TopicPartition, str]]
) -> list[ApiError | None]:
    """Begin to move this broker's replicas to other log directories, given by path (KIP-113).

    Returns one error per move, None if the move has begun. For a replica that this broker does not
    have yet the directory is remembered, with the error REPLICA_NOT_AVAILABLE.
    """
    forbidden = _refusal(context, AdminOperation.MOVE_REPLICAS)
    outcomes = [forbidden or _moved(context, *move) for move in moves]
    for (partition, path), error in zip(moves, outcomes, strict=True):
        context.changed(error, {"partition": str(partition), "to": path})
    return outcomes


def _moved(context: "OperationContext", key: TopicPartition, path: str) -> ApiError | None:
    """Begin one replica's move; return the error or None."""
    try:
        context.broker.moves.ask(key, path)
    except ApiError as error:
        return error
    return None


def _refusal(context: "OperationContext", operation: AdminOperation) -> ApiError | None:
    """Return the authorization error, or None if the caller may do the operation."""
    if context.permits(operation):
        return None
    return authorization_failed(PERMISSIONS[operation].kind)
