"""Reading partitions in order: positions, whole batches, decoded records."""

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
from headrace.record import batch as batches
from headrace.record.record import ControlType, Record, parse_control


class Chunk(NamedTuple):
    """Records of one partition as they came."""

    partition: TopicPartition
    position: int
    """The offset that was asked for: batches may begin before it."""
    fetched: Fetched
    read_committed: bool

    def batches(self) -> Iterator[tuple[batches.BatchHeader, memoryview]]:
        """Yield the header and bytes of each batch with records a reader may see.

        CorruptLogError where a checksum is wrong.
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
        """Yield the records from `position` on."""
        return chain.from_iterable(self.record_lists())

    def record_lists(self) -> Iterator[list[Record]]:
        """Yield the records from `position` on, many at a time."""
        position = self.position
        for header, batch in self.batches():
            for records in batches.record_lists(batch):
                if header.base_offset >= position:
                    yield records
                else:
                    yield [record for record in records if record.offset >= position]

    @property
    def next_position(self) -> int:
        """The offset to ask for next; the same where no whole batch came.

        Behind bytes that are no batch nothing is known: `batches` raises there.
        """
        following = self.position
        with suppress(ApiError):
            for _, header in batches.iterate(self.fetched.records):
                following = header.base_offset + header.last_offset_delta + 1
        return max(following, self.position)


def _is_abort(batch: memoryview) -> bool:
    return any(parse_control(record).type is ControlType.ABORT for record in batches.records(batch))


class Consumer:
    """Fetches what `positions` names, turn by turn. Not for several threads."""

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
        """`reset`: where to go on where an offset is gone (EARLIEST, LATEST); None: raise."""
        self.client = client
        self.positions = dict(positions)
        """The next offset of each partition, moved on by `poll`."""
        self.high_watermarks: dict[TopicPartition, int] = {}
        self.read_committed = read_committed
        self.reset = reset
        self.max_bytes = max_bytes
        self.partition_max_bytes = partition_max_bytes
        self.failing: dict[TopicPartition, ErrorCode] = {}
        """Partitions whose last answer was an error that may pass."""
        self.on_reset: Callable[[TopicPartition, int, int], None] = lambda *_: None
        """Told of a partition, the offset that is gone and the one read on from."""
        self._failing_since: dict[TopicPartition, float] = {}
        self._failure: ApiError | None = None
        """What the next `poll` raises: this one's chunks come first."""
        self._backoff_seconds = 0.0
        """How long the next `poll` waits before it asks again."""

    async def poll(self, *, max_wait_ms: int = 500, min_bytes: int = 1) -> list[Chunk]:
        """Fetch what is there now for all partitions, waiting a while for the first bytes.

        ApiError where a partition has had errors alone for the client's `retry_seconds`.
        """
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        if self._backoff_seconds:
            await self.client.transport.sleep(self._backoff_seconds)

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
                # Only the last broker may wait: the others' records would wait with it.
                wait_ms = max_wait_ms if len(by_leader) == 1 else max_wait_ms // len(by_leader)
                chunks += await self._fetch(leader, wanted, wait_ms, min_bytes)
            self._back_off()
            return chunks

        if not self.positions:
            await self.client.transport.sleep(max_wait_ms / 1000)
            return []
        return await self.client.retrying(attempt)

    def _back_off(self) -> None:
        """Ask ever less often while a partition has nothing but errors."""
        if self._failing_since:
            longer = max(2 * self._backoff_seconds, BACKOFF_SECONDS_MIN)
            self._backoff_seconds = min(longer, BACKOFF_SECONDS_MAX)
        else:
            self._backoff_seconds = 0.0

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
                # Bytes, and no batch that goes on: asked for again at once they would come again.
                self._note_failure(partition, ErrorCode.CORRUPT_MESSAGE)
                continue
            self.forget_failure(partition)
        return chunks

    def forget_failure(self, partition: TopicPartition) -> None:
        """Take a partition for sound: it was read, or is to be read at another offset."""
        self._failing_since.pop(partition, None)
        self.failing.pop(partition, None)

    async def _mend(self, partition: TopicPartition, fetched: Fetched) -> None:
        """Do what a partition's error asks for, or raise it."""
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
        """Remember an error that may pass; raised in the end where it does not."""
        self.failing[partition] = code
        now = self.client.transport.now()
        if now - self._failing_since.setdefault(partition, now) >= self.client.retry_seconds:
            self._failure = self._refused(partition, code)

    def _refused(self, partition: TopicPartition, code: ErrorCode) -> ApiError:
        return ApiError(code, f"fetching {partition} at offset {self.positions[partition]}")

    def caught_up(self) -> bool:
        """Tell whether all that was readable at the last fetch has been handed out."""
        return all(
            partition in self.high_watermarks and position >= self.high_watermarks[partition]
            for partition, position in self.positions.items()
        )
