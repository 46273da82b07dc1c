"""The home of durable declarations: the log of the compacted topic `__amqp.declarations`.

    key    32 bytes, a hash of the declaration's identity (`stored_records.record_key`)
    value  the declaration (`stored_records.encode_record`); None: it was deleted

All declarations of a vhost are in one partition, by the hash of the vhost's name. The topic is
created with the first durable declaration, so a broker without any has none.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from headrace.cluster.topics.creation import NewTopic
from headrace.cluster.topics.internal_topics import internal_config
from headrace.model.errors import ApiError, ConfigError, ErrorCode
from headrace.model.nouns import TopicPartition
from headrace.ports.callbacks import Done
from headrace.posix.awaiting import called_back
from headrace.queues.queue_names import DECLARATIONS_TOPIC
from headrace.vhosts.declarations.partitions import DeclarationPartitions
from headrace.vhosts.declarations.stored_changes import OFFLINE, PARTITIONS, Change, Loaded

if TYPE_CHECKING:
    from headrace.broker.broker import Broker
    from headrace.cluster.controller_port import ControllerPort
    from headrace.shards.led_shards import LedShards
    from headrace.vhosts.declarations.declaration_shard import DeclarationShard

CREATE_SECONDS = 10.0
"""Seconds for which the creation of the topic is awaited."""


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
        self._partitions = DeclarationPartitions(
            broker,
            lambda index, partition: self._led.lead(index, partition, partition.leader_epoch),
            lambda index: self._led.resign(index),
        )

    @cached_property
    def _led(self) -> "LedShards[DeclarationShard]":
        """The partitions that this broker leads; their code is imported with the first one."""
        from headrace.vhosts.declarations.declaration_shard import led_declarations

        return led_declarations(self._broker)

    async def load(self) -> Loaded:
        """Return all declarations of the log, once. ConfigError: a partition cannot be read."""
        found = Loaded({}, all_read=True, is_empty=True)
        topic = self._broker.image.topics.get(DECLARATIONS_TOPIC)
        if topic is None:
            return found
        await called_back(self._when_loaded)
        for index in range(len(topic.partitions)):
            shard = self._led.at(index)
            if shard is None or not shard.is_active:
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
        await asyncio.gather(*(shard.append(some) for shard, some in by_shard.items()))

    def close(self) -> None:
        """Append nothing more: the broker stops."""
        if "_led" in vars(self):
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

    def _shard_of(self, vhost: str) -> "DeclarationShard":
        """Return the partition of a vhost's declarations. Raises ApiError."""
        try:
            return self._led.of(vhost)
        except ApiError as error:
            raise ApiError(error.code, OFFLINE) from error

    def _check_room(self, index: int) -> None:
        """Raise ApiError while the disk is too full: a failed write would end the directory."""
        partition = self._partitions.at(index)
        low = None if partition is None else partition.log.context.low
        if low:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, low)
