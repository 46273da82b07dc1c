"""A consumer of given partitions: positions, fetched batches, decoded records."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import chain
from typing import NamedTuple

from headrace.client.calls.call import RETRIABLE, error_code
from headrace.client.calls.fetch import Fetched, Wanted, fetch_call, read_fetched
from headrace.client.calls.offsets import EARLIEST, list_offsets
from headrace.client.client import BACKOFF_SECONDS_MAX, BACKOFF_SECONDS_MIN, Client
from headrace.model.errors import ApiError, CorruptLogError, ErrorCode
from headrace.model.nouns import TopicPartition
from headrace.ports.backoff import backoff_seconds
from headrace.record import batch as batches
from headrace.record.record import ControlType, Record, parse_control


class Chunk(NamedTuple):
    """Fetched batches of one partition."""

    partition: TopicPartition
    position: int
    """The offset that was fetched from; the first batch may begin before it."""
    fetched: Fetched
    read_committed: bool

    def batches(self) -> Iterator[tuple[batches.BatchHeader, memoryview]]:
        """Yield the header and bytes of each batch with visible records.

        Control batches and, with `read_committed`, aborted batches are skipped. CorruptLogError on
        a wrong checksum.
        """
        view = self.fetched.records
        aborted = sorted(self.fetched.aborted, key=lambda transaction: transaction[1], reverse=True)
        void: set[int] = set()
        for at, header in batches.iterate(view):
            batch = view[at : at + batches.size_of(header)]
            if not batches.crc_ok(batch, header):
                raise CorruptLogError(
                    f"{self.partition}: wrong checksum in the batch at offset {header.base_offset}"
                )
            last = header.base_offset + header.last_offset_delta
            if self.read_committed:
                while aborted and aborted[-1][1] <= last:
                    void.add(aborted.pop()[0])
            if header.attributes & batches.CONTROL:
                if header.producer_id in void and _is_abort(batch):
                    void.discard(header.producer_id)
                continue
            if header.attributes & batches.TRANSACTIONAL and header.producer_id in void:
                continue
            if last >= self.position:
                yield header, batch

    def records(self) -> Iterator[Record]:
        """Yield the records at and after `position`."""
        return chain.from_iterable(self.record_lists())

    def record_lists(self) -> Iterator[list[Record]]:
        """Yield the records at and after `position`, in lists."""
        position = self.position
        for header, batch in self.batches():
            for records in batches.record_lists(batch):
                if header.base_offset >= position:
                    yield records
                else:
                    yield [record for record in records if record.offset >= position]

    @property
    def next_position(self) -> int:
        """The offset to fetch next; equal to `position` if no whole batch was fetched.

        Bytes that are not a batch are not skipped: `batches` raises there.
        """
        following = self.position
        with suppress(ApiError):
            for _, header in batches.iterate(self.fetched.records):
                following = header.base_offset + header.last_offset_delta + 1
        return max(following, self.position)


def _is_abort(batch: memoryview) -> bool:
    return any(parse_control(record).type is ControlType.ABORT for record in batches.records(batch))


class Consumer:
    """Fetches partitions from `positions` on, in the order polled. Not thread-safe."""

    def __init__(
        self,
        client: Client,
        positions: Mapping[TopicPartition, int],
        *,
        read_committed: bool = False,
        reset: int | None = EARLIEST,
        max_bytes: int = 50 << 20,
        partition_max_bytes: int = 4 << 20,
    ) -> None:
        """Create a consumer that starts at `positions`.

        `reset`: where to continue if a position is out of range (EARLIEST or LATEST); None: raise.
        """
        self.client = client
        self.positions = dict(positions)
        """The next offset to fetch, by partition; `poll` advances it."""
        self.high_watermarks: dict[TopicPartition, int] = {}
        self.read_committed = read_committed
        self.reset = reset
        self.max_bytes = max_bytes
        self.partition_max_bytes = partition_max_bytes
        self.failing: dict[TopicPartition, ErrorCode] = {}
        """Partitions whose last response was a retriable error, with that error."""
        self.on_reset: Callable[[TopicPartition, int, int], None] = lambda *_: None
        """Called when a position is reset: with the partition, the offset out of range and the new
        one."""
        self._failing_since: dict[TopicPartition, float] = {}
        self._failure: ApiError | None = None
        """The error that the next `poll` raises: the chunks of this one are returned first."""
        self._failures = 0
        """Polls in a row after which a partition was failing: the next one waits first."""

    async def poll(self, *, max_wait_ms: int = 500, min_bytes: int = 1) -> list[Chunk]:
        """Fetch available batches of all partitions, waiting up to `max_wait_ms` for the first
        bytes.

        ApiError if a partition has returned only errors for the client's `retry_seconds`.
        """
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        if self._failures:
            await self.client.transport.sleep(
                backoff_seconds(self._failures, BACKOFF_SECONDS_MIN, BACKOFF_SECONDS_MAX)
            )

        async def attempt() -> list[Chunk]:
            known = self.client.known
            topics = {position.topic for position in self.positions}
            if known is None or not topics <= known.topics.keys():
                known = await self.client.metadata(sorted(topics))
            by_leader: dict[int, list[Wanted]] = {}
            for (topic, partition), offset in self.positions.items():
                leader = known.leader(topic, partition)
                topic_id = known.topics[topic].topic_id
                by_leader.setdefault(leader, []).append(
                    Wanted(topic, topic_id, partition, offset, self.partition_max_bytes)
                )
            chunks = []
            for leader, wanted in by_leader.items():
                # Only a single leader may wait the full time: records from the other leaders would
                # be delayed.
                wait_ms = max_wait_ms if len(by_leader) == 1 else max_wait_ms // len(by_leader)
                chunks += await self._fetch(leader, wanted, wait_ms, min_bytes)
            self._failures = self._failures + 1 if self._failing_since else 0
            return chunks

        if not self.positions:
            await self.client.transport.sleep(max_wait_ms / 1000)
            return []
        return await self.client.retrying(attempt)

    async def _fetch(
        self, leader: int, wanted: list[Wanted], max_wait_ms: int, min_bytes: int
    ) -> list[Chunk]:
        call = fetch_call(
            wanted,
            max_bytes=self.max_bytes,
            min_bytes=min_bytes,
            max_wait_ms=max_wait_ms,
            read_committed=self.read_committed,
        )
        link = await self.client.broker(leader)
        response = await self.client.ask(link, call, wait_seconds=max_wait_ms / 1000)
        chunks = []
        for fetched in read_fetched(response, wanted):
            partition = TopicPartition(fetched.topic, fetched.partition)
            if fetched.error_code:
                await self._mend(partition, fetched)
                continue
            self.high_watermarks[partition] = (
                fetched.last_stable_offset if self.read_committed else fetched.high_watermark
            )
            chunk = Chunk(partition, self.positions[partition], fetched, self.read_committed)
            following = chunk.next_position
            if following > chunk.position:
                self.positions[partition] = following
                chunks.append(chunk)
            elif fetched.records:
                # Bytes without a complete valid batch: fetching again at once would return the same
                # bytes.
                self._note_failure(partition, ErrorCode.CORRUPT_MESSAGE)
                continue
            self.forget_failure(partition)
        return chunks

    def forget_failure(self, partition: TopicPartition) -> None:
        """Clear a partition's error: it was read, or its position was changed."""
        self._failing_since.pop(partition, None)
        self.failing.pop(partition, None)

    async def _mend(self, partition: TopicPartition, fetched: Fetched) -> None:
        """Handle a partition's error: reset its position, note it for a retry, or raise it."""
        code = error_code(fetched.error_code)
        if code is ErrorCode.OFFSET_OUT_OF_RANGE and self.reset is not None:
            at = await list_offsets(self.client, {partition: self.reset})
            gone, self.positions[partition] = self.positions[partition], at[partition].offset
            self.on_reset(partition, gone, at[partition].offset)
        elif code in RETRIABLE:
            self.client.known = None
            self._note_failure(partition, code)
        else:
            raise self._refused(partition, code)

    def _note_failure(self, partition: TopicPartition, code: ErrorCode) -> None:
        """Record a retriable error; the next `poll` raises it once it has lasted
        `retry_seconds`."""
        self.failing[partition] = code
        now = self.client.transport.now()
        if now - self._failing_since.setdefault(partition, now) >= self.client.retry_seconds:
            self._failure = self._refused(partition, code)

    def _refused(self, partition: TopicPartition, code: ErrorCode) -> ApiError:
        return ApiError(code, f"fetching {partition} at offset {self.positions[partition]}")

    def caught_up(self) -> bool:
        """Return whether all that was readable at the last fetch has been returned by `poll`."""
        return all(
            partition in self.high_watermarks and position >= self.high_watermarks[partition]
            for partition, position in self.positions.items()
        )
