"""The facade: which shard a group lives in, and everything that can be asked of a group."""

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

from headrace.broker.groups import commit, describe, join, membership, sync
from headrace.broker.groups.commit import CodeDone
from headrace.broker.groups.context import ShardContext
from headrace.broker.groups.hashing import partition_for
from headrace.broker.groups.limits import GroupConfig, GroupLimits
from headrace.broker.groups.member import JoinDone, SyncDone
from headrace.broker.groups.messages import (
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
from headrace.broker.groups.offsets import ByTopic, Committed
from headrace.broker.groups.shard import GroupShard, ShardPartition, ShardState
from headrace.broker.metadata import MetadataImage
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import OFFSETS_TOPIC
from headrace.world.clock import Clock, Random
from headrace.world.disk import Disk

if TYPE_CHECKING:
    from headrace.broker.broker import Broker


class GroupCoordinators:
    """All groups this broker coordinates. All calls on the deciding thread.

    The broker tells it of partitions that come and go; frontends ask the rest. Requests that may
    have to wait take a callback, called exactly once.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        random: Random,
        disk: Disk,
        config: Callable[[], GroupConfig],
        image: Callable[[], MetadataImage],
    ) -> None:
        """`config` and `image` answer with what is so now; both may change at run time."""
        self._clock = clock
        self._random = random
        self._disk = disk
        self._config = config
        self._seen = config()
        self._limits = GroupLimits.of(self._seen)
        self._image = image
        self._shards: dict[int, GroupShard] = {}
        self._deleted: dict[str, None] = {}

    @classmethod
    def of(cls, broker: "Broker") -> "GroupCoordinators":
        """The coordinators of `broker`; whoever wires them tells of its partitions."""
        return cls(
            clock=broker.clock,
            random=broker.random,
            disk=broker.disk,
            config=lambda: broker.config,
            image=lambda: broker.image,
        )

    @property
    def limits(self) -> GroupLimits:
        """The limits of the present configuration."""
        if self._config() is not self._seen:
            self._take_limits()
        return self._limits

    def _take_limits(self) -> None:
        self._seen = self._config()
        self._limits = GroupLimits.of(self._seen)
        for shard in self._shards.values():
            shard.context.limits = self._limits

    # What the broker tells

    def lead(self, index: int, partition: ShardPartition, epoch: int) -> None:
        """This broker leads partition `index` of `__consumer_offsets` from now on: replay it."""
        present = self._shards.get(index)
        if present is not None:
            if present.epoch >= epoch:
                return
            present.unload()
        shard = self._shards[index] = GroupShard(
            index,
            partition,
            epoch=epoch,
            clock=self._clock,
            random=self._random,
            disk=self._disk,
            limits=self.limits,
        )
        shard.load()

    def resign(self, index: int, epoch: int | None = None) -> None:
        """Another broker leads the partition, since `epoch` (None: whatever it is)."""
        shard = self._shards.get(index)
        if shard is None or (epoch is not None and epoch < shard.epoch):
            return
        del self._shards[index]
        shard.unload()

    def topic_deleted(self, topic: str) -> None:
        """The topic is gone for good: with this turn, so are the offsets groups had in it."""
        if not self._deleted:
            self._clock.call_later(0, self._forget_deleted)
        self._deleted[topic] = None

    def _forget_deleted(self) -> None:
        deleted, self._deleted = frozenset(self._deleted), {}
        for shard in self._shards.values():
            shard.topics_deleted(deleted)

    def close(self) -> None:
        """Serve nothing any more; whoever waits is told to look for another coordinator."""
        for index in list(self._shards):
            self.resign(index)

    # Where a group lives

    def partition_for(self, group_id: str) -> int:
        """The partition of `__consumer_offsets` that coordinates `group_id`."""
        topic = self._image().topics.get(OFFSETS_TOPIC)
        # The topic's number of partitions, once it is made, outlives any configuration.
        count = self._limits.partitions if topic is None else len(topic.partitions)
        return partition_for(group_id, count)

    def shard(self, group_id: str) -> ShardContext:
        """The shard of `group_id`.

        ApiError: NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS.
        """
        if self._config() is not self._seen:
            self._take_limits()
        shard = self._shards.get(self.partition_for(group_id))
        if shard is None:
            raise ApiError(ErrorCode.NOT_COORDINATOR)
        return shard.check_active()

    def when_loaded(self, callback: Callable[[], None]) -> None:
        """Call back once no shard led now is loading any more."""
        loading = [one for one in self._shards.values() if one.state is ShardState.LOADING]
        if not loading:
            callback()
            return
        missing = len(loading)

        def one_more() -> None:
            nonlocal missing
            missing -= 1
            if missing == 0:
                callback()

        for shard in loading:
            shard.when_loaded(one_more)

    # What members ask

    def join(self, request: JoinRequest, done: JoinDone) -> None:
        """JoinGroup. An empty group id is INVALID_GROUP_ID, as in all that members ask."""
        try:
            shard = self._member_shard(request.group_id)
            self._check_room(shard, request.group_id)
        except ApiError as error:
            done(JoinAnswer(error.code, request.member_id))
            return
        join.join(shard, request, done)

    def sync(self, request: SyncRequest, done: SyncDone) -> None:
        """SyncGroup."""
        try:
            shard = self._member_shard(request.group_id)
        except ApiError as error:
            # A coordinator that is being loaded will find the group Stable, and its members there.
            loading = error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            done(SyncAnswer(ErrorCode.REBALANCE_IN_PROGRESS if loading else error.code))
            return
        sync.sync(shard, request, done)

    def heartbeat(
        self, group_id: str, member_id: str, instance_id: str | None, generation: int
    ) -> ErrorCode:
        """Heartbeat. While the group is loaded its members are taken to be alive."""
        try:
            shard = self._member_shard(group_id)
        except ApiError as error:
            loading = error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            return ErrorCode.NONE if loading else error.code
        return membership.heartbeat(shard, group_id, member_id, instance_id, generation)

    def leave(self, group_id: str, leavers: Sequence[Leaver]) -> list[Left]:
        """LeaveGroup: one answer a member. ApiError where the group cannot be asked."""
        return membership.leave(self._member_shard(group_id), group_id, leavers)

    def commit(self, request: CommitRequest, done: CodeDone) -> None:
        """OffsetCommit: one code for all its offsets."""
        try:
            shard = self.shard(request.group_id)
            self._check_room(shard, request.group_id)
        except ApiError as error:
            done(error.code)
            return
        commit.commit(shard, request, done)

    # What anybody asks

    def offset(self, group_id: str, topic: str, partition: int) -> Committed | None:
        """A committed offset, None where there is none. ApiError as `shard`."""
        return self.shard(group_id).offsets.get((group_id, topic, partition))

    def offsets(self, group_id: str) -> ByTopic:
        """All committed offsets of a group; not to be changed. ApiError as `shard`."""
        return self.shard(group_id).offsets.by_group.get(group_id, {})

    def when_settled(self, group_id: str, done: Callable[[], None]) -> None:
        """Call back once all commits made so far can be read. ApiError as `shard`."""
        self.shard(group_id).journal.when_settled(done)

    def describe(self, group_id: str) -> DescribedGroup:
        """DescribeGroups, for one group."""
        try:
            return describe.describe(self.shard(group_id), group_id)
        except ApiError as error:
            return DescribedGroup(group_id, error.code, error.message)

    def list_groups(
        self, states: Collection[str] = (), types: Collection[str] = ()
    ) -> list[ListedGroup]:
        """ListGroups. ApiError: COORDINATOR_LOAD_IN_PROGRESS while any shard is loading."""
        found: list[ListedGroup] = []
        for index in sorted(self._shards):
            shard = self._shards[index]
            if shard.state is ShardState.LOADING:
                raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            if shard.state is ShardState.ACTIVE:
                found.extend(describe.list_groups(shard.context, states, types))
        return found

    def delete(self, group_id: str, done: CodeDone) -> None:
        """DeleteGroups, for one group."""
        try:
            shard = self.shard(group_id)
        except ApiError as error:
            done(error.code)
            return
        commit.delete_group(shard, group_id, done)

    def delete_offsets(
        self,
        group_id: str,
        wanted: Sequence[tuple[str, int]],
        done: Callable[[ErrorCode, list[ErrorCode]], None],
    ) -> None:
        """OffsetDelete: the group's error, and one for each (topic, partition) of `wanted`."""
        try:
            shard = self._member_shard(group_id)
        except ApiError as error:
            done(error.code, [])
            return
        commit.delete_offsets(shard, group_id, wanted, done)

    def _member_shard(self, group_id: str) -> ShardContext:
        if not group_id:
            raise ApiError(ErrorCode.INVALID_GROUP_ID)
        return self.shard(group_id)

    def _check_room(self, shard: ShardContext, group_id: str) -> None:
        """groups.max: a stranger's invented names must not fill the memory."""
        if group_id in shard.groups:
            return
        present = sum(len(one.context.groups) for one in self._shards.values())
        if present >= self._limits.groups_max:
            raise ApiError(ErrorCode.GROUP_MAX_SIZE_REACHED, "groups.max is reached")
