"""Moves of queues carried out: planned, reassigned, led, and the progress of copies.

    shrink      plan, then reassign: fewer members confirm a publish from the start
    grow        reassign, wait until the member is in sync, then plan: more members confirm
    rebalance   reassign the same members in another order, then elect the preferred leader

Each step can be repeated: a move that was interrupted is completed by the same command.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

from headrace.client import move_progress
from headrace.client.admin import replicas
from headrace.client.admin.queue_moves import Queue, QueueMove
from headrace.client.client import Client
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import TopicPartition

LOOK_SECONDS = 0.5
"""Seconds between two looks at moves under way."""
TELL_SECONDS = 5.0
"""Seconds between two reports of their progress."""

Outcomes = dict[tuple[str, str], ApiError | None]
"""The error of each move, by vhost and queue; None: it is done."""
Ask = Callable[..., Awaitable[Any]]
"""Runs an operation of a broker by its name and its arguments. Raises ApiError."""
Progress = Callable[[str], None]
Used = Mapping[TopicPartition, QueueMove]
"""Moves of queues that have a topic, by its partition."""


async def queues(ask: Ask, vhost: str | None = None) -> list[Queue]:
    """Return the durable queues of all vhosts, or of one. Raises ApiError."""
    rows = await ask("queue.list", vhost=vhost)
    return [Queue.of(row) for row in rows if row["durable"]]


async def carry_out(
    client: Client, ask: Ask, moves: Iterable[QueueMove], tell: Progress
) -> Outcomes:
    """Move queues, and return when all moves are complete; `tell` is called with progress.

    Moves with a problem are not begun. ApiError: the controller refuses all.
    """
    outcomes: Outcomes = {}
    begun = []
    for move in moves:
        if move.problem:
            outcomes[_name(move)] = ApiError(ErrorCode.INVALID_REQUEST, move.problem)
            continue
        begun.append(move)
        outcomes[_name(move)] = None
        if move.queue.topic is None or len(move.members) < len(move.queue.members):
            outcomes[_name(move)] = await _planned(ask, move)
    used = {
        TopicPartition(move.queue.topic, 0): move
        for move in begun
        if move.queue.topic is not None and outcomes[_name(move)] is None
    }
    await _reassign(client, used, outcomes)
    await _complete(client, used, tell)
    await _lead(client, used, outcomes)
    for move in used.values():
        if outcomes[_name(move)] is None and not len(move.members) < len(move.queue.members):
            outcomes[_name(move)] = await _planned(ask, move)
    return outcomes


def _name(move: QueueMove) -> tuple[str, str]:
    return move.queue.vhost, move.queue.name


async def _planned(ask: Ask, move: QueueMove) -> ApiError | None:
    vhost, name = _name(move)
    try:
        await ask("queue.plan", vhost=vhost, name=name, members=list(move.members))
    except ApiError as error:
        return error
    return None


async def _reassign(client: Client, used: Used, outcomes: Outcomes) -> None:
    wanted: dict[TopicPartition, Sequence[int] | None] = {
        partition: move.members
        for partition, move in used.items()
        if move.members != move.queue.members
    }
    if wanted:
        for partition, error in (await replicas.reassign(client, wanted)).items():
            outcomes[_name(used[partition])] = error


async def _complete(client: Client, used: Used, tell: Progress) -> None:
    """Wait until none of the partitions is reassigned."""
    waited = 0.0
    while True:
        moving = [each for each in await replicas.reassignments(client) if each.partition in used]
        if not moving:
            return
        if waited >= TELL_SECONDS:
            waited = 0.0
            await _tell(client, moving[0], len(moving), used, tell)
        await client.transport.sleep(LOOK_SECONDS)
        waited += LOOK_SECONDS


async def _tell(
    client: Client,
    first: replicas.Reassigning,
    count: int,
    used: Used,
    tell: Progress,
) -> None:
    copies = (await move_progress.of_moves(client, [first]))[first.partition]
    percent = ", ".join(f"{copy.percent} %" for copy in copies if copy.percent is not None)
    more = f", and {count - 1} more" if count > 1 else ""
    tell(f"queue {used[first.partition].queue.name} is copied: {percent or 'not known'}{more}")


async def _lead(client: Client, used: Used, outcomes: Outcomes) -> None:
    """Have the first members lead, where that is the move."""
    wanted = [
        partition
        for partition, move in used.items()
        if move.leads and move.members[0] != move.queue.leader and outcomes[_name(move)] is None
    ]
    if not wanted:
        return
    for partition, error in (
        await replicas.elect_leaders(client, replicas.PREFERRED, wanted)
    ).items():
        if error is not None and error.code is not ErrorCode.ELECTION_NOT_NEEDED:
            outcomes[_name(used[partition])] = error
