"""`LogPolls`: the long polls by which other brokers follow the partitions led here.

A poll is answered with committed batches, or without any after `POLL_SECONDS`. It confirms that its
broker has applied all below the offsets that it names.
"""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from headrace.log.segment.batch_reader import NeedsDisk, ReadResult
from headrace.model.errors import ApiError, ErrorCode, HeadraceError
from headrace.model.nouns import BrokerId, Offset
from headrace.posix.awaiting import called_back
from headrace.shards.led_shards import LedShards
from headrace.shards.loader import LoadLog
from headrace.vhosts.declarations.coordinator_shard import CoordinatorShard
from headrace.vhosts.declarations.messages import Part, Poll, Wanted

if TYPE_CHECKING:
    from headrace.broker.broker import Broker

POLL_SECONDS = 5.0
"""Seconds for which a poll waits for records."""
PART_BYTES_MAX = 128 * 1024
"""Bytes of records of one partition in an answer, but for a larger batch: some 20 ms to apply."""


class _Parked:
    """A poll that waits for records."""

    def __init__(self, wanted: Sequence[Wanted]) -> None:
        self.indices = frozenset(each.partition for each in wanted)
        self.woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def wake(self) -> None:
        if not self.woken.done():
            self.woken.set_result(None)


class LogPolls:
    """The polls of a leader, one for each broker that follows. On the event loop."""

    def __init__(self, broker: "Broker", led: LedShards[CoordinatorShard]) -> None:
        """Create without polls. `led`: the partitions that the broker leads."""
        self._broker = broker
        self._led = led
        self._parked: dict[BrokerId, _Parked] = {}

    async def polled(self, broker: BrokerId, poll: Poll) -> list[Part]:
        """Answer a poll once there are records, or an error, or `POLL_SECONDS` have passed."""
        wanted = poll.wanted
        former = self._parked.pop(broker, None)
        if former is not None:
            former.wake()
        for index, offset in wanted:
            shard = self._led.at(index)
            if shard is not None and shard.is_active and offset <= shard.committed:
                shard.confirmations.polled(broker, offset)
        if poll.waits and not any(map(self._is_answered, wanted)):
            parked = self._parked[broker] = _Parked(wanted)
            timer = self._broker.clock.call_later(POLL_SECONDS, parked.wake)
            try:
                await parked.woken
            finally:
                timer.cancel()
                if self._parked.get(broker) is parked:
                    del self._parked[broker]
        return [await self._part(each) for each in wanted]

    def wake(self, index: int) -> None:
        """Answer the polls that wait for a partition."""
        for parked in self._parked.values():
            if index in parked.indices:
                parked.wake()

    def close(self) -> None:
        """Answer all polls: the broker stops."""
        for parked in self._parked.values():
            parked.wake()

    def _is_answered(self, wanted: Wanted) -> bool:
        """Tell whether there is something to answer about a partition now."""
        shard = self._led.at(wanted.partition)
        if shard is None:
            return True
        return shard.is_active and wanted.offset != shard.committed

    async def _part(self, wanted: Wanted) -> Part:
        index, offset = wanted
        shard = self._led.at(index)
        if shard is None:
            return Part(index, ErrorCode.NOT_COORDINATOR)
        if not shard.is_active:
            return Part(index, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        log, committed = shard.partition.log, shard.committed
        try:
            if offset > committed:
                raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
            read = await self._read(log, max(offset, log.start_offset), committed)
        except ApiError as error:
            return Part(index, error.code)
        except (HeadraceError, OSError):
            return Part(index, ErrorCode.KAFKA_STORAGE_ERROR)
        next_offset = read.next_offset if read.data else committed
        return Part(index, ErrorCode.NONE, committed, bytes(read.data), next_offset)

    async def _read(self, log: LoadLog, offset: Offset, below: Offset) -> ReadResult:
        """Return committed batches from an offset on. Raises ApiError, CorruptLogError, OSError."""
        found = log.read(offset, PART_BYTES_MAX, below=below)
        if not isinstance(found, NeedsDisk):
            return found
        work = partial(log.read_from_disk, offset, PART_BYTES_MAX, below=below)
        return await called_back(partial(self._broker.disk.run, work))
