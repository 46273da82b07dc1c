"""DescribeGroups and ListGroups."""

from collections.abc import Collection, Iterator

from headrace.coordination.groups.classic.states import GroupState
from headrace.coordination.groups.classic.subscription import CONSUMER_PROTOCOL
from headrace.coordination.groups.consumer.group import ConsumerGroup
from headrace.coordination.groups.context import ShardContext
from headrace.coordination.groups.messages import DescribedGroup, DescribedMember, ListedGroup
from headrace.model.errors import ErrorCode


def describe(shard: ShardContext, group_id: str) -> DescribedGroup:
    """Describe a classic group; an unknown one is Dead with GROUP_ID_NOT_FOUND.

    Subscriptions and assignments are included only while the group is Stable: before that they
    belong to two generations.
    """
    group = shard.groups.get(group_id)
    if group is None:
        newer = shard.modern.find(ConsumerGroup, group_id) is not None
        return DescribedGroup(
            group_id,
            ErrorCode.GROUP_ID_NOT_FOUND,
            f"Group {group_id} is not a classic group."
            if newer
            else f"Group {group_id} not found.",
            GroupState.DEAD.value,
        )
    stable = group.state is GroupState.STABLE
    members = tuple(
        DescribedMember(
            member.member_id,
            member.instance_id,
            member.client_id,
            member.client_host,
            member.metadata(group.protocol_name) if stable else b"",
            member.assignment if stable else b"",
        )
        for member in group.members.values()
    )
    return DescribedGroup(
        group_id,
        ErrorCode.NONE,
        None,
        group.state.value,
        group.protocol_type or "",
        (group.protocol_name or "") if stable else "",
        members,
    )


def list_groups(
    shard: ShardContext, states: Collection[str], types: Collection[str]
) -> Iterator[ListedGroup]:
    """Yield the groups whose state and type are among those named (case-insensitive); empty:
    all."""
    wanted_states = {state.strip().lower() for state in states}
    wanted_types = {kind.strip().lower() for kind in types}
    if not wanted_types or "classic" in wanted_types:
        for group in shard.groups.values():
            if not wanted_states or group.state.value.lower() in wanted_states:
                yield ListedGroup(group.group_id, group.protocol_type or "", group.state.value)
    if not wanted_types or "consumer" in wanted_types:
        for consumers in shard.modern.all_of(ConsumerGroup):
            state = consumers.state.value
            if not wanted_states or state.lower() in wanted_states:
                yield ListedGroup(consumers.group_id, CONSUMER_PROTOCOL, state, "consumer")
