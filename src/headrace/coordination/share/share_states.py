"""`ShareStates`: the state of share groups in the partitions of `__share_group_state` led here."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, cast

from headrace.broker.metadata_image import MetadataImage
from headrace.coordination.groups.share.limits import ShareLimits
from headrace.coordination.share.keys import ShareKey
from headrace.coordination.share.state_port import StateRead, StateSummary
from headrace.coordination.share.state_shard import StateShard
from headrace.delivery.cursor_state import CursorState
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import SHARE_STATE_TOPIC
from headrace.ports.callbacks import Done, first_error, ignore_result
from headrace.shards.led_shards import LedShards
from headrace.shards.shard import ShardPartition, ShardState, World

if TYPE_CHECKING:
    from headrace.coordination.share.state_shard import StatePartition


class ShareStates:
    """State of share groups on one broker. Implements `ShareStatePort`. On the deciding thread."""

    def __init__(
        self,
        world: World,
        *,
        limits: Callable[[], ShareLimits],
        image: Callable[[], MetadataImage],
    ) -> None:
        """Create without partitions. `limits` and `image` return the present ones at each call."""
        self._world = world
        self._limits = limits
        self._image = image
        self.led: LedShards[StateShard] = LedShards(
            SHARE_STATE_TOPIC,
            self._new_shard,
            image=image,
            partitions=lambda: limits().state_partitions,
        )
        """The shards of the partitions of `__share_group_state` that this broker leads."""

    def _new_shard(self, index: int, partition: ShardPartition, epoch: int) -> StateShard:
        led = cast("StatePartition", partition)
        return StateShard(
            index, led, epoch=epoch, world=self._world, limits=self._limits, is_topic=self._is_topic
        )

    def _is_topic(self, topic_id: bytes) -> bool:
        """Return whether the topic exists; True while the metadata image has no topics yet."""
        image = self._image()
        return topic_id in image.topics_by_id or SHARE_STATE_TOPIC not in image.topics

    def partition_for(self, key: ShareKey) -> int:
        """Return the partition of `__share_group_state` that stores the state of `key`."""
        return self.led.partition_for(key.coordinated_by)

    def read(
        self, key: ShareKey, leader_epoch: int, done: Done[StateRead | ApiError | None]
    ) -> None:
        """Call `done` with the stored state of `key`, once its shard is loaded."""
        shard = self.led.at(self.partition_for(key))
        if shard is not None and shard.state is ShardState.LOADING:
            shard.when_loaded(lambda: self._read(key, leader_epoch, done))
        else:
            self._read(key, leader_epoch, done)

    def _read(
        self, key: ShareKey, leader_epoch: int, done: Done[StateRead | ApiError | None]
    ) -> None:
        try:
            shard = self.led.of(key.coordinated_by)
        except ApiError as error:
            done(error)
        else:
            shard.read_for(key, leader_epoch, done)

    def read_summary(self, key: ShareKey, done: Done[StateSummary | ApiError | None]) -> None:
        """Call `done` with start offset and counts of `key`; an error if its shard is loading."""
        try:
            kept = self.led.of(key.coordinated_by).read(key)
        except ApiError as error:
            done(error)
            return
        if kept is None:
            done(None)
            return
        start, complete = kept.known.start, kept.complete
        done(StateSummary(kept.state_epoch, kept.leader_epoch, start, complete))

    def make(
        self, keys: Sequence[ShareKey], state_epoch: int, done: Done[ErrorCode | None]
    ) -> None:
        """Create the state of each key that has none, with start offset NOT_SET.

        `done` as `initialize`.
        """
        answered = first_error(len(keys), done)
        for key in keys:
            shard = self._shard(key, answered)
            if shard is not None:
                shard.make(key, state_epoch, answered)

    def initialize(
        self, wanted: Sequence[tuple[ShareKey, int]], state_epoch: int, done: Done[ErrorCode | None]
    ) -> None:
        """Reset each key to its start offset; `done` is called once, with the first error."""
        answered = first_error(len(wanted), done)
        for key, start in wanted:
            shard = self._shard(key, answered)
            if shard is not None:
                shard.initialize(key, state_epoch, start, answered)

    def write(
        self,
        key: ShareKey,
        state_epoch: int,
        leader_epoch: int,
        change: CursorState,
        done: Done[ErrorCode | None],
    ) -> None:
        """Store changes of `key`; see `StateShard.write`."""
        shard = self._shard(key, done)
        if shard is not None:
            shard.write(key, state_epoch, leader_epoch, change, done)

    def delete(self, keys: Sequence[ShareKey], done: Done[ErrorCode | None]) -> None:
        """Delete the state of `keys`; `done` is called once, with the first error."""
        answered = first_error(len(keys), done)
        for key in keys:
            shard = self._shard(key, answered)
            if shard is not None:
                shard.delete(key, answered)

    def when_settled(self, key: ShareKey, done: Callable[[], None]) -> None:
        """Call `done` once each earlier write of `key` is durable or has failed."""
        shard = self.led.at(self.partition_for(key))
        if shard is None:
            done()
        else:
            shard.journal.when_settled(done)

    def forget_topics(self, topic_ids: frozenset[bytes]) -> None:
        """Delete the state of all groups in deleted topics."""
        for shard in self.led:
            if shard.state is ShardState.ACTIVE:
                for key in shard.of_topics(topic_ids):
                    # State that remains belongs to a topic that no request can name.
                    shard.delete(key, ignore_result)

    def _shard(self, key: ShareKey, done: Done[ErrorCode | None]) -> StateShard | None:
        try:
            return self.led.of(key.coordinated_by)
        except ApiError as error:
            done(error.code)
            return None
