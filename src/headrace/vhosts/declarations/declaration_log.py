"""The home of durable declarations: the log of the compacted topic `__amqp.declarations`.

    key    32 bytes, a hash of the declaration's identity (`stored_records.record_key`)
    value  the declaration (`stored_records.encode_record`); None: it was deleted

All declarations of a vhost are in one partition, by the hash of the vhost's name. The topic is
created with the first durable declaration, so a broker without any has none.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from headrace.cluster.topics.creation import NewTopic
from headrace.cluster.topics.internal_topics import internal_config
from headrace.log.directory.holds import WantsNothing
from headrace.model.errors import ApiError, ConfigError, ErrorCode, Malformed
from headrace.model.nouns import TopicPartition
from headrace.ports.callbacks import Done
from headrace.posix.awaiting import called_back
from headrace.queues.model.stored_model import Record
from headrace.queues.model.stored_records import decode_record
from headrace.queues.queue_names import DECLARATIONS_TOPIC
from headrace.record.compression import CorruptBatch
from headrace.shards.journal import KeyValue
from headrace.shards.led_shards import LedShards
from headrace.shards.replay_turns import ReplayTurns
from headrace.shards.shard import (
    APPEND_BYTES_MAX,
    JournalLimits,
    Shard,
    ShardPartition,
    ShardState,
    World,
)

if TYPE_CHECKING:
    from headrace.broker.broker import Broker
    from headrace.broker.partition import Partition
    from headrace.cluster.controller_port import ControllerPort
    from headrace.config.broker import BrokerConfig

_logger = logging.getLogger(__name__)

PARTITIONS = 8
CREATE_SECONDS = 10.0
"""Seconds for which the creation of the topic is awaited."""
COMMIT_MS = 30_000
"""Milliseconds after which an append that is not committed counts as late."""
_RECORD_BYTES = 16
"""Bytes of a record that are neither key nor value, roughly."""


class Change(NamedTuple):
    """The new value of a declaration's key."""

    vhost: str
    value: bytes | None
    """None: the declaration is deleted."""


class Loaded(NamedTuple):
    """The durable declarations as the log has them."""

    records: dict[bytes, tuple[str, Record]]
    """Vhost and record of each declaration by its key."""
    all_read: bool
    """False: some records could not be read, so their queues are unknown."""
    is_empty: bool
    """Whether no record was ever appended, or all were lost: topics of queues prove the latter."""


class DeclarationShard(Shard):
    """A partition of the log, with its declarations until they are in vhosts."""

    def __init__(self, index: int, partition: ShardPartition, epoch: int, world: World) -> None:
        super().__init__(
            DECLARATIONS_TOPIC,
            index,
            partition,
            epoch=epoch,
            world=world,
            limits=JournalLimits(COMMIT_MS),
        )
        self._records: dict[bytes, tuple[str, Record]] = {}
        self._all_read = True

    def apply(
        self, log_offset: int, producer_id: int | None, key: bytes, value: bytes | None
    ) -> None:
        """Note the declaration of a key, or its deletion. Raises CorruptBatch."""
        if value is None:
            self._records.pop(key, None)
            return
        try:
            self._records[key] = decode_record(value)
        except Malformed as error:
            self._all_read = False
            text = f"AMQP declaration: {error}. Messages of its queue stay on disk"
            raise CorruptBatch(text) from error

    def loaded(self) -> None:
        """Do nothing: whoever waits takes the declarations."""

    def dropped(self) -> None:
        """Release the declarations that nobody has taken."""
        self._records = {}

    def take(self) -> Loaded:
        """Return the loaded declarations, once: they are in no memory of the shard afterwards."""
        records, self._records = self._records, {}
        return Loaded(records, self._all_read, self.partition.log.end_offset == 0)


class DeclarationLog:
    """The log of durable declarations of one broker. On the deciding thread."""

    def __init__(
        self,
        broker: "Broker",
        controller: "ControllerPort",
        created: Callable[[], Awaitable[None]],
    ) -> None:
        """Create the log before the broker leads its partitions.

        `created` is called before the topic is created; it may raise StoreError.
        """
        self._broker = broker
        self._controller = controller
        self._created = created
        world = World(broker.clock, broker.random, broker.disk)
        world.turns = ReplayTurns(broker.clock, pauses=False)
        self._led: LedShards[DeclarationShard] = LedShards(
            DECLARATIONS_TOPIC,
            lambda index, partition, epoch: DeclarationShard(index, partition, epoch, world),
            image=lambda: broker.image,
            partitions=lambda: PARTITIONS,
        )
        self._partitions: dict[int, Partition] = {}
        self._holder = WantsNothing()
        broker.opened.append(self._opened)
        broker.closed.append(self._closed)
        broker.reconfigured.append(self._reconfigured)

    async def load(self) -> Loaded:
        """Return all declarations of the log, once. ConfigError: a partition cannot be read."""
        await called_back(self._when_loaded)
        topic = self._broker.image.topics.get(DECLARATIONS_TOPIC)
        found = Loaded({}, all_read=True, is_empty=True)
        for index in range(0 if topic is None else len(topic.partitions)):
            shard = self._led.at(index)
            if shard is None or shard.state is not ShardState.ACTIVE:
                raise ConfigError(
                    f"log.dirs: the log of AMQP declarations, {DECLARATIONS_TOPIC}-{index}, cannot"
                    " be read, and without it queues are unknown: repair it (headrace log repair)"
                    " or restore its directory, or remove the AMQP listener"
                )
            taken = shard.take()
            found.records.update(taken.records)
            found = found._replace(
                all_read=found.all_read and taken.all_read,
                is_empty=found.is_empty and taken.is_empty,
            )
        return found

    async def append(self, changes: Mapping[bytes, Change]) -> None:
        """Append changes, by key; return once they are committed and flushed.

        They may be appended if this raises, and may be appended again. StoreError; ApiError,
        KAFKA_STORAGE_ERROR for new declarations while the disk is almost full.
        """
        if not changes:
            return
        await self._create()
        by_shard: dict[DeclarationShard, dict[bytes, Change]] = {}
        for key, change in changes.items():
            by_shard.setdefault(self._shard_of(change.vhost), {})[key] = change
        for shard, of_shard in by_shard.items():
            if any(change.value is not None for change in of_shard.values()):
                self._check_room(shard.index)
        await asyncio.gather(
            *(
                _appended(shard, records)
                for shard, of_shard in by_shard.items()
                for records in _batches(of_shard)
            )
        )

    def close(self) -> None:
        """Append nothing more: the broker stops."""
        self._led.close()

    async def _create(self) -> None:
        """Create the topic if it is missing, in the first log directory, as the metadata store."""
        broker = self._broker
        if DECLARATIONS_TOPIC in broker.image.topics:
            return
        await self._created()
        indices = range(min(PARTITIONS, broker.config.partitions_per_topic_max))
        for index in indices:
            key = TopicPartition(DECLARATIONS_TOPIC, index)
            broker.ask_for_directory(key, broker.directories[0])
        # The first broker of `headrace dev` has its queues for itself.
        here = dict.fromkeys(indices, (broker.broker_id,))
        config = internal_config(DECLARATIONS_TOPIC, broker.config)
        wanted = NewTopic(DECLARATIONS_TOPIC, assignment=here, config=config)
        (made,) = await self._controller.create_topics([wanted], wait_seconds=CREATE_SECONDS)
        if isinstance(made, ApiError) and made.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise made
        await called_back(self._when_loaded)

    def _when_loaded(self, done: Done[None]) -> None:
        self._led.when_loaded(lambda: done(None))

    def _shard_of(self, vhost: str) -> DeclarationShard:
        """Return the partition of a vhost's declarations. Raises ApiError."""
        try:
            return self._led.of(vhost)
        except ApiError as error:
            raise _offline(error.code) from error

    def _check_room(self, index: int) -> None:
        """Raise ApiError while the disk is too full: a failed write would end the directory."""
        low = self._partitions[index].log.context.low
        if low:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, low)

    # Partitions

    def _opened(self, partition: "Partition") -> None:
        topic, index = partition.topic_partition
        if topic != DECLARATIONS_TOPIC:
            return
        self._let_go(index)
        self._partitions[index] = partition
        partition.log.context.holds.add(partition.topic_partition, self._holder)
        self._reconfigured(self._broker.config)
        self._led.lead(index, partition, partition.leader_epoch)

    def _closed(self, partition: "Partition") -> None:
        topic, index = partition.topic_partition
        if topic == DECLARATIONS_TOPIC:
            self._let_go(index)
            self._led.resign(index)

    def _let_go(self, index: int) -> None:
        partition = self._partitions.pop(index, None)
        if partition is not None:
            partition.log.context.holds.remove(partition.topic_partition, self._holder)

    def _reconfigured(self, config: "BrokerConfig") -> None:
        """Flush declarations before they are answered, whatever log.flush.on.ack is."""
        for partition in self._partitions.values():
            if not partition.role.flushes_on_ack:
                partition.role.flush_on_ack(True)


async def _appended(shard: DeclarationShard, records: list[KeyValue]) -> None:
    """Append records; return once they are committed. Raises ApiError."""

    def ask(done: Callable[[ApiError | None], None]) -> None:
        def committed(error: ErrorCode | None) -> None:
            done(None if error is None else _offline(error))

        shard.journal.append_now(records, committed)

    await called_back(ask)


def _offline(code: ErrorCode) -> ApiError:
    text = f"{DECLARATIONS_TOPIC} is offline: repair its log directory, then restart the broker"
    return ApiError(code, text)


def _batches(changes: Mapping[bytes, Change]) -> Iterator[list[KeyValue]]:
    """Yield the changes in batches of about `APPEND_BYTES_MAX`."""
    batch: list[KeyValue] = []
    size = 0
    for key, change in changes.items():
        added = len(key) + len(change.value or b"") + _RECORD_BYTES
        if batch and size + added > APPEND_BYTES_MAX:
            yield batch
            batch, size = [], 0
        batch.append((key, change.value))
        size += added
    if batch:
        yield batch
