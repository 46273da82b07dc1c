"""One broker: its partitions, its picture of the cluster, its settings.

The facade that frontends hold. It decides nothing about topics (that is `cluster.Controller`): it
opens, serves and drops the partitions it is told to.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING

from headrace.broker.flush_intervals import FlushIntervals
from headrace.broker.metadata_image import ImageDelta, MetadataImage, with_offline
from headrace.broker.partition import Partition
from headrace.broker.producer_ids import ProducerIds
from headrace.broker.quotas import Quotas
from headrace.config.broker import BrokerConfig
from headrace.config.entity_settings import EntityConfigs, group_configs
from headrace.config.keys.entities import CLIENT_METRICS
from headrace.config.log_config import LogConfig
from headrace.log.directory.log_directory import LogDirectory
from headrace.log.directory.new_log import NewLog
from headrace.log.log import Log
from headrace.log.text_files import NO_TOPIC_ID
from headrace.model.errors import ApiError, CorruptLogError, ErrorCode, StorageError
from headrace.model.nouns import BrokerId, LeaderEpoch, TopicPartition
from headrace.observe.metrics import Metrics
from headrace.ports.callbacks import Done, first_error, when_all
from headrace.ports.clock import Clock, Random
from headrace.ports.disk import Disk
from headrace.security.authorizer import AllowsAll, Authorizer

if TYPE_CHECKING:
    from headrace.broker.telemetry import Telemetry

_logger = logging.getLogger(__name__)

PartitionWatcher = Callable[[Partition], None]


class Broker:
    """What this process serves. All calls on the deciding thread."""

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
        """Hold opened log directories; partitions come with `lead_partition`.

        Without an `authorizer` everybody may do everything.
        """
        self.config = config
        self.broker_id = broker_id
        self.clock = clock
        self.disk = disk
        self.random = random
        self.metrics = metrics
        self.directories = tuple(directories)
        self.cluster_id = cluster_id
        self.authorizer: Authorizer = AllowsAll() if authorizer is None else authorizer
        """Who may do what: all frontends ask this one."""
        self.image = MetadataImage(cluster_id)
        """The present picture of the cluster; changed by `publish` only."""
        self.producer_ids = ProducerIds()
        self.partitions: dict[tuple[str, int], Partition] = {}
        """Led here, by topic and number; those of a failed directory included."""
        self.group_configs = group_configs()
        """What groups were told by name (`value(group, key, config)`); filled by the controller."""
        self.metrics_subscriptions = EntityConfigs(CLIENT_METRICS)
        """Which client metrics are wanted (KIP-714); filled by the controller."""
        burst_seconds = (
            config.controller_quota_window_num * config.controller_quota_window_size_seconds
        )
        window = config.quota_window_num, config.quota_window_size_seconds
        self.quotas = Quotas(clock.monotonic, *window, burst_seconds)
        """Who may do how much in a second; filled by the controller."""
        self.quotas.connections_rate_max = config.max_connection_creation_rate
        self.reconfigured: list[Callable[[BrokerConfig], None]] = []
        """Called with the broker's new settings."""
        self._offline: set[tuple[str, int]] = set()
        self.opened: list[PartitionWatcher] = []
        """Called with every partition that we begin to lead."""
        self.closed: list[PartitionWatcher] = []
        """Called with every partition that we cease to serve: dropped, or its directory failed."""
        self.isr_wanted: PartitionWatcher = _ask_nobody
        """Called with a partition of which the controller is to be asked for another ISR."""
        self._intervals = FlushIntervals(clock, self.directories, lambda: self.config)
        for directory in self.directories:
            directory.on_failure(partial(self._directory_failed, directory))

    @cached_property
    def telemetry(self) -> "Telemetry":
        """What clients push of themselves (KIP-714)."""
        from headrace.broker.telemetry import Telemetry

        limits = self.config.telemetry_max_bytes, self.config.telemetry_series_max
        return Telemetry(self.metrics_subscriptions, self.clock, self.random, *limits)

    # --- partitions ----------------------------------------------------------------------------

    def partition(self, topic: str, index: int) -> Partition:
        """Return the partition if this broker leads it.

        ApiError: UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER (another broker leads it),
        KAFKA_STORAGE_ERROR (its log could not be opened).
        """
        found = self.partitions.get((topic, index))
        if found is None:
            raise self._absent(topic, index)
        return found

    def partition_by_id(self, topic_id: bytes, index: int) -> Partition:
        """Return the partition by the topic's 16-byte id. ApiError: UNKNOWN_TOPIC_ID, …"""
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

    def lead_partition(self, new: NewLog, leader_epoch: LeaderEpoch) -> Partition:
        """Lead a partition from now on, its log made where no directory holds it.

        ApiError: KAFKA_STORAGE_ERROR, where its directory failed, its log is damaged, or belongs to
        another topic that had the same name.
        """
        key = new.topic_partition
        led = self.partitions.get((key.topic, key.partition))
        if led is not None and led.topic_id == new.topic_id:
            if led.refusal is not None:
                raise ApiError(led.refusal, f"{key}: its log directory has failed")
            led.role.lead(leader_epoch)
            return led
        try:
            directory, log = self._log_for(*new)
        except (StorageError, CorruptLogError, OSError) as error:
            self.refuse_partition(*key)
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        self._offline.discard((key.topic, key.partition))
        partition = Partition(
            log, flusher=directory.flusher, flush_on_ack=self.config.log_flush_on_ack
        )
        partition.role.lead(leader_epoch)
        self.partitions[key.topic, key.partition] = partition
        for watcher in self.opened:
            watcher(partition)
        return partition

    def refuse_partition(self, topic: str, index: int) -> None:
        """Answer KAFKA_STORAGE_ERROR for a partition that is to be led here and cannot be."""
        self._offline.add((topic, index))

    def follow_partition(self, topic: str, index: int) -> None:
        """Lead a partition no longer; its log stays. Who waits is told NOT_LEADER_OR_FOLLOWER."""
        self.stop_partition(topic, index, delete=False)

    def has_replica(self, key: TopicPartition) -> bool:
        """Tell whether a directory of ours holds the partition, or should.

        A damaged or lost one counts too.
        """
        return any(
            key in directory.logs or key in directory.quarantined or key in directory.missing
            for directory in self.directories
        )

    def prepare_partitions(
        self, wanted: Sequence[NewLog], done: Done[BaseException | None]
    ) -> None:
        """Make the logs that `lead_partition` will need and nobody has, off the deciding thread."""
        working = [directory for directory in self.directories if not directory.fenced]
        held = [len(directory.logs) for directory in working]
        shares: list[list[NewLog]] = [[] for _ in working]
        for new in wanted:
            if working and not self.has_replica(new.topic_partition):
                at = held.index(min(held))
                held[at] += 1
                shares[at].append(new)
        made = first_error(sum(bool(share) for share in shares), done)
        for directory, share in zip(working, shares, strict=True):
            if share:
                directory.prepare_logs(share, made)

    def _log_for(
        self, key: TopicPartition, topic_id: bytes, config: LogConfig
    ) -> tuple[LogDirectory, Log]:
        for directory in self.directories:
            log = directory.logs.get(key)
            if log is not None:
                if log.topic_id == NO_TOPIC_ID:
                    log.adopt_topic_id(topic_id)
                elif log.topic_id != topic_id:
                    raise StorageError(f"{log.directory} belongs to another topic of that name")
                log.config = config
                return directory, log
        for directory in self.directories:
            refused = directory.refused(key, topic_id)
            if refused is not None:
                raise refused
        prepared = [
            directory
            for directory in self.directories
            if directory.prepared(key) and not directory.fenced
        ]
        directory = prepared[0] if prepared else self._roomiest()
        return directory, directory.create_log(key, topic_id, config)

    def _roomiest(self) -> LogDirectory:
        """Return the working directory with fewest partitions. ApiError: KAFKA_STORAGE_ERROR."""
        self.check_writable()
        working = [directory for directory in self.directories if not directory.fenced]
        return min(working, key=lambda directory: len(directory.logs))

    def check_writable(self) -> None:
        """Raise ApiError KAFKA_STORAGE_ERROR where no log directory is left to make a log in."""
        if all(directory.fenced for directory in self.directories):
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "no log directory is writable")

    def stop_partition(self, topic: str, index: int, *, delete: bool) -> bool:
        """Serve a partition no longer; `delete` its log too (renamed now, removed later).

        Durable after `sync_directories`. Whoever waits is told UNKNOWN_TOPIC_OR_PARTITION, or
        NOT_LEADER_OR_FOLLOWER where the log stays. Returns False where the log was to go and lies
        in a failed directory.
        """
        key = TopicPartition(topic, index)
        self._offline.discard((topic, index))
        partition = self.partitions.pop((topic, index), None)
        if partition is not None:
            unknown, elsewhere = (
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
            )
            self._close(partition, unknown if delete else elsewhere)
        gone = True
        for directory in self.directories if delete else ():
            if key in directory.logs or key in directory.quarantined:
                gone = gone and _delete(directory, key)
        return gone

    def sync_directories(self, done: Done[BaseException | None]) -> None:
        """Make renames and new names in the log directories durable, off the deciding thread."""
        paths = [directory.path for directory in self.directories if not directory.fenced]

        def sync() -> None:
            for path in paths:
                self.disk.sync_directory(path)

        self.disk.run(sync, done)

    def checkpoint(self, done: Done[None]) -> None:
        """Write every directory's checkpoints; `done(None)` when they are durable.

        Not called where a directory fails meanwhile: then nothing is to be promised.
        """
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
        """Return every partition that has a directory here, damaged ones included, sorted."""
        return sorted(
            {
                key
                for directory in self.directories
                for key in (*directory.logs, *directory.quarantined)
            }
        )

    def _close(self, partition: Partition, because: ErrorCode) -> None:
        if partition.role.closed:
            return
        partition.close(because)
        for watcher in self.closed:
            watcher(partition)

    def _directory_failed(self, directory: LogDirectory, error: OSError) -> None:
        """Acknowledge and serve nothing of a failed directory any more (G14)."""
        hit = [
            partition
            for key, log in directory.logs.items()
            for partition in (self.partitions.get((key.topic, key.partition)),)
            if partition is not None and partition.log is log
        ]
        self._offline.update((*partition.topic_partition,) for partition in hit)
        for partition in hit:
            self._close(partition, ErrorCode.KAFKA_STORAGE_ERROR)
        shown = self.image.known_partitions(partition.topic_partition for partition in hit)
        self.publish(ImageDelta(partitions=shown))
        _logger.error(
            "%s failed (%s): %d partitions are offline: mend the disk, then restart the broker",
            directory.path, error, len(hit),
        )  # fmt: skip

    def publish(self, delta: ImageDelta) -> None:
        """Show clients what has changed, with what is offline here told as such."""
        if self._offline:
            delta = with_offline(delta, self.image, self._offline, self.broker_id)
        self.image.apply(delta)
        self._intervals.arm()

    # --- settings ------------------------------------------------------------------------------

    def reconfigure(self, config: BrokerConfig) -> None:
        """Take new settings of the broker; topics' defaults come by `reconfigure_topic`."""
        changed = config.log_flush_on_ack != self.config.log_flush_on_ack
        self.config = config
        self.quotas.connections_rate_max = config.max_connection_creation_rate
        if changed:
            for partition in self.partitions.values():
                partition.role.flush_on_ack(config.log_flush_on_ack)
        self._intervals.arm()
        for told in self.reconfigured:
            told(config)

    def reconfigure_topic(self, name: str, config: LogConfig) -> None:
        """Take new settings of a topic at once, for all of its partitions here."""
        topic = self.image.topics.get(name)
        for index in range(len(topic.partitions) if topic else 0):
            partition = self.partitions.get((name, index))
            if partition is not None:
                partition.reconfigure(config)
        self._intervals.arm()

    # --- life ----------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin the periodic duties: checkpoints, retention, producer expiry, flush intervals."""
        for directory in self.directories:
            directory.start()
        self._intervals.arm()

    def stop(self) -> None:
        """End the periodic duties and close all logs cleanly. Blocks: shutdown only.

        Whoever still waits is told NOT_LEADER_OR_FOLLOWER: clients ask again, elsewhere or later.
        StorageError where a directory could not be closed cleanly; the others are.
        """
        self._intervals.stop()
        for partition in tuple(self.partitions.values()):
            self._close(partition, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self.partitions.clear()
        failure: StorageError | None = None
        for directory in self.directories:
            try:
                directory.close()
            except StorageError as error:
                failure = error
        if failure is not None:
            raise failure


def _ask_nobody(partition: Partition) -> None:
    """Do nothing: there is no controller to ask."""


def _delete(directory: LogDirectory, key: TopicPartition) -> bool:
    """Delete a log unless its directory has failed, before or by this."""
    if directory.fenced:
        return False
    try:
        directory.delete_log(key)
    except StorageError:
        return False  # the directory has said so in the log
    return True
