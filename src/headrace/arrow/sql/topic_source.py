"""A topic's records as RecordBatches up to a fixed end, from a log directory or from brokers.

The end is fixed when the topic is opened, so repeated reads return the same records, except those
that retention or compaction deletes.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from headrace.arrow.read import open_topic
from headrace.arrow.read.decode import PartitionDecoder
from headrace.arrow.read.open_topic import Isolation
from headrace.client.calls.offsets import EARLIEST, LATEST, list_offsets
from headrace.client.client import BACKOFF_SECONDS_MIN, Client
from headrace.client.consumer.consumer import Consumer
from headrace.client.sync import run
from headrace.log import file_names
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import TopicPartition

ROWS_MAX = 8192
"""Maximum rows per RecordBatch."""
VALUE_BYTES = 2 << 20
"""Buffer bytes for a RecordBatch's values; each partition read from brokers has its own buffer."""
FETCH_BYTES_MAX = 16 << 20
"""Maximum bytes of a fetch: about what a read holds in memory apart from RecordBatches."""
PARTITION_FETCH_BYTES_MAX = 4 << 20
PARTITIONS_AT_ONCE = 8
"""Partitions read from brokers at once; each has buffers of its own."""

Ranges = Mapping[int, tuple[int, int]]
"""First and end offset by partition, the end exclusive."""
Read = Callable[[Sequence[str], Ranges], Iterator[pa.RecordBatch]]


@dataclass(frozen=True)
class OpenTopic:
    """A topic with the ranges of offsets to read."""

    topic: str
    isolation: Isolation
    ranges: Ranges
    read: Read
    """Yields the given columns of the given ranges; may be called repeatedly."""


class TopicSource(Protocol):
    """Provides topics by name."""

    def names(self) -> list[str]:
        """Return the names of all topics."""

    def open(self, topic: str, isolation: Isolation) -> OpenTopic:
        """Open a topic and fix its end. ApiError UNKNOWN_TOPIC_OR_PARTITION."""


class DirectoryTopics:
    """Topics in a broker's log directory, whether or not the broker runs."""

    def __init__(self, log_dir: str | os.PathLike[str]) -> None:
        self._log_dir = os.fspath(log_dir)

    def names(self) -> list[str]:
        """Return the topics that have a directory."""
        parsed = map(file_names.parse_directory, os.listdir(self._log_dir))
        return sorted({place.topic for place in parsed if place is not None})

    def open(self, topic: str, isolation: Isolation) -> OpenTopic:
        """Open a topic and fix its end, as `headrace.arrow.open` does."""

        def read(columns: Sequence[str], ranges: Ranges) -> Iterator[pa.RecordBatch]:
            return iter(
                open_topic.open(
                    self._log_dir,
                    topic,
                    partitions=list(ranges),
                    offsets={number: (start, end) for number, (start, end) in ranges.items()},
                    columns=columns,
                    isolation=isolation,
                )
            )

        ranges = open_topic.ranges(self._log_dir, topic, isolation)
        return OpenTopic(topic, isolation, ranges, read)


class ClusterTopics:
    """Topics of a cluster, read from its brokers."""

    def __init__(self, connect: Callable[[], Client], tell: Callable[[str], None]) -> None:
        """Create a source of a cluster's topics.

        `connect` returns a new client for each read; `tell` is called with a line about deleted
        records.
        """
        self._connect = connect
        self._tell = tell

    def names(self) -> list[str]:
        """Return the names of all topics."""
        with self._connect() as client:
            return sorted(run(client.metadata()).topics)

    def open(self, topic: str, isolation: Isolation) -> OpenTopic:
        """Open a topic; its end is the high watermarks or the last stable offsets."""
        committed = isolation == "read_committed"
        with self._connect() as client:
            known = run(client.leaders([topic]))
            places = [
                TopicPartition(topic, partition.partition)
                for partition in known.topics[topic].partitions
            ]
            starts = run(list_offsets(client, dict.fromkeys(places, EARLIEST)))
            ends = run(
                list_offsets(client, dict.fromkeys(places, LATEST), read_committed=committed)
            )
        ranges = {
            place.partition: (starts[place].offset, max(starts[place].offset, ends[place].offset))
            for place in places
        }

        def read(columns: Sequence[str], ranges: Ranges) -> Iterator[pa.RecordBatch]:
            return self._read(topic, columns, ranges, committed)

        return OpenTopic(topic, isolation, ranges, read)

    def _read(
        self, topic: str, columns: Sequence[str], ranges: Ranges, committed: bool
    ) -> Iterator[pa.RecordBatch]:
        numbers = sorted(ranges)
        with self._connect() as client:
            for at in range(0, len(numbers), PARTITIONS_AT_ONCE):
                some = {number: ranges[number] for number in numbers[at : at + PARTITIONS_AT_ONCE]}
                yield from _Fetching(client, topic, columns, some, committed, self._tell).batches()


def bound_line(opened: OpenTopic) -> str:
    """Return a line that says how far a topic is read."""
    where = "high watermark" if opened.isolation == "read_uncommitted" else "last stable offset"
    spans = list(opened.ranges.values())
    if len(spans) == 1:
        which = f"offsets {spans[0][0]} to {spans[0][1]} (the {where})"
    else:
        offsets = sum(end - start for start, end in spans)
        which = f"{offsets} offsets in {len(spans)} partitions, up to the {where}"
    return f"{opened.topic}: {which}, {opened.isolation}"


class _Fetching:
    """A read of several ranges with one client."""

    def __init__(
        self, client: Client, topic: str, columns: Sequence[str], ranges: Ranges, committed: bool,
        tell: Callable[[str], None],
    ) -> None:  # fmt: skip
        self._tell = tell
        self._ends = {
            TopicPartition(topic, number): end
            for number, (start, end) in ranges.items()
            if start < end
        }
        self._decoders = {
            place: PartitionDecoder(
                *place,
                offset_from=ranges[place.partition][0],
                offset_until=end,
                columns=columns,
                topic_dictionary=True,
                rows_max=ROWS_MAX,
                value_bytes=VALUE_BYTES,
            )
            for place, end in self._ends.items()
        }
        self._consumer = Consumer(
            client,
            {place: ranges[place.partition][0] for place in self._ends},
            read_committed=committed,
            max_bytes=FETCH_BYTES_MAX,
            partition_max_bytes=PARTITION_FETCH_BYTES_MAX,
        )
        self._consumer.on_reset = self._gone

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the records of all ranges, each partition's in order."""
        empty_answers = 0
        transport = self._consumer.client.transport
        progress_at = transport.now()
        while self._consumer.positions:
            chunks = run(self._consumer.poll())
            for chunk in chunks:
                decoder = self._decoders[chunk.partition]
                yield from decoder.feed(chunk.fetched.records, chunk.fetched.aborted)
            if chunks:
                empty_answers, progress_at = 0, transport.now()
            else:
                # An empty response although more is readable: compaction removed the rest. Believed
                # when it comes twice without an error of any partition.
                empty_answers = 0 if self._consumer.failing else empty_answers + 1
                self._wait(progress_at)
            for place, position in list(self._consumer.positions.items()):
                if position >= self._ends[place] or (empty_answers > 1 and self._readable(place)):
                    yield from self._decoders.pop(place).flush()
                    del self._consumer.positions[place]

    def _readable(self, place: TopicPartition) -> bool:
        return self._consumer.high_watermarks.get(place, -1) >= self._ends[place]

    def _wait(self, progress_at: float) -> None:
        """Sleep; ApiError REQUEST_TIMED_OUT if no record came for the client's retry time."""
        client = self._consumer.client
        if client.transport.now() - progress_at < client.retry_seconds:
            run(client.transport.sleep(BACKOFF_SECONDS_MIN))
            return
        place, position = min(self._consumer.positions.items())
        raise ApiError(
            ErrorCode.REQUEST_TIMED_OUT,
            f"{place}: nothing of offsets {position} to {self._ends[place] - 1} came in"
            f" {client.retry_seconds:g} s",
        )

    def _gone(self, place: TopicPartition, gone: int, offset: int) -> None:
        """Continue at the log's new start; ApiError if the log was truncated below the position."""
        if offset < gone:
            raise ApiError(
                ErrorCode.OFFSET_OUT_OF_RANGE, f"{place} was cut off below offset {gone}"
            )
        self._tell(f"{place}: offsets {gone} to {offset - 1} were deleted while they were read")
