"""Read the records of a topic's quarantine."""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from headrace.client.calls.offsets import EARLIEST, LATEST, list_offsets
from headrace.client.client import Client
from headrace.client.consumer.consumer import Consumer
from headrace.client.sync import run
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import TopicPartition
from headrace.record.record import Header, Record
from headrace.spark.quarantine.names import HEADER, quarantine_topic

_FROM_THE_FIRST: Mapping[TopicPartition, int] = MappingProxyType({})


class Quarantined(NamedTuple):
    """A record of a quarantine topic."""

    at: TopicPartition
    """The partition of the quarantine topic."""
    record: Record
    """The record as it is stored, with all headers."""
    info: Mapping[str, str]
    """The added headers by name without prefix: topic, partition, offset, flow, reason and others;
    empty texts for those that are missing."""

    @property
    def position(self) -> str:
        """The position of the refused record, such as `orders-3@88123`."""
        return f"{self.info['topic']}-{self.info['partition']}@{self.info['offset']}"

    @property
    def owner(self) -> tuple[str, str]:
        """The pipeline and the flow that refused the record."""
        return self.info["pipeline"], self.info["flow"]

    @property
    def place(self) -> tuple[int, int]:
        """Partition and offset of the refused record; -1 for those that are missing."""
        partition, offset = self.info["partition"], self.info["offset"]
        return (int(partition), int(offset)) if partition and offset else (-1, -1)

    @property
    def attempt(self) -> int:
        """How many times the record was refused."""
        text = self.info["attempt"]
        return int(text) if text.isdecimal() else 1

    @property
    def timestamp(self) -> int:
        """The time of the refused record in ms since 1970."""
        return self.record.timestamp

    @property
    def own_headers(self) -> Sequence[Header]:
        """The headers of the refused record."""
        return [header for header in self.record.headers if not header[0].startswith(HEADER)]


class _Info(dict[str, str]):
    def __missing__(self, name: str) -> str:
        return ""


def read_quarantine(
    client: Client, topic: str, since: Mapping[TopicPartition, int] = _FROM_THE_FIRST
) -> Iterator[Quarantined]:
    """Yield the records of a topic's quarantine, by partition. Raises ApiError, ClientError.

    `since`: as in `read_committed`.
    """
    for at, record in read_committed(client, quarantine_topic(topic), since):
        info = {
            name.removeprefix(HEADER): (value or b"").decode("utf-8", "replace")
            for name, value in record.headers
            if name.startswith(HEADER)
        }
        yield Quarantined(at, record, _Info(info))


def topic_exists(client: Client, topic: str) -> bool:
    """Return whether there is a topic. ApiError for another reason that it has no metadata."""
    try:
        run(client.metadata([topic])).check(topic)
    except ApiError as error:
        if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise
        return False
    return True


def end_offsets(client: Client, topic: str) -> dict[TopicPartition, int]:
    """Return the end offset of the committed records by partition. ApiError, ClientError."""
    known = run(client.metadata([topic]))
    known.check(topic)
    partitions = range(len(known.topics[topic].partitions))
    wanted = {TopicPartition(topic, number): LATEST for number in partitions}
    found = run(list_offsets(client, wanted, read_committed=True))
    return {place: found[place].offset for place in wanted}


def read_committed(
    client: Client, topic: str, since: Mapping[TopicPartition, int] = _FROM_THE_FIRST
) -> Iterator[tuple[TopicPartition, Record]]:
    """Yield the committed records of a topic up to its current end, partition by partition.

    `since`: first offsets of partitions that are not read from their first record on. Raises
    ApiError, ClientError and CorruptLogError.
    """
    ends = end_offsets(client, topic)
    starts = run(list_offsets(client, dict.fromkeys(ends, EARLIEST)))
    for partition, end in ends.items():
        start = max(starts[partition].offset, since.get(partition, 0))
        consumer = Consumer(client, {partition: start}, read_committed=True)
        while consumer.positions[partition] < end:
            for chunk in run(consumer.poll()):
                for record in chunk.records():
                    if record.offset < end:
                        yield partition, record
