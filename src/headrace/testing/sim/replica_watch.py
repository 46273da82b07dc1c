"""What must hold of replicas, looked at while a story is played and at its end."""

import asyncio
from collections import Counter

from headrace.broker.partition import Partition
from headrace.log.log import Log
from headrace.model.nouns import TopicPartition
from headrace.record import batch as batches
from headrace.testing.sim.cluster import SimCluster

LOOK_SECONDS = 0.02
Contents = dict[int, bytes]


class Broken(Exception):
    """A promise was broken."""


def bytes_of(log: Log) -> bytes:
    """Return all bytes of a log's segments."""
    return b"".join(bytes(segment.file.read(0, segment.size)) for segment in log.segments)


def contents(log: Log, below: int | None = None) -> Contents:
    """Return the values of a log's records by their offsets."""
    data = memoryview(bytes_of(log))
    return {
        record.offset: record.value or b""
        for at, header in batches.iterate(data)
        if not header.attributes & batches.CONTROL
        for record in batches.records(data[at : at + batches.size_of(header)])
        if below is None or record.offset < below
    }


class ReplicaWatch:
    """Looks at all running brokers' partitions of one topic."""

    def __init__(self, cluster: SimCluster, topic: str) -> None:
        """`counts` tells which branches were taken."""
        self.counts: Counter[str] = Counter()
        self.acknowledged: dict[int, Contents] = {}
        """By partition and offset, the value that a producer was acknowledged."""
        self.read: dict[int, Contents] = {}
        """The same of what consumers have seen."""
        self._cluster = cluster
        self._topic = topic
        self._leaders: dict[tuple[TopicPartition, int], int] = {}
        self._marks: dict[Partition, int] = {}
        self._cuts: dict[Log, tuple[int, int]] = {}
        self._in_sync: dict[tuple[TopicPartition, int], frozenset[int]] = {}

    def partitions(self, number: int) -> dict[int, Partition]:
        """Return the partitions that a broker holds, led and followed."""
        server = self._cluster.brokers.get(number)
        if server is None:
            return {}
        broker = server.broker
        held = (*broker.partitions.items(), *broker.followed.items())
        return {index: partition for (topic, index), partition in held if topic == self._topic}

    async def watch(self) -> None:
        """Look again and again. Broken."""
        while True:
            self.look()
            await asyncio.sleep(LOOK_SECONDS)

    def look(self) -> None:
        """Look once. Broken."""
        for number in sorted(self._cluster.brokers):
            for partition in self.partitions(number).values():
                self._look_at(number, partition)

    def _look_at(self, number: int, partition: Partition) -> None:
        log, key, term = partition.log, partition.topic_partition, partition.role.term
        if log.cutting:
            return
        mark = log.high_watermark
        if mark < self._marks.get(partition, 0):
            was = self._marks[partition]
            raise Broken(f"G6: {key} on {number}: high watermark went from {was} to {mark}")
        if partition.role.flushes_on_ack and mark > log.flushed_offset:
            raise Broken(f"G7: {key} on {number}: {mark} is shown, {log.flushed_offset} flushed")
        self._marks[partition] = mark
        if term is not None:
            at = (key, partition.leader_epoch)
            if self._leaders.setdefault(at, number) != number:
                raise Broken(f"G6: {key}: {number} and {self._leaders[at]} lead in epoch {at[1]}")
            self._count_in_sync(at, frozenset(term.in_sync))
        cuts, start = self._cuts.get(log, (0, 0))
        if log.truncations > cuts:
            reset = log.start_offset > start and log.start_offset == log.end_offset
            self.counts["logs begun anew" if reset else "logs cut"] += 1
        self._cuts[log] = log.truncations, log.start_offset

    def _count_in_sync(self, key: tuple[TopicPartition, int], in_sync: frozenset[int]) -> None:
        before = self._in_sync.get(key, in_sync)
        self.counts["shrinks"] += bool(before - in_sync)
        self.counts["joins"] += bool(in_sync - before)
        self._in_sync[key] = in_sync

    @property
    def elections(self) -> int:
        """How many leaders there were."""
        return len(self._leaders)

    def note(self, told: dict[int, Contents], partition: int, offset: int, value: bytes) -> None:
        """Take what a client was told. Broken where another was told otherwise."""
        for known in (self.acknowledged, self.read):
            was = known.get(partition, {}).get(offset, value)
            if was != value:
                raise Broken(f"G3: {self._topic}-{partition} at {offset}: {was!r}, then {value!r}")
        told.setdefault(partition, {})[offset] = value

    # --- the end --------------------------------------------------------------------------------

    def converged(self, brokers: tuple[int, ...], count: int, *, in_sync: bool = True) -> bool:
        """Tell whether each partition is led, and all replicas are at its committed end."""
        held = {number: self.partitions(number) for number in brokers}
        for index in range(count):
            replicas = [held[number].get(index) for number in brokers]
            logs = [replica.log for replica in replicas if replica is not None]
            terms = [replica.role.term for replica in replicas if replica and replica.role.term]
            if len(logs) < len(brokers) or len(terms) != 1:
                return False
            if in_sync and len(terms[0].in_sync) < len(brokers):
                return False
            if len({log.end_offset for log in logs} | {log.high_watermark for log in logs}) > 1:
                return False
        return True

    def judge(self, brokers: tuple[int, ...], count: int) -> None:
        """Compare all replicas with each other and with what clients were told. Broken."""
        for index in range(count):
            logs = {number: self.partitions(number)[index].log for number in brokers}
            start = max(log.start_offset for log in logs.values())
            found = {number: contents(log) for number, log in logs.items()}
            first = found[brokers[0]]
            for number, log in logs.items():
                mine = {at: value for at, value in found[number].items() if at >= start}
                if mine != {at: value for at, value in first.items() if at >= start}:
                    raise Broken(f"G3: {log!r} on {number} is not what {brokers[0]} has")
                self._compare_bytes(logs[brokers[0]], log)
            for told in (self.acknowledged, self.read):
                for offset, value in told.get(index, {}).items():
                    if offset >= start and first.get(offset) != value:
                        what = "acknowledged" if told is self.acknowledged else "read"
                        there = first.get(offset)
                        raise Broken(f"G1: {value!r} was {what} at {index}/{offset}: {there!r}")

    def _compare_bytes(self, one: Log, other: Log) -> None:
        """Compare what both hold from the later start on, byte for byte. Broken."""
        tails = [bytes_of(log) for log in (one, other)]
        short, long = sorted(tails, key=len)
        if not long.endswith(short):
            raise Broken(f"G3: {one!r} and {other!r} are not equal byte for byte")
