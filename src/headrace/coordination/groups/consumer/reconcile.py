"""One step of a member towards its target (Kafka's CurrentAssignmentBuilder).

A member first gives up what it is not to have, and says so by what it reports to own; only then it
goes to the target's epoch, with what is free of what it is to have. The rest it gets when whoever
has it gives it up. So a partition never has two readers.
"""

from dataclasses import dataclass, replace

from headrace.coordination.groups.assignors.spec import Partitions
from headrace.coordination.groups.consumer.group import NOT_OWNED, ConsumerGroup
from headrace.coordination.groups.consumer.model import (
    Member,
    MemberState,
    OwnedPartitions,
    Standing,
)
from headrace.model.errors import ApiError, ErrorCode

_M = MemberState


@dataclass(frozen=True, slots=True)
class Towards:
    """Where a member is to go, and what it says it has."""

    epoch: int
    target: Partitions
    topics: frozenset[bytes]
    """What it subscribes to: anything else is taken from it, whatever the target says."""
    owned: Partitions | None
    """What it reports; None where it says nothing."""
    subscription_changed: bool = False


def next_standing(group: ConsumerGroup, member: Member, towards: Towards) -> Standing:
    """Return the member's standing after this step; the present one where it cannot take any.

    ApiError FENCED_MEMBER_EPOCH for a member in a state nobody here knows.
    """
    standing = member.standing
    match standing.state:
        case _M.STABLE:
            if standing.epoch != towards.epoch:
                return _advance(group, standing, towards, standing.epoch)
            if towards.subscription_changed:
                return _shrink(standing, towards)
            return standing
        case _M.UNREVOKED_PARTITIONS:
            if _owns_any(standing.pending, towards.owned):
                return _shrink(standing, towards) if towards.subscription_changed else standing
            return _advance(group, standing, towards, standing.epoch)
        case _M.UNRELEASED_PARTITIONS:
            return _advance(group, standing, towards, standing.epoch)
        case _M.UNKNOWN:
            # Written by a later version: only from nothing can it be brought on.
            if towards.owned is None or towards.owned:
                raise ApiError(
                    ErrorCode.FENCED_MEMBER_EPOCH,
                    "The consumer group member is in a unknown state. "
                    "The member must abandon all its partitions and rejoin.",
                )
            return _advance(group, standing, towards, towards.epoch)


def _advance(group: ConsumerGroup, standing: Standing, towards: Towards, epoch: int) -> Standing:
    stays: dict[bytes, dict[int, int]] = {}
    leaves: dict[bytes, dict[int, int]] = {}
    comes: dict[bytes, list[int]] = {}
    waits = False
    for topic in {**towards.target, **standing.assigned}:
        wanted = towards.target.get(topic, frozenset()) if topic in towards.topics else frozenset()
        has = standing.assigned.get(topic, {})
        keep = {partition: since for partition, since in has.items() if partition in wanted}
        drop = {partition: since for partition, since in has.items() if partition not in wanted}
        lacks = sorted(wanted - has.keys())
        # What it is about to give up itself is as good as free for it.
        own_pending = standing.pending.get(topic, {})
        free = [
            partition
            for partition in lacks
            if partition in own_pending or group.owner_epoch(topic, partition) == NOT_OWNED
        ]
        waits = waits or len(free) < len(lacks)
        for found, where in ((keep, stays), (drop, leaves)):
            if found:
                where[topic] = found
        if free:
            comes[topic] = free
    if leaves and _owns_any(leaves, towards.owned):
        return Standing(epoch, standing.epoch, _M.UNREVOKED_PARTITIONS, stays, leaves)
    for topic, parts in comes.items():
        stays[topic] = {**stays.get(topic, {}), **dict.fromkeys(parts, towards.epoch)}
    state = _M.UNRELEASED_PARTITIONS if waits else _M.STABLE
    return Standing(towards.epoch, standing.epoch, state, stays)


def _shrink(standing: Standing, towards: Towards) -> Standing:
    """Take from the member what it subscribes to no longer; the rest stays."""
    gone = {t: parts for t, parts in standing.assigned.items() if t not in towards.topics}
    if not gone:
        return standing
    assigned = {t: parts for t, parts in standing.assigned.items() if t in towards.topics}
    pending = dict(standing.pending)
    for topic, parts in gone.items():
        pending[topic] = {**pending.get(topic, {}), **parts}
    if _owns_any(pending, towards.owned):
        epoch = standing.epoch
        return Standing(epoch, epoch, _M.UNREVOKED_PARTITIONS, assigned, pending)
    return replace(standing, previous_epoch=standing.epoch, assigned=assigned)


def _owns_any(pending: OwnedPartitions, owned: Partitions | None) -> bool:
    """Tell whether the member still has something it is to give up; silence says it has."""
    if owned is None:
        return True
    return any(
        partition in parts
        for topic, parts in pending.items()
        for partition in owned.get(topic, frozenset())
    )
