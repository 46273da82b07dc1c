"""The facade of the group coordinator: finds a group's shard and serves all group requests."""

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

from headrace.broker.metadata_image import MetadataImage
from headrace.config.keys.groups import GroupKeys
from headrace.config.value_types import Value
from headrace.coordination.groups import commit, describe
from headrace.coordination.groups.classic import join, membership, sync
from headrace.coordination.groups.committed_offsets import ByTopic, Committed
from headrace.coordination.groups.consumer import classic_members, migration
from headrace.coordination.groups.consumer import describe as consumer_describe
from headrace.coordination.groups.consumer import heartbeat as consumer_heartbeat
from headrace.coordination.groups.consumer import offset_access as consumer_offsets
from headrace.coordination.groups.consumer.group import ConsumerGroup
from headrace.coordination.groups.consumer.messages import (
    DescribedConsumerGroup,
    HeartbeatRequest,
)
from headrace.coordination.groups.consumer.model import OwnedPartitions
from headrace.coordination.groups.context import ShardContext
from headrace.coordination.groups.group_shard import GroupShard
from headrace.coordination.groups.limits import GroupLimits
from headrace.coordination.groups.messages import (
    CommitRequest,
    DescribedGroup,
    JoinAnswer,
    JoinRequest,
    Leaver,
    Left,
    ListedGroup,
    SyncAnswer,
    SyncRequest,
)
from headrace.coordination.groups.modern.heartbeat import HeartbeatAnswer
from headrace.coordination.groups.repeated_commits import RepeatedCommit
from headrace.coordination.groups.share.group import ShareGroup
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import OFFSETS_TOPIC
from headrace.ports.callbacks import Done
from headrace.shards.derived import Derived
from headrace.shards.led_shards import LedShards
from headrace.shards.shard import ShardPartition, World

if TYPE_CHECKING:
    from headrace.broker.broker import Broker


class GroupCoordinators:
    """All groups that this broker coordinates. All calls happen on the deciding thread.

    The broker reports partitions that it starts or stops leading; frontends send requests. Requests
    that may wait have a callback, which is called exactly once.
    """

    def __init__(
        self,
        *,
        world: World,
        config: Callable[[], GroupKeys],
        image: Callable[[], MetadataImage],
        group_setting: Callable[[str, str], int],
    ) -> None:
        """Create coordinators without any shard.

        `config`, `image` and `group_setting` return current values, which may change at run time.
        `group_setting`: an integer by group id and key, the group's own or the broker's.
        """
        self._world = world
        self._limits = Derived(config, GroupLimits, self._hand_out)
        self._image = image
        self._group_setting = group_setting
        self.led = LedShards(
            OFFSETS_TOPIC,
            self._new_shard,
            image=image,
            partitions=lambda: self._limits().partitions,
        )
        """The led partitions of `__consumer_offsets`, reported by the broker."""
        self._deleted: dict[str, None] = {}
        self.elsewhere: Callable[[str], str | None] = lambda group_id: None
        """Returns the protocol of a group's members if it is not Kafka's; its frontend sets it."""

    @classmethod
    def of(cls, broker: "Broker", world: World) -> "GroupCoordinators":
        """Return the coordinators of `broker`; the caller reports its partitions to them."""
        return cls(
            world=world,
            config=lambda: broker.config,
            image=lambda: broker.image,
            group_setting=lambda group_id, key: _number(
                broker.group_configs.value(group_id, key, broker.config)
            ),
        )

    @property
    def limits(self) -> GroupLimits:
        """The limits of the current configuration."""
        return self._limits()

    def _hand_out(self, limits: GroupLimits) -> None:
        for shard in self.led:
            shard.context.limits = limits

    def _new_shard(self, index: int, partition: ShardPartition, epoch: int) -> GroupShard:
        limits = self.limits
        return GroupShard(
            index,
            partition,
            epoch=epoch,
            world=self._world,
            limits=limits,
            image=self._image,
            group_setting=self._group_setting,
        )

    # What the broker tells

    def topic_deleted(self, topic: str) -> None:
        """Delete the committed offsets of a deleted topic, together with other topics of this loop
        turn."""
        if not self._deleted:
            self._world.clock.call_later(0, self._forget_deleted)
        self._deleted[topic] = None

    def _forget_deleted(self) -> None:
        deleted, self._deleted = frozenset(self._deleted), {}
        for shard in self.led:
            shard.topics_deleted(deleted)

    def end_transaction(self, index: int, producer_id: int, *, committed: bool) -> None:
        """Apply a committed transaction marker of partition `index`: its offsets become visible or
        are dropped."""
        shard = self.led.at(index)
        if shard is not None:
            shard.end_transaction(producer_id, committed=committed)

    def close(self) -> None:
        """Stop serving; waiting requests are answered with NOT_COORDINATOR."""
        self.led.close()

    # Where a group lives

    def partition_for(self, group_id: str) -> int:
        """Return the partition of `__consumer_offsets` that coordinates `group_id`."""
        return self.led.partition_for(group_id)

    def shard(self, group_id: str) -> ShardContext:
        """Return the shard of `group_id`.

        ApiError NOT_COORDINATOR or COORDINATOR_LOAD_IN_PROGRESS.
        """
        self._limits()
        return self.led.of(group_id).context

    def when_loaded(self, callback: Callable[[], None]) -> None:
        """Call `callback` once no led shard is loading."""
        self.led.when_loaded(callback)

    # What members ask

    def join(self, request: JoinRequest, done: Done[JoinAnswer]) -> None:
        """Answer JoinGroup; INVALID_GROUP_ID for an empty group id, as in all requests of
        members."""
        try:
            shard = self._member_shard(request.group_id)
            _check_not_shared(shard, request.group_id, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
            self.check_not_elsewhere(request.group_id)
            self.check_room(shard, request.group_id)
        except ApiError as error:
            done(JoinAnswer(error.code, request.member_id))
            return
        group = shard.modern.find(ConsumerGroup, request.group_id)
        if group is None:
            join.join(shard, request, done)
        elif group.members:
            classic_members.join(shard, group, request, done)
        else:

            def replaced(error: ErrorCode | None) -> None:
                if error is None:
                    # Another consumer may have upgraded the group since.
                    self.join(request, done)
                else:
                    done(JoinAnswer(error, request.member_id))

            migration.replace_empty(shard, group, replaced)

    def sync(self, request: SyncRequest, done: Done[SyncAnswer]) -> None:
        """Answer SyncGroup."""
        try:
            shard = self._member_shard(request.group_id)
        except ApiError as error:
            # Once loaded, the coordinator finds the group Stable with its members.
            loading = error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            done(SyncAnswer(ErrorCode.REBALANCE_IN_PROGRESS if loading else error.code))
            return
        group = shard.modern.find(ConsumerGroup, request.group_id)
        if group is None:
            sync.sync(shard, request, done)
        else:
            classic_members.sync(shard, group, request, done)

    def heartbeat(
        self, group_id: str, member_id: str, instance_id: str | None, generation: int
    ) -> ErrorCode:
        """Answer Heartbeat; NONE while the group's shard is loading, as its members count as
        alive."""
        try:
            shard = self._member_shard(group_id)
        except ApiError as error:
            loading = error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            return ErrorCode.NONE if loading else error.code
        group = shard.modern.find(ConsumerGroup, group_id)
        if group is None:
            return membership.heartbeat(shard, group_id, member_id, instance_id, generation)
        return classic_members.heartbeat(shard, group, member_id, instance_id, generation)

    def consumer_heartbeat(
        self, request: HeartbeatRequest, done: Done[HeartbeatAnswer[OwnedPartitions]]
    ) -> None:
        """Answer ConsumerGroupHeartbeat (KIP-848)."""
        try:
            shard = self._member_shard(request.group_id)
            _check_not_shared(shard, request.group_id, ErrorCode.GROUP_ID_NOT_FOUND)
            self.check_not_elsewhere(request.group_id)
            self.check_room(shard, request.group_id)
        except ApiError as error:
            done(HeartbeatAnswer(error.code, error.message))
            return
        consumer_heartbeat.heartbeat(shard, request, done)

    def leave(self, group_id: str, leavers: Sequence[Leaver]) -> list[Left]:
        """Answer LeaveGroup with one result for each member; ApiError if the group is not served
        here."""
        shard = self._member_shard(group_id)
        group = shard.modern.find(ConsumerGroup, group_id)
        if group is None:
            return membership.leave(shard, group_id, leavers)
        return classic_members.leave(shard, group, leavers)

    def commit(self, request: CommitRequest, done: Done[ErrorCode]) -> None:
        """Answer OffsetCommit with one code for all its offsets."""
        shard = self._committing(request.group_id, done)
        if shard is not None:
            commit.commit(shard, request, done)

    def commit_repeated(
        self,
        repeated: RepeatedCommit,
        offsets: Sequence[int],
        leader_epochs: Sequence[int],
        done: Done[ErrorCode],
    ) -> None:
        """Answer several OffsetCommits that differ only in offsets and leader epochs, with one
        code.

        `offsets` and `leader_epochs` hold one value for each place of a request, request by
        request.
        """
        shard = self._committing(repeated.request.group_id, done)
        if shard is not None:
            commit.commit_repeated(shard, repeated, offsets, leader_epochs, done)

    def _committing(self, group_id: str, done: Done[ErrorCode]) -> ShardContext | None:
        """Return the shard of a group that may commit offsets; else call `done` with the error."""
        try:
            shard = self.shard(group_id)
            _check_not_shared(shard, group_id, ErrorCode.GROUP_ID_NOT_FOUND)
            self.check_not_elsewhere(group_id)
            self.check_room(shard, group_id)
        except ApiError as error:
            done(error.code)
            return None
        return shard

    def commit_in_transaction(
        self, request: CommitRequest, producer_id: int, epoch: int, done: Done[ErrorCode]
    ) -> None:
        """Answer TxnOffsetCommit with one code for all its offsets, pending until the transaction
        ends."""
        try:
            shard = self._member_shard(request.group_id)
            _check_not_shared(shard, request.group_id, ErrorCode.GROUP_ID_NOT_FOUND)
            self.check_not_elsewhere(request.group_id)
            self.check_room(shard, request.group_id)
        except ApiError as error:
            done(error.code)
            return
        commit.commit_in_transaction(shard, request, producer_id, epoch, done)

    def check_not_elsewhere(self, group_id: str) -> None:
        """Raise ApiError while clients of another protocol are members of a group."""
        if protocol := self.elsewhere(group_id):
            text = f"Group {group_id} has members that are clients of {protocol}."
            raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, text)

    # What anybody asks

    def offset(self, group_id: str, topic: str, partition: int) -> Committed | None:
        """Return a group's committed offset of a partition, None if it has none. ApiError as
        `shard`."""
        return self.shard(group_id).offsets.get((group_id, topic, partition))

    def offsets(self, group_id: str) -> ByTopic:
        """Return all committed offsets of a group; read-only. ApiError as `shard`."""
        return self.shard(group_id).offsets.by_group.get(group_id, {})

    def check_fetch(self, group_id: str, member_id: str | None, member_epoch: int) -> None:
        """Raise ApiError unless this member may fetch the group's offsets (OffsetFetch v9+)."""
        group = self.shard(group_id).modern.find(ConsumerGroup, group_id)
        if group is not None:
            consumer_offsets.check_fetch(group, member_id, member_epoch)

    def when_settled(self, group_id: str, done: Callable[[], None]) -> None:
        """Call `done` once all commits made so far can be read. ApiError as `shard`."""
        self.shard(group_id).journal.when_settled(done)

    def describe(self, group_id: str) -> DescribedGroup:
        """Answer DescribeGroups for one group."""
        try:
            return describe.describe(self.shard(group_id), group_id)
        except ApiError as error:
            return DescribedGroup(group_id, error.code, error.message)

    def describe_consumer(self, group_id: str) -> DescribedConsumerGroup:
        """Answer ConsumerGroupDescribe for one group."""
        try:
            return consumer_describe.describe(self.shard(group_id), group_id)
        except ApiError as error:
            return DescribedConsumerGroup(group_id, error.code, error.message)

    def list_groups(
        self, states: Collection[str] = (), types: Collection[str] = ()
    ) -> list[ListedGroup]:
        """Answer ListGroups; ApiError COORDINATOR_LOAD_IN_PROGRESS while any shard is loading."""
        found: list[ListedGroup] = []
        for shard in self.led.active():
            found.extend(describe.list_groups(shard.context, states, types))
        return found

    def delete(self, group_id: str, done: Done[ErrorCode]) -> None:
        """Answer DeleteGroups for one group."""
        try:
            shard = self.shard(group_id)
        except ApiError as error:
            done(error.code)
            return
        if self.elsewhere(group_id):
            done(ErrorCode.NON_EMPTY_GROUP)
            return
        commit.delete_group(shard, group_id, done)

    def delete_offsets(
        self,
        group_id: str,
        wanted: Sequence[tuple[str, int]],
        done: Callable[[ErrorCode, list[ErrorCode]], None],
    ) -> None:
        """Answer OffsetDelete: the group's error, and a code for each (topic, partition) wanted."""
        try:
            shard = self._member_shard(group_id)
            self.check_not_elsewhere(group_id)
        except ApiError as error:
            done(error.code, [])
            return
        commit.delete_offsets(shard, group_id, wanted, done)

    def _member_shard(self, group_id: str) -> ShardContext:
        if not group_id:
            raise ApiError(ErrorCode.INVALID_GROUP_ID)
        return self.shard(group_id)

    def check_room(self, shard: ShardContext, group_id: str) -> None:
        """Raise ApiError if a new group would exceed groups.max: invented group ids must not fill
        memory."""
        if group_id in shard.groups or group_id in shard.modern:
            return
        shards = [shard.context for shard in self.led]
        present = sum(len(context.groups) + len(context.modern) for context in shards)
        if present >= self._limits().groups_max:
            raise ApiError(ErrorCode.GROUP_MAX_SIZE_REACHED, "groups.max is reached")


def _check_not_shared(shard: ShardContext, group_id: str, code: ErrorCode) -> None:
    if isinstance(shard.modern.get(group_id), ShareGroup):
        raise ApiError(code, f"Group {group_id} is a share group.")


def _number(value: Value) -> int:
    return value if isinstance(value, int) else 0
