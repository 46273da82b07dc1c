"""Leaders elected, partitions moved to other brokers, replicas moved to other log directories."""

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
"""The error of each partition, None where it is done."""


class Elected(NamedTuple):
    """The result of an election."""

    error: ApiError | None
    """Of the whole."""
    outcome: Outcome


async def elect_leaders(
    context: "OperationContext",
    election: int,
    partitions: Sequence[TopicPartition] | None,
    seconds: float | None = None,
) -> Elected:
    """Elect leaders: an `ElectionType`; partitions None: of all, those that need another leader.

    REQUEST_TIMED_OUT after `seconds`: the election goes on.
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
    try:
        return await asyncio.wait_for(context.controller.replicas.elect(kind, partitions), seconds)
    except TimeoutError:
        late = ApiError(ErrorCode.REQUEST_TIMED_OUT, "still being elected")
        return dict.fromkeys(partitions, late)
    except ApiError as error:
        return dict.fromkeys(partitions, error)


class Reassigned(NamedTuple):
    """The result of a reassignment."""

    error: ApiError | None
    """Of the whole."""
    forbidden: bool
    outcome: Outcome


async def reassign_partitions(
    context: "OperationContext",
    asked: Mapping[TopicPartition, tuple[BrokerId, ...] | None],
    *,
    factor_may_change: bool = True,
    seconds: float | None = None,
) -> Reassigned:
    """Begin to move partitions to other brokers; None calls a move off.

    REQUEST_TIMED_OUT after `seconds`: the moves are begun later.
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
    """Begin to move replicas of this broker to log directories, by path (KIP-113).

    Returns the error of each, None where its move has begun. A replica that comes later is made
    there: REPLICA_NOT_AVAILABLE until then.
    """
    forbidden = _refusal(context, AdminOperation.MOVE_REPLICAS)
    outcomes = [forbidden or _moved(context, *move) for move in moves]
    for (partition, path), error in zip(moves, outcomes, strict=True):
        context.changed(error, {"partition": str(partition), "to": path})
    return outcomes


def _moved(context: "OperationContext", key: TopicPartition, path: str) -> ApiError | None:
    try:
        context.broker.moves.ask(key, path)
    except ApiError as error:
        return error
    return None


def _refusal(context: "OperationContext", operation: AdminOperation) -> ApiError | None:
    if context.permits(operation):
        return None
    return authorization_failed(PERMISSIONS[operation].kind)
