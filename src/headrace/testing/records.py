"""The records stored in a broker's topics, read for a test or for a failure report."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from headrace.broker.partition import Partition
from headrace.log.log import NeedsDisk
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import Offset
from headrace.record.batch import CONTROL, iterate, records, size_of

if TYPE_CHECKING:
    from headrace.broker.broker import Broker

_READ_BYTES = 1 << 20
SHOWN_PER_PARTITION = 20
SHOWN_PARTITIONS = 50
SHOWN_BYTES = 200


class StoredRecord(NamedTuple):
    """A record as stored in its partition. `timestamp` in milliseconds since 1970."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]] = ()


def stored(broker: "Broker", topic: str, last: int | None = None) -> list[StoredRecord]:
    """Return the records of a topic below its high watermarks.

    `last`: only each partition's newest.

    Call it on the broker's own thread; it blocks the event loop while it reads from disk. ApiError:
    an unknown topic.
    """
    if topic not in broker.image.topics:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {topic}")
    count = len(broker.image.topics[topic].partitions)
    return [
        record
        for index in range(count)
        for record in _of(broker.partition(topic, index), topic, index, last)
    ]


def _of(partition: Partition, topic: str, index: int, last: int | None) -> Iterator[StoredRecord]:
    end = partition.high_watermark
    start = partition.log.start_offset
    if last is not None:
        start = max(start, Offset(end - last))
    at = start
    while at < end:
        found = partition.read(at, _READ_BYTES)
        if isinstance(found, NeedsDisk):
            found = partition.log.read_from_disk(at, _READ_BYTES, below=end)
        if not found.data:
            return
        for position, header in iterate(found.data):
            if header.attributes & CONTROL:
                continue
            batch = memoryview(found.data)[position : position + size_of(header)]
            for record in records(batch):
                if record.offset >= start:
                    yield StoredRecord(topic, index, *record)
        at = found.next_offset


def shown(broker: "Broker", topics: Sequence[str]) -> str:
    """Return the newest records of `topics` as text, a bounded number of them."""
    lines: list[str] = []
    partitions = 0
    for topic in topics:
        info = broker.image.topics.get(topic)
        if info is None:
            lines.append(f"{topic}: there is no such topic")
            continue
        for index in range(len(info.partitions)):
            partitions += 1
            if partitions <= SHOWN_PARTITIONS:
                lines += _partition_lines(broker, topic, index)
    if partitions > SHOWN_PARTITIONS:
        lines.append(f"… and {partitions - SHOWN_PARTITIONS} partitions more")
    return "\n".join(lines)


def _partition_lines(broker: "Broker", topic: str, index: int) -> Iterator[str]:
    try:
        partition = broker.partition(topic, index)
        start, end = partition.log.start_offset, partition.high_watermark
        found = list(_of(partition, topic, index, SHOWN_PER_PARTITION))
    except ApiError as error:
        yield f"{topic}-{index}: {error}"
        return
    yield f"{topic}-{index}: offsets {start} to {end}" + ("" if start < end else ", empty")
    if found and found[0].offset > start:
        yield "  …"
    for record in found:
        headers = "".join(f" {name}={_text(value)}" for name, value in record.headers)
        yield f"  {record.offset}  {_text(record.key)} -> {_text(record.value)}{headers}"


def _text(data: bytes | None) -> str:
    if data is None:
        return "null"
    cut = bytes(data[:SHOWN_BYTES])
    more = f"… ({len(data)} bytes)" if len(data) > SHOWN_BYTES else ""
    try:
        return repr(cut.decode()) + more
    except UnicodeDecodeError:
        return repr(cut) + more
