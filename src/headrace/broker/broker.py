"""`Broker`: one broker's partitions, metadata image and settings, as frontends use them.

The controller's orders open, serve and drop partitions here.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING

from headrace.broker.flush_intervals import FlushIntervals
from headrace.broker.log_placement import LogPlacement
from headrace.broker.metadata_image import ImageDelta, MetadataImage, with_offline
from headrace.broker.partition import Partition
from headrace.broker.producer_ids import ProducerIds
from headrace.broker.quotas import Quotas
from headrace.broker.replica.in_sync_replicas import ALONE, Replicas
from headrace.broker.replica.new_followers import NewFollowers
from headrace.broker.replica.partition_role import always, ask_nobody
from headrace.broker.replica.replication_throttles import ReplicationThrottles
from headrace.broker.topic_keepers import TopicKeepers
from headrace.config.broker import BrokerConfig
from headrace.config.entity_settings import EntityConfigs, group_configs
from headrace.config.keys.entities import CLIENT_METRICS
from headrace.config.log_config import LogConfig
from headrace.log.directory.log_directory import LogDirectory
from headrace.log.directory.new_log import NewLog
from headrace.log.log import Log
from headrace.model.errors import ApiError, CorruptLogError, ErrorCode, StorageError
from headrace.model.nouns import BrokerId, LeaderEpoch, TopicPartition, counted
from headrace.observe.metrics import Metrics
from headrace.ports.callbacks import Done, when_all
from headrace.ports.clock import Clock, Random
from headrace.ports.disk import Disk
from headrace.security.audit import Audit
from headrace.security.authorizer import AllowsAll, Authorizer
from headrace.security.sasl.failed_attempts import FailedAttempts
from headrace.security.sasl.users import Users

if TYPE_CHECKING:
    from headrace.broker.directory_moves import DirectoryMoves
    from headrace.broker.telemetry import Telemetry

_logger = logging.getLogger(__name__)

PartitionWatcher = Callable[[Partition], None]


class Broker:
    """The partitions, metadata and settings of this process. For the deciding thread."""

    def __init__(
        self,
        config: BrokerConfig,
        *,
        broker_id: BrokerId,
        clock: Clock,
        disk: Disk,
        random: Random,
        directories: Sequence[LogDirectory],
        metrics: Metrics,
        cluster_id: str,
        authorizer: Authorizer | None = None,
    ) -> None:
        """Make a broker on opened log directories; without `authorizer` everything is allowed."""
        self.config, self.broker_id = config, broker_id
        self.clock, self.disk = clock, disk
        self.random, self.metrics = random, metrics
        self.directories, self.cluster_id = tuple(directories), cluster_id
        self.authorizer: Authorizer = AllowsAll() if authorizer is None else authorizer
        """Decides permissions for all frontends, which log refusals to `audit`."""
        self.audit, self.failed_attempts = Audit(clock), FailedAttempts(clock.monotonic, random)
        self.image = MetadataImage(cluster_id)
        """The cluster's metadata as clients see it; changed by `publish` only."""
        self.producer_ids = ProducerIds()
        self.partitions: dict[tuple[str, int], Partition] = {}
        """Partitions led here, by (topic, number), including those of failed directories."""
        self.group_configs = group_configs()
        """Settings of groups by name (`value(group, key, config)`); set by the controller."""
        self.metrics_subscriptions = EntityConfigs(CLIENT_METRICS)
        """Subscriptions to client metrics (KIP-714); set by the controller."""
        self.quotas = Quotas.configured(config, clock.monotonic)
        """Rate limits of users and clients; set by the controller."""
        self.throttles = ReplicationThrottles(broker_id, config, clock.monotonic, self.image)
        """Throttles of replica copying (KIP-73), for replicas that topics name."""
        self.reconfigured: list[Callable[[BrokerConfig], None]] = []
        """Called with the broker's new settings."""
        self._offline: set[tuple[str, int]] = set()
        self.new_followers = NewFollowers(broker_id, clock, self.image, self.partitions)
        self.opened: list[PartitionWatcher] = [self.new_followers.opened]
        """Called with each partition that this broker starts to lead, or leads in a new epoch."""
        self.closed: list[PartitionWatcher] = []
        """Called with each partition that is no longer led: dropped, or its directory failed."""
        self.followed: dict[tuple[str, int], Partition] = {}
        """Partitions that follow a leader or wait for one, by (topic, number)."""
        self.follows: list[PartitionWatcher] = []
        """Called with each partition that is ordered to follow, also repeatedly."""
        self.unfollowed: list[PartitionWatcher] = []
        """Called with each partition that no longer follows."""
        self._placement = LogPlacement(self.directories)
        self.settle_doubles = self._placement.settle_doubles
        self.has_replica, self.ask_for_directory = self._placement.holds, self._placement.ask_for
        self.prepare_partitions = self._placement.prepare
        self.check_writable = self._placement.check_writable
        self.isr_wanted: PartitionWatcher = ask_nobody
        """Called with a partition whose ISR the controller should change."""
        self.topic_keepers = TopicKeepers()
        """Create, purge and delete other protocols' data for requests on their topics."""
        self._intervals = FlushIntervals(clock, self.directories, lambda: self.config)
        for directory in self.directories:
            directory.on_failure(partial(self._directory_failed, directory))

    @cached_property
    def users(self) -> Users:
        """SCRAM users; set by the controller."""
        return Users()

    @cached_property
    def telemetry(self) -> "Telemetry":
        """Metrics that clients push (KIP-714)."""
        from headrace.broker.telemetry import Telemetry

        limits = self.config.telemetry_max_bytes, self.config.telemetry_series_max
        return Telemetry(self.metrics_subscriptions, self.clock, self.random, *limits)

    @cached_property
    def moves(self) -> "DirectoryMoves":
        """Moves of replicas between log directories."""
        from headrace.broker.directory_moves import DirectoryMoves

        return DirectoryMoves(self, self._placement)

    # --- partitions ----------------------------------------------------------------------------

    def partition(self, topic: str, index: int) -> Partition:
        """Return a partition that this broker leads.

        ApiError: UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER (another broker leads it),
        KAFKA_STORAGE_ERROR (its log could not be opened).
        """
        found = self.partitions.get((topic, index))
        if found is None:
            raise self._absent(topic, index)
        return found

    def partition_by_id(self, topic_id: bytes, index: int) -> Partition:
        """Return a led partition by 16-byte topic id. ApiError: UNKNOWN_TOPIC_ID, …"""
        topic = self.image.topics_by_id.get(topic_id)
        if topic is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID)
        return self.partition(topic.name, index)

    def _absent(self, name: str, index: int) -> ApiError:
        topic = self.image.topics.get(name)
        if topic is None or not 0 <= index < len(topic.partitions):
            return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if (name, index) in self._offline:
            return ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"{name}-{index} could not be opened")
        return ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def lead_partition(
        self,
        new: NewLog,
        leader_epoch: LeaderEpoch,
        replicas: Replicas = ALONE,
        may_commit: Callable[[], bool] = always,
    ) -> Partition:
        """Lead a partition from now on; create its log if no directory has it.

        `replicas`: the assigned replicas and the ISR. `may_commit`: whether the leadership lease
        holds. ApiError: KAFKA_STORAGE_ERROR if its directory failed, its log is damaged or belongs
        to another topic that had the name; FENCED_LEADER_EPOCH.
        """
        key = new.topic_partition
        at = (key.topic, key.partition)
        partition = self.partitions.get(at) or self.followed.get(at)
        if partition is not None and partition.topic_id == new.topic_id:
            if partition.role.closed:
                raise ApiError(
                    partition.refusal or ErrorCode.KAFKA_STORAGE_ERROR,
                    f"{key}: its log directory has failed",
                )
        else:
            partition = self._open(new)
        self._offline.discard(at)
        now, before = self.clock.monotonic(), partition.leader_epoch
        partition.role.lead(leader_epoch, replicas, now=now, may_commit=may_commit)
        if self.partitions.get(at) is not partition:
            self.partitions[at] = partition
            self._unfollow(at)
        elif leader_epoch == before:
            return partition
        for watcher in self.opened:
            watcher(partition)
        return partition

    def follow_partition(
        self, new: NewLog, leader: BrokerId, leader_epoch: LeaderEpoch, *, unclean: bool = False
    ) -> Partition:
        """Follow `leader` (NO_LEADER: not known yet); create the log if no directory has it.

        A log of another topic that had the name is set aside. `unclean`: the leader may lack
        committed records. Waiting requests get NOT_LEADER_OR_FOLLOWER. ApiError: as for leading.
        """
        at = (new.topic_partition.topic, new.topic_partition.partition)
        partition = self.partitions.get(at) or self.followed.get(at)
        if partition is not None and partition.topic_id != new.topic_id:
            self.stop_partition(*at, delete=False)
            partition = None
        if partition is None:
            partition = self._open(new, replace=True)
        partition.role.follow(leader, leader_epoch, unclean=unclean)
        self._offline.discard(at)
        self.followed[at] = partition
        if self.partitions.pop(at, None) is not None:
            for watcher in self.closed:
                watcher(partition)
        for watcher in self.follows:
            watcher(partition)
        return partition

    def _open(self, new: NewLog, *, replace: bool = False) -> Partition:
        """Return a Partition on its log, without a role. ApiError: KAFKA_STORAGE_ERROR."""
        try:
            if replace:
                self._placement.set_aside_others(new)
            directory, log = self._placement.log_for(new)
        except (StorageError, CorruptLogError, OSError) as error:
            self.refuse_partition(*new.topic_partition)
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        on_ack = self.config.log_flush_on_ack
        partition = Partition(log, flusher=directory.flusher, flush_on_ack=on_ack)
        partition.traffic = self.metrics.traffic(new.topic_partition.topic)
        return partition

    def unfollow(self, partition: Partition) -> None:
        """Notify watchers that a partition no longer follows."""
        for watcher in self.unfollowed:
            watcher(partition)

    def _unfollow(self, at: tuple[str, int]) -> Partition | None:
        partition = self.followed.pop(at, None)
        if partition is not None:
            self.unfollow(partition)
        return partition

    def refuse_partition(self, topic: str, index: int) -> None:
        """Answer KAFKA_STORAGE_ERROR for a partition assigned here whose log is unusable."""
        self._offline.add((topic, index))

    def stop_partition(self, topic: str, index: int, *, delete: bool) -> bool:
        """Stop serving a partition; `delete`: its log too (renamed now, removed later).

        Durable after `sync_directories`. Waiting requests get UNKNOWN_TOPIC_OR_PARTITION, or
        NOT_LEADER_OR_FOLLOWER if the log stays. Returns False if the log should be deleted and is
        in a failed directory.
        """
        key = TopicPartition(topic, index)
        self._offline.discard((topic, index))
        partition = self.partitions.pop((topic, index), None)
        unknown, elsewhere = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER
        if partition is not None:
            self._close(partition, unknown if delete else elsewhere)
        follower = self._unfollow((topic, index))
        if follower is not None:
            follower.close(elsewhere)
        return self._placement.delete(key) if delete else True

    def sync_directories(self, done: Done[BaseException | None]) -> None:
        """Fsync all working log directories on a thread, for renames and new names."""
        paths = [directory.path for directory in self.directories if not directory.fenced]

        def sync() -> None:
            for path in paths:
                self.disk.sync_directory(path)

        self.disk.run(sync, done)

    def checkpoint(self, done: Done[None]) -> None:
        """Write all checkpoints; `done(None)` when durable, never if a directory fails."""
        writing = [directory for directory in self.directories if not directory.fenced]
        if not writing:
            return
        all_written = when_all(len(writing), partial(done, None))

        def written(is_written: bool) -> None:
            if is_written:
                all_written()

        for directory in writing:
            directory.checkpoint(written)

    def logs(self) -> Iterator[Log]:
        """Yield every log of the working directories, led or not."""
        for directory in self.directories:
            yield from directory.logs.values()

    def found(self) -> list[TopicPartition]:
        """Return all partitions with a directory here, sorted, including damaged ones."""
        keys = (key for each in self.directories for key in (*each.logs, *each.quarantined))
        return sorted(set(keys))

    def _close(self, partition: Partition, because: ErrorCode) -> None:
        if partition.role.closed:
            return
        partition.close(because)
        for watcher in self.closed:
            watcher(partition)

    def _directory_failed(self, directory: LogDirectory, error: OSError) -> None:
        """Stop serving the partitions of a failed directory, and mark them offline for clients."""
        hit = [
            partition
            for key, log in directory.logs.items()
            for partition in (self.partitions.get((key.topic, key.partition)),)
            if partition is not None and partition.log is log
        ]
        self._offline.update((*partition.topic_partition,) for partition in hit)
        for partition in hit:
            self._close(partition, ErrorCode.KAFKA_STORAGE_ERROR)
        for key, log in directory.logs.items():
            follower = self.followed.get((key.topic, key.partition))
            if follower is not None and follower.log is log:
                follower.close(ErrorCode.KAFKA_STORAGE_ERROR)
                self.unfollow(follower)
        shown = self.image.known_partitions(partition.topic_partition for partition in hit)
        self.publish(ImageDelta(partitions=shown))
        _logger.error(
            "log directory %s has failed (%s): %s offline on this broker; repair the disk, then"
            " restart the broker",
            directory.path, error, counted(len(hit), "partition"),
        )  # fmt: skip

    def publish(self, delta: ImageDelta) -> None:
        """Apply a metadata delta; partitions that are offline here are marked in it."""
        if self._offline:
            delta = with_offline(delta, self.image, self._offline, self.broker_id)
        self.image.apply(delta)
        self._intervals.arm()

    # --- settings ------------------------------------------------------------------------------

    def reconfigure(self, config: BrokerConfig) -> None:
        """Apply new broker settings; topic defaults arrive by `reconfigure_topic`."""
        changed = config.log_flush_on_ack != self.config.log_flush_on_ack
        self.config = config
        self.quotas.reconfigure(config)
        self.throttles.reconfigure(config)
        if changed:
            for partition in (*self.partitions.values(), *self.followed.values()):
                partition.role.flush_on_ack(config.log_flush_on_ack)
        self._intervals.arm()
        for told in self.reconfigured:
            told(config)

    def reconfigure_topic(self, name: str, config: LogConfig) -> None:
        """Apply new settings of a topic to all its partitions here."""
        topic = self.image.topics.get(name)
        for index in range(len(topic.partitions) if topic else 0):
            partition = self.partitions.get((name, index)) or self.followed.get((name, index))
            if partition is not None:
                partition.reconfigure(config)
        self._intervals.arm()

    # --- life ----------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the periodic work: checkpoints, retention, producer expiry, flush intervals."""
        for directory in self.directories:
            directory.start()
        self._intervals.arm()
        if any(directory.futures.left for directory in self.directories):
            self.moves.resume()

    def stop(self) -> None:
        """Stop the periodic work and close all logs cleanly. Blocks: for shutdown only.

        Waiting requests get NOT_LEADER_OR_FOLLOWER, so clients retry. StorageError if a directory
        could not be closed cleanly; the others are.
        """
        self._intervals.stop()
        if "moves" in self.__dict__:
            self.moves.close()
        for partition in tuple(self.partitions.values()):
            self._close(partition, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self.partitions.clear()
        for at in tuple(self.followed):
            self.stop_partition(*at, delete=False)
        failure: StorageError | None = None
        for directory in self.directories:
            try:
                directory.close()
            except StorageError as error:
                failure = error
        if failure is not None:
            raise failure
