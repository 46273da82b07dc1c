"""`ShareService`: share groups on one broker; frontends reach it as `coordinators.share`."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from headrace.coordination.groups.modern.heartbeat import HeartbeatAnswer
from headrace.coordination.groups.share import admin_offsets, describe_offsets, heartbeat
from headrace.coordination.groups.share.assignor import NAME as ASSIGNOR
from headrace.coordination.groups.share.context import ShareContext
from headrace.coordination.groups.share.group import ShareGroup
from headrace.coordination.groups.share.limits import ShareLimits
from headrace.coordination.groups.share.model import Assigned
from headrace.coordination.groups.share.settings import GroupSettings
from headrace.coordination.share.all_share_states import AllShareStates, OtherStates
from headrace.coordination.share.sessions import SessionKey, ShareSession, ShareSessions
from headrace.coordination.share.share_partitions import SharePartitions
from headrace.coordination.share.share_states import ShareStates
from headrace.model.errors import ApiError, ErrorCode
from headrace.ports.callbacks import Done, when_all
from headrace.shards.derived import Derived
from headrace.shards.shard import ShardState, World

if TYPE_CHECKING:
    from headrace.broker.broker import Broker
    from headrace.broker.partition import Partition
    from headrace.coordination.groups.context import ShardContext
    from headrace.coordination.groups.group_coordinators import GroupCoordinators

PROTOCOL = "share"


class DescribedShareGroup(NamedTuple):
    """A group as ShareGroupDescribe returns it; `group` None: it does not exist."""

    group_id: str
    error: ErrorCode
    message: str | None = None
    group: ShareGroup | None = None
    assignor: str = ASSIGNOR


class ShareService:
    """Share groups, their sessions and their stored state on one broker. On the deciding thread."""

    def __init__(
        self,
        broker: "Broker",
        world: World,
        groups: "Callable[[], GroupCoordinators]",
        others: "Callable[[], OtherStates] | None" = None,
        log_ends: "Callable[[], admin_offsets.LogEnds] | None" = None,
    ) -> None:
        """Create the service. `groups`: the coordinators that store members, called on first use.
        `others`, `log_ends`: state and log end offsets on other brokers; None: there are no
        others."""
        self._clock = broker.clock
        self._groups = groups
        self._limits = Derived(lambda: broker.config, ShareLimits)
        self.settings = GroupSettings(broker)
        self.sessions = ShareSessions()
        self.states = ShareStates(world, limits=self._limits, image=lambda: broker.image)
        self._cluster_states: AllShareStates | None = None
        if others is not None:
            self._cluster_states = AllShareStates(
                self.states, broker.broker_id, others, broker.clock
            )
        all_states = self._cluster_states or self.states
        self.partitions = SharePartitions(
            clock=broker.clock,
            disk=broker.disk,
            states=all_states,
            settings=self.settings,
            find=broker.partition_by_id,
        )
        self._members = ShareContext(all_states, lambda: self._limits().members_max)
        self._offsets = admin_offsets.OffsetsContext(
            all_states, self.partitions, lambda: broker.image, broker.partition_by_id, log_ends
        )
        self._deleted: set[bytes] = set()

    @property
    def limits(self) -> ShareLimits:
        """The limits of the present configuration."""
        return self._limits()

    # Notifications of the broker

    def partition_closed(self, partition: "Partition") -> None:
        """End a partition's share partitions; delete their state if the topic was deleted."""
        self.partitions.partition_closed(partition)
        if partition.refusal is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            if not self._deleted:
                self._clock.call_later(0, self._forget_deleted)
            self._deleted.add(partition.topic_id)

    def _forget_deleted(self) -> None:
        deleted, self._deleted = frozenset(self._deleted), set()
        self.states.forget_topics(deleted)
        for shard in self._groups().led:
            if shard.state is ShardState.ACTIVE:
                admin_offsets.forget_topics(shard.context, deleted)

    def close(self) -> None:
        """End all share partitions, and unload the stored state."""
        self.partitions.close()
        if self._cluster_states is not None:
            self._cluster_states.close()
        self.states.led.close()

    # Requests of members

    def heartbeat(
        self, request: heartbeat.Heartbeat, done: Done[HeartbeatAnswer[Assigned]]
    ) -> None:
        """Serve ShareGroupHeartbeat; `done` is called once the changes are committed."""
        try:
            heartbeat.validate(request)
            shard = self._shard(request.group_id)
            self._groups().check_not_elsewhere(request.group_id)
            self._groups().check_room(shard, request.group_id)
        except ApiError as error:
            done(HeartbeatAnswer(error.code, error.message))
            return
        heartbeat.heartbeat(shard, self._members, request, done)

    def end_session(self, session: ShareSession, done: Callable[[], None] | None = None) -> None:
        """End a session and release its member's records; `done` is called once that is durable."""
        self.sessions.close(session)
        self._release(session.key, done or (lambda: None))

    def _release(self, key: SessionKey, done: Callable[[], None]) -> None:
        held = self.partitions.of_group(key.group)
        released = when_all(len(held), done)
        for share_partition in held:
            share_partition.release_member(key.member, released)

    # Requests of administrators

    def is_share_group(self, group_id: str) -> bool:
        """Return whether this broker coordinates a share group with that id."""
        try:
            return self._shard(group_id).modern.find(ShareGroup, group_id) is not None
        except ApiError:
            return False

    def describe(self, group_id: str) -> DescribedShareGroup:
        """Serve ShareGroupDescribe for one group."""
        try:
            group = self._shard(group_id).modern.find(ShareGroup, group_id)
        except ApiError as error:
            return DescribedShareGroup(group_id, error.code, error.message)
        if group is None:
            return DescribedShareGroup(
                group_id, ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found."
            )
        return DescribedShareGroup(group_id, ErrorCode.NONE, None, group)

    def list_groups(
        self, states: Collection[str] = (), types: Collection[str] = ()
    ) -> list[ShareGroup]:
        """Return the share groups for ListGroups; states and types match in any case."""
        if types and PROTOCOL not in {name.lower() for name in types}:
            return []
        wanted = {state.lower() for state in states}
        return [
            group
            for shard in self._groups().led.active()
            for group in shard.context.modern.all_of(ShareGroup)
            if not wanted or group.state.lower() in wanted
        ]

    def delete_group(self, group_id: str, done: Done[ErrorCode]) -> None:
        """Serve DeleteGroups for a share group."""
        try:
            shard = self._shard(group_id)
        except ApiError as error:
            done(error.code)
            return
        admin_offsets.delete_group(shard, self._offsets, group_id, done)

    def describe_offsets(
        self,
        group_id: str,
        wanted: Sequence[tuple[str, Sequence[int]]] | None,
        done: Done[list[describe_offsets.TopicSeen] | ApiError],
    ) -> None:
        """Serve DescribeShareGroupOffsets for one group."""
        try:
            shard = self._shard(group_id)
        except ApiError as error:
            done(error)
            return
        describe_offsets.describe(shard, self._offsets, group_id, wanted, done)

    def alter_offsets(
        self,
        group_id: str,
        wanted: Sequence[tuple[str, Mapping[int, int]]],
        done: Done[admin_offsets.Outcomes],
    ) -> None:
        """Serve AlterShareGroupOffsets."""
        try:
            admin_offsets.alter(self._shard(group_id), self._offsets, group_id, wanted, done)
        except ApiError as error:
            done((error, []))

    def delete_offsets(
        self, group_id: str, names: Sequence[str], done: Done[admin_offsets.Outcomes]
    ) -> None:
        """Serve DeleteShareGroupOffsets."""
        try:
            admin_offsets.delete(self._shard(group_id), self._offsets, group_id, names, done)
        except ApiError as error:
            done((error, []))

    def _shard(self, group_id: str) -> "ShardContext":
        """Return the group's shard.

        INVALID_GROUP_ID, NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS.
        """
        if not group_id:
            raise ApiError(ErrorCode.INVALID_GROUP_ID)
        return self._groups().shard(group_id)
