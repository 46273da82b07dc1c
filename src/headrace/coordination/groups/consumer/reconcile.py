"""Reconciliation of a member, step by step, towards its target (Kafka's CurrentAssignmentBuilder).

A member first revokes partitions that are not in its target, and confirms that by the partitions it
reports to own. Only then it moves to the target epoch with all target partitions that are free. It
gets the others when their owners have revoked them. So a partition never has two readers.

    state                  meaning                                      leaves it by
    STABLE                 has exactly the target of its epoch          a new target
    UNREVOKED_PARTITIONS   must revoke partitions, stays in its epoch   reporting that it has
    UNRELEASED_PARTITIONS  is in the target epoch, lacks partitions     a heartbeat after their
                           that other members have not revoked yet      owners revoked them

The next state is UNREVOKED_PARTITIONS if partitions must be revoked, else UNRELEASED_PARTITIONS if
target partitions still have other owners, else STABLE.
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
    """The target of a reconciliation step, and the partitions that the member reports to own."""

    epoch: int
    target: Partitions
    topics: frozenset[bytes]
    """Ids of the topics in the member's subscription; other topics are revoked in any case."""
    owned: Partitions | None
    """The partitions that the member reports to own; None if it reports none."""
    subscription_changed: bool = False


def next_standing(group: ConsumerGroup, member: Member, towards: Towards) -> Standing:
    """Return the member's state after one step; the current one if no step is possible.

    ApiError FENCED_MEMBER_EPOCH for a state that this version does not know.
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
            # A later version wrote this state: continue only if the member owns nothing.
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
        # Partitions that the member itself is revoking are free for it.
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
    """Revoke the partitions of topics that the member no longer subscribes to."""
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
    """Return whether the member still owns a pending partition; if it reports nothing, it does."""
    if owned is None:
        return True
    return any(
        partition in parts
        for topic, parts in pending.items()
        for partition in owned.get(topic, frozenset())
    )
