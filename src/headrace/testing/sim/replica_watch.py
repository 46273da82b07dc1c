"""Invariants of replicas, checked after each step of a story and at its end.

* G6: one leader per epoch; epochs, and the high watermark of a replica, never decrease.
* G7: visible records are flushed. G1: acknowledged records are committed, and every replica in the
  stored ISR, which may be elected, has all committed records.
* At the end: replicas are equal byte for byte (G3), acknowledged and read records exist (G1), and
  records of idempotent producers exist once (G5).
"""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from headrace.broker.partition import Partition
from headrace.cluster.store import znodes
from headrace.log.log import Log
from headrace.model.nouns import TopicPartition
from headrace.record import batch as batches
from headrace.testing.sim.cluster import SimCluster
from headrace.testing.sim.history import Broken

ONCE = b"once "
"""Prefix of the values of idempotent producers: each exists at most once."""
_NEVER = float("-inf")
Contents = dict[int, bytes]


def bytes_of(log: Log) -> bytes:
    """Return the bytes of all segments of a log."""
    return b"".join(bytes(segment.file.read(0, segment.size)) for segment in log.segments)


def contents(log: Log, below: int | None = None) -> Contents:
    """Return the values of a log's records by offset."""
    data = memoryview(bytes_of(log))
    return {
        record.offset: record.value or b""
        for at, header in batches.iterate(data)
        if not header.attributes & batches.CONTROL
        for record in batches.records(data[at : at + batches.size_of(header)])
        if below is None or record.offset < below
    }


class Stored(NamedTuple):
    """A partition's leader, epoch and ISR in the metadata store."""

    leader: int
    leader_epoch: int
    in_sync: frozenset[int]


NOT_STORED = Stored(-1, -1, frozenset())


class ReplicaWatch:
    """Checks all running brokers' replicas of one topic, and their states in the store."""

    def __init__(self, cluster: SimCluster, topic: str, count: int, brokers: Sequence[int]) -> None:
        """Check after each step of the loop and at each change of the store, from now on.

        `counts` counts the branches taken.
        """
        self.topic = topic
        self.count = count
        self.counts: Counter[str] = Counter()
        self.acknowledged: dict[int, Contents] = {}
        """By partition and offset: the value of each acknowledged record."""
        self.read: dict[int, Contents] = {}
        """By partition and offset: the value of each record read by a consumer."""
        self.last_acknowledged = dict.fromkeys(range(count), _NEVER)
        """By partition: the time at which the last acknowledged write began."""
        self.unclean_at: dict[int, float] = {}
        """By partition: the time of the last unclean election.

        Writes that began before that are no longer judged, nor are reads after it: a former leader
        may still serve them. It commits nothing more if it is alone in its ISR.
        """
        self._unclean_epochs = dict.fromkeys(range(count), 0)
        """By partition: the leader epoch of the last unclean election."""
        self._cluster = cluster
        self._brokers = brokers
        self._leaders: dict[tuple[int, int], int] = {}
        """By partition and leader epoch: the leader."""
        self._marks: dict[Partition, int] = {}
        self._cuts: dict[Log, tuple[int, int]] = {}
        self._shown: dict[tuple[int, int], tuple[object, ...]] = {}
        self._stored = dict.fromkeys(range(count), NOT_STORED)
        self._places = [(index, TopicPartition(topic, index)) for index in range(count)]
        self._paths = {znodes.state_path(topic, index): index for index in range(count)}
        self._committed = dict.fromkeys(range(count), 0)
        """By partition: the highest high watermark of a leader."""
        self._empty: set[tuple[int, int]] = set()
        """Partitions and brokers whose disk was replaced while they were in sync."""
        cluster.ensemble.observers.append(self._stored_changed)
        cluster.loop.after_step = self.look

    def partitions(self, number: int) -> dict[int, Partition]:
        """Return a broker's replicas of the topic by partition, led and followed."""
        broker = self._cluster.broker(number)
        if broker is None:
            return {}
        held = (*broker.partitions.items(), *broker.followed.items())
        return {index: partition for (topic, index), partition in held if topic == self.topic}

    # --- the state in the store -----------------------------------------------------------------

    def stored_in_sync(self, index: int) -> frozenset[int]:
        """Return a partition's ISR in the store."""
        return self._stored[index].in_sync

    def is_led(self, index: int) -> bool:
        """Return whether a partition has a leader in the store."""
        return self._stored[index].leader >= 0

    def disk_goes(self, number: int) -> None:
        """Note that a broker's disk was replaced by an empty one."""
        self._empty |= {(index, number) for index in range(self.count)}
        self._drop_those_out_of_sync()

    def _drop_those_out_of_sync(self) -> None:
        """Stop to note a replica as emptied (its disk was replaced) once it has left the ISR."""
        for index, number in sorted(self._empty):
            if number not in self._stored[index].in_sync:
                self._empty.discard((index, number))
                self.counts["empty replicas out of the ISR"] += 1

    def spares(self, number: int, other: int) -> bool:
        """Return whether a broker may lose its disk: `other` has all records and is in sync."""
        terms = [
            partition.role.term
            for broker in self._brokers
            for partition in self.partitions(broker).values()
        ]
        if any(term is not None and term.pending is not None for term in terms):
            return False
        return other in self._cluster.brokers and all(
            {number, other} <= stored.in_sync and (index, other) not in self._empty
            for index, stored in self._stored.items()
        )

    def _stored_changed(self, paths: Sequence[str]) -> None:
        for path in paths:
            index = self._paths.get(path)
            (node,) = self._cluster.ensemble.tree.get_all([path]) if index is not None else [None]
            if index is None or node is None:
                continue
            state = znodes.decode_state(path, node.value)
            after = Stored(state.leader, state.leader_epoch, frozenset(state.isr))
            self._compare(index, self._stored[index], after)
            self._stored[index] = after
            self._drop_those_out_of_sync()
            self._check_in_sync(index)

    def _compare(self, index: int, before: Stored, after: Stored) -> None:
        at = f"{self.topic}-{index}"
        if after.leader_epoch < before.leader_epoch:
            raise Broken(f"G6: {at}: leader epoch {before.leader_epoch}, then {after.leader_epoch}")
        if after.leader_epoch == before.leader_epoch and after.leader != before.leader:
            raise Broken(f"G6: {at}: {before.leader} and {after.leader} in one leader epoch")
        if before is NOT_STORED:
            return
        self.counts["ISR shrinks"] += bool(before.in_sync - after.in_sync)
        self.counts["ISR expansions"] += bool(after.in_sync - before.in_sync)
        self.counts["partitions without a leader"] += after.leader < 0 <= before.leader
        if after.leader >= 0 and after.leader not in before.in_sync:
            self.counts["unclean elections"] += 1
            self.unclean_at[index] = self._cluster.loop.time()
            self._unclean_epochs[index] = after.leader_epoch
            self._committed[index] = 0
            for told in (self.acknowledged, self.read):
                told.pop(index, None)

    def _check_in_sync(self, index: int) -> None:
        """Check that each member of the stored ISR has all committed records. Raises Broken."""
        committed = self._committed[index]
        for number in self._stored[index].in_sync:
            partition = self._held(number, index)
            if partition is None or partition.log.cutting or (index, number) in self._empty:
                continue
            if partition.log.end_offset < committed:
                raise Broken(
                    f"G1: {partition.topic_partition}: {number} is in sync and ends at"
                    f" {partition.log.end_offset}, {committed} was committed"
                )

    # --- the state of the brokers ---------------------------------------------------------------

    def _held(self, number: int, index: int) -> Partition | None:
        broker = self._cluster.broker(number)
        if broker is None:
            return None
        at = (self.topic, index)
        return broker.partitions.get(at) or broker.followed.get(at)

    def look(self) -> None:
        """Check every replica that has changed since the last call. Raises Broken."""
        for number in self._brokers:
            broker = self._cluster.broker(number)
            if broker is None:
                continue
            led, followed = broker.partitions, broker.followed
            for index, at in self._places:
                partition = led.get(at) or followed.get(at)
                if partition is None:
                    continue
                log, role = partition.log, partition.role
                shown = (
                    partition, log.high_watermark, log.flushed_offset, log.end_offset,
                    log.start_offset, log.truncations, log.cutting, role.leader_epoch, role.term,
                )  # fmt: skip
                if self._shown.get((number, index)) != shown:
                    self._shown[number, index] = shown
                    self._look_at(number, index, partition)
        if self._cluster.sole_leaders is not None:
            self._check_rights()

    def _check_rights(self) -> None:
        """Check that at most one broker is a partition's only leader. Raises Broken.

        Former leaders that still reach each other may have the right after an unclean election.
        """
        for index in range(self.count):
            held = [
                number
                for number in self._brokers
                if (partition := self._held(number, index)) is not None
                and partition.role.term is not None
                and self._cluster.holds_right(number, partition)
            ]
            self.counts["rights held"] += bool(held)
            if len(held) > 1 and index not in self.unclean_at:
                raise Broken(f"ADR 78: {held} have the right to lead {self.topic}-{index} at once")

    def _look_at(self, number: int, index: int, partition: Partition) -> None:
        log, key, term = partition.log, partition.topic_partition, partition.role.term
        if log.cutting:
            return
        mark, was = log.high_watermark, self._marks.get(partition, 0)
        if mark < was and index not in self.unclean_at:
            raise Broken(f"G6: {key} on {number}: high watermark went from {was} to {mark}")
        if partition.role.flushes_on_ack and mark > log.flushed_offset:
            raise Broken(f"G7: {key} on {number}: {mark} is shown, {log.flushed_offset} flushed")
        if not log.start_offset <= log.end_offset:
            raise Broken(f"G12: {key} on {number}: {log!r} begins behind its end")
        self._marks[partition] = mark
        self._count_cuts(log)
        if term is not None:
            epoch = partition.leader_epoch
            if (index, number) in self._empty:
                raise Broken(f"G1: {key}: {number} leads in {epoch}, and its disk was replaced")
            if self._leaders.setdefault((index, epoch), number) != number:
                raise Broken(
                    f"G6: {key}: {number} and {self._leaders[index, epoch]} lead in {epoch}"
                )
            if epoch >= self._unclean_epochs[index]:
                self._committed[index] = max(self._committed[index], mark)
            elif mark > was and len(term.in_sync) == 1:
                raise Broken(f"G1: {key}: {number} commits in {epoch}, after an unclean election")
        self._check_in_sync(index)

    def _count_cuts(self, log: Log) -> None:
        cuts, start = self._cuts.get(log, (0, 0))
        if log.truncations > cuts:
            reset = log.start_offset > start and log.start_offset == log.end_offset
            self.counts["logs begun anew" if reset else "logs cut"] += 1
        self._cuts[log] = log.truncations, log.start_offset

    @property
    def elections(self) -> int:
        """Number of leader epochs after the first of each partition."""
        return len(self._leaders) - len({index for index, _ in self._leaders})

    # --- the responses to clients ---------------------------------------------------------------

    def note_acknowledged(self, index: int, offset: int, value: bytes, asked_at: float) -> None:
        """Store and check an acknowledged record, sent at `asked_at`. Raises Broken."""
        if asked_at > self.unclean_at.get(index, _NEVER):
            if index not in self.unclean_at and offset >= self._committed[index]:
                raise Broken(f"G1: {self.topic}-{index}: {offset} is acknowledged, not committed")
            self._note(self.acknowledged, index, offset, value)
        self.last_acknowledged[index] = max(self.last_acknowledged[index], asked_at)
        self.counts["acknowledged"] += 1

    def note_read(self, index: int, offset: int, value: bytes) -> None:
        """Store and check a record that a consumer read. Broken: another value was seen before."""
        if index not in self.unclean_at:
            self._note(self.read, index, offset, value)
        self.counts["read"] += 1

    def _note(self, told: dict[int, Contents], index: int, offset: int, value: bytes) -> None:
        for known in (self.acknowledged, self.read):
            was = known.get(index, {}).get(offset, value)
            if was != value:
                raise Broken(f"G3: {self.topic}-{index} at {offset}: {was!r}, then {value!r}")
        told.setdefault(index, {})[offset] = value

    # --- the end --------------------------------------------------------------------------------

    def converged(self) -> bool:
        """Return whether every partition has a leader and all replicas in sync at one end."""
        for index in range(self.count):
            held = [self._held(number, index) for number in self._brokers]
            logs = [partition.log for partition in held if partition is not None]
            terms = [partition.role.term for partition in held if partition and partition.role.term]
            if len(logs) < len(self._brokers) or len(terms) != 1:
                return False
            if len(terms[0].in_sync) < len(self._brokers):
                return False
            if len({log.end_offset for log in logs} | {log.high_watermark for log in logs}) > 1:
                return False
        return True

    def told(self) -> str:
        """Return the state of all replicas on one line."""
        found = []
        for number in self._brokers:
            for index, partition in sorted(self.partitions(number).items()):
                term = partition.role.term
                in_sync = "" if term is None else f" leads {sorted(term.in_sync)}"
                epoch, log = partition.leader_epoch, partition.log
                found.append(f"{number}/{index}: epoch {epoch}{in_sync} {log!r}")
        return "; ".join((*found, *map(str, self._stored.values())))

    def judge(self) -> None:
        """Compare all replicas with each other and with the responses to clients. Raises Broken."""
        for index in range(self.count):
            logs = {number: self.partitions(number)[index].log for number in self._brokers}
            start = max(log.start_offset for log in logs.values())
            found = {number: contents(log) for number, log in logs.items()}
            first = found[self._brokers[0]]
            for number, log in logs.items():
                mine = {at: value for at, value in found[number].items() if at >= start}
                if mine != {at: value for at, value in first.items() if at >= start}:
                    raise Broken(f"G3: {log!r} on {number} is not what {self._brokers[0]} has")
                self._compare_bytes(logs[self._brokers[0]], log)
            self._judge_told(index, start, first)

    def _judge_told(self, index: int, start: int, found: Contents) -> None:
        for told in (self.acknowledged, self.read):
            for offset, value in told.get(index, {}).items():
                if offset >= start and found.get(offset) != value:
                    what = "acknowledged" if told is self.acknowledged else "read"
                    there = found.get(offset)
                    raise Broken(f"G1: {value!r} was {what} at {index}/{offset}: {there!r}")
        values = [value for value in found.values() if value.startswith(ONCE)]
        twice = [value for value, count in Counter(values).items() if count > 1]
        if twice:
            raise Broken(f"G5: {self.topic}-{index} has {twice[0]!r} twice")

    def _compare_bytes(self, log: Log, other: Log) -> None:
        """Raise Broken unless the shorter of two logs is, byte for byte, the end of the longer."""
        tails = [bytes_of(log), bytes_of(other)]
        short, long = sorted(tails, key=len)
        if not long.endswith(short):
            raise Broken(f"G3: {log!r} and {other!r} are not equal byte for byte")
