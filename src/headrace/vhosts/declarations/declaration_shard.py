"""The loaded partitions of the log of declarations; imported with the first one."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from headrace.model.errors import ApiError, ErrorCode, Malformed
from headrace.posix.awaiting import called_back
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
    World,
)
from headrace.vhosts.declarations.stored_changes import OFFLINE, PARTITIONS, Change, Loaded

if TYPE_CHECKING:
    from headrace.broker.broker import Broker
    from headrace.queues.model.stored_model import Record

LIMITS = JournalLimits(timeout_ms=30_000)
"""Limits of the appends of declarations."""
_RECORD_BYTES = 16
"""Bytes of a record that are neither key nor value, roughly."""


def unreadable(error: Malformed) -> CorruptBatch:
    """Return the error of a record of the log that is no declaration."""
    return CorruptBatch(f"AMQP declaration: {error}. Messages of its queue stay on disk")


class DeclarationShard(Shard):
    """A partition of the log, with its declarations until they are in vhosts."""

    def __init__(self, index: int, partition: ShardPartition, epoch: int, world: World) -> None:
        super().__init__(
            DECLARATIONS_TOPIC,
            index,
            partition,
            epoch=epoch,
            world=world,
            limits=LIMITS,
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
            raise unreadable(error) from error

    def loaded(self) -> None:
        """Do nothing: whoever waits takes the declarations."""

    def dropped(self) -> None:
        """Release the declarations that nobody has taken."""
        self._records = {}

    def take(self) -> Loaded:
        """Return the loaded declarations, once: they are in no memory of the shard afterwards."""
        records, self._records = self._records, {}
        return Loaded(records, self._all_read, self.partition.log.end_offset == 0)

    async def append(self, changes: Mapping[bytes, Change]) -> None:
        """Append changes, by key; return once they are committed. Raises ApiError."""
        await asyncio.gather(*(_appended(self, records) for records in _batches(changes)))


def led_declarations(broker: "Broker") -> LedShards[DeclarationShard]:
    """Return the partitions of the log that the broker leads; none so far."""
    world = World(broker.clock, broker.random, broker.disk)
    # No client is served while they are loaded at a start.
    world.turns = ReplayTurns(broker.clock, pauses=False)
    return LedShards(
        DECLARATIONS_TOPIC,
        lambda index, partition, epoch: DeclarationShard(index, partition, epoch, world),
        image=lambda: broker.image,
        partitions=lambda: PARTITIONS,
    )


async def _appended(shard: DeclarationShard, records: list[KeyValue]) -> None:
    """Append records; return once they are committed. Raises ApiError."""

    def ask(done: Callable[[ApiError | None], None]) -> None:
        def committed(error: ErrorCode | None) -> None:
            done(None if error is None else ApiError(error, OFFLINE))

        shard.journal.append_now(records, committed)

    await called_back(ask)


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
