"""Replicas compared on the disks of brokers that have ended.

Below the greatest high watermark any of them wrote down, replicas are equal byte for byte. Of
compacted topics every offset that two of them have holds the same record.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from headrace.log.text_files import read_offsets
from headrace.model.nouns import TopicPartition
from headrace.record import batch as wire


@dataclass
class Replica:
    """A partition's segments in one broker's log directory."""

    broker: int
    directory: Path

    @cached_property
    def high_watermark(self) -> int:
        path = self.directory.parent / "replication-offset-checkpoint"
        topic, _, index = self.directory.name.rpartition("-")
        marks = read_offsets(path.read_bytes(), str(path)) if path.exists() else {}
        return marks.get(TopicPartition(topic, int(index)), 0)

    @cached_property
    def data(self) -> bytes:
        """The batches of all segments, one after the other."""
        return b"".join(path.read_bytes() for path in sorted(self.directory.glob("*.log")))

    @property
    def end(self) -> int:
        """The offset after its last batch."""
        headers = [header for _, header in wire.iterate(self.data)]
        return wire.next_offset(headers[-1]) if headers else 0

    def below(self, offset: int) -> bytes:
        """The batches that begin before `offset`."""
        for position, header in wire.iterate(self.data):
            if header.base_offset >= offset:
                return self.data[:position]
        return self.data

    def records_below(self, offset: int) -> dict[int, wire.Record]:
        """Every record below `offset`, those of control batches too."""
        data = self.below(offset)
        return {
            record.offset: record
            for position, header in wire.iterate(data)
            for record in wire.records(data[position : position + wire.size_of(header)])
        }


@dataclass(frozen=True)
class Compared:
    """What a comparison found."""

    partitions: int
    replicas: int
    read_bytes: int
    differences: list[str]

    def __str__(self) -> str:
        text = (
            f"replicas on disk: {self.replicas} of {self.partitions} partitions,"
            f" {self.read_bytes >> 10} KiB, differences {len(self.differences)}"
        )
        return "\n  ".join([text, *self.differences[:20]])


def compare(
    directories: Mapping[int, Sequence[Path]],
    assigned: Mapping[tuple[str, int], Sequence[int]],
    compacted: Collection[str] = (),
) -> Compared:
    """Compare all replicas of each partition with its first.

    `directories` are the log directories of each broker, `assigned` the brokers of each partition.
    """
    differences: list[str] = []
    replica_count = read_bytes = 0
    for (topic, index), brokers in sorted(assigned.items()):
        name = f"{topic}-{index}"
        replicas = []
        for broker in brokers:
            found = [place / name for place in directories[broker] if (place / name).is_dir()]
            if len(found) != 1:
                told = ", ".join(map(str, found)) or "nothing"
                differences.append(f"{name} of broker {broker}: {told} where one directory is due")
            replicas += [Replica(broker, place) for place in found[:1]]
        replica_count += len(replicas)
        read_bytes += sum(len(replica.data) for replica in replicas)
        differences += [f"{name}: {told}" for told in _apart(replicas, topic in compacted)]
    return Compared(len(assigned), replica_count, read_bytes, differences)


def _apart(replicas: Sequence[Replica], compacted: bool) -> Iterator[str]:
    """What is not the same below the high watermark."""
    upto = max((replica.high_watermark for replica in replicas), default=0)
    for replica in replicas:
        if replica.end < upto:
            yield f"broker {replica.broker} ends at {replica.end}, and {upto} is committed"
    for other in replicas[1:]:
        first = replicas[0]
        if first.below(upto) == other.below(upto):
            continue
        mine, theirs = first.records_below(upto), other.records_below(upto)
        offsets = mine.keys() & theirs.keys() if compacted else mine.keys() | theirs.keys()
        parted = sorted(at for at in offsets if mine.get(at) != theirs.get(at))
        if parted:
            yield (
                f"brokers {first.broker} and {other.broker} differ at {len(parted)} offsets,"
                f" the first is {parted[0]} of {upto}"
            )
        elif not compacted:
            yield f"brokers {first.broker} and {other.broker} have the same in other bytes"
