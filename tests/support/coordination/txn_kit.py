"""What the transaction tests stand on: a coordinator over a partition in memory, and partitions.

The partitions keep real producer states; time and flushes are the test's to move.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from headrace.broker.metadata_image import MetadataImage
from headrace.config.keys.transactions import TransactionKeys
from headrace.config.value_types import Value
from headrace.coordination.transactions.markers import Marker, MarkerWritten
from headrace.coordination.transactions.producers import ProducerEpoch
from headrace.coordination.transactions.transaction_coordinators import TransactionCoordinators
from headrace.coordination.transactions.transaction_shard import TransactionShard
from headrace.coordination.transactions.transaction_state import TransactionState
from headrace.log.producers.producer_states import Begins, ProducerStates
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import Offset, TopicPartition
from headrace.ports.callbacks import Done
from headrace.record.batch import (
    ControlMarker,
    ControlType,
    Record,
    build,
    build_marker,
    iterate,
    parse_header,
)
from headrace.shards.shard import World
from tests.support.coordination.groups_kit import (
    CountingRandom,
    HandClock,
    InlineDisk,
    MemoryLog,
    MemoryPartition,
)

ID = "tx"
TV1, TV2 = 0, 2
P0, P1, P2 = (TopicPartition("t", index) for index in range(3))


class Entry(NamedTuple):
    """What lies at one offset of a data partition."""

    producer_id: int
    epoch: int
    value: str
    """What was written, or COMMIT or ABORT."""


class MarkerAppended(NamedTuple):
    commit_offset: Offset


class DataPartition:
    """A partition that transactions write to; with `hold` nothing is committed until `flush`."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.producers = ProducerStates()
        self.hold = False
        self.refusal: ErrorCode | None = None
        self.committed = 0
        self._waiting: deque[tuple[int, Callable[[ApiError | None], None]]] = deque()

    def write(
        self, who: ProducerEpoch, value: str, sequence: int, begins: Begins = Begins.NO
    ) -> bool:
        """One transactional batch of a client; False where it was there. ApiError as `append`."""
        record = Record(0, 1, None, value.encode())
        header = parse_header(
            build(
                [record],
                producer_id=who.producer_id,
                producer_epoch=who.epoch,
                base_sequence=sequence,
                transactional=True,
            )
        )
        self.producers.check_transactional(header, begins)
        if self.producers.check(header, 0) is not None:
            return False
        self.producers.update(header, len(self.entries))
        self.entries.append(Entry(*who, value))
        return True

    def append_marker(
        self, producer_id: int, epoch: int, commit: bool, coordinator_epoch: int
    ) -> MarkerAppended:
        if self.refusal is not None:
            raise ApiError(self.refusal)
        self.producers.check_epoch(producer_id, epoch, coordinator_epoch)
        kind = ControlType.COMMIT if commit else ControlType.ABORT
        batch = build_marker(
            kind, coordinator_epoch, producer_id=producer_id, producer_epoch=epoch, timestamp=1
        )
        (_, header), *_ = iterate(batch)
        offset = Offset(len(self.entries))
        self.producers.update_marker(header, ControlMarker(kind, coordinator_epoch), offset)
        self.entries.append(Entry(producer_id, epoch, kind.name))
        return MarkerAppended(Offset(len(self.entries)))

    def when_committed(
        self, commit_offset: Offset, callback: Callable[[ApiError | None], None]
    ) -> None:
        self._waiting.append((commit_offset, callback))
        if not self.hold:
            self.flush()

    def flush(self) -> None:
        """All that was appended is committed."""
        self.committed = len(self.entries)
        while self._waiting:
            self._waiting.popleft()[1](None)

    def forget_waiting(self) -> None:
        """Whoever waits died with the process; what was written is there."""
        self._waiting.clear()

    def values(self) -> list[str]:
        """All entries' values, in order."""
        return [entry.value for entry in self.entries]

    def outcome(self, value: str) -> str | None:
        """How the transaction of `value` ended here; None while it is open."""
        at = self.values().index(value)
        producer_id = self.entries[at].producer_id
        for entry in self.entries[at:]:
            if entry.producer_id == producer_id and entry.value in ("COMMIT", "ABORT"):
                return entry.value
        return None


class Participants:
    """`markers.Participants` over partitions in memory."""

    def __init__(self) -> None:
        self.partitions: dict[TopicPartition, DataPartition] = {
            P0: DataPartition(),
            P1: DataPartition(),
            P2: DataPartition(),
        }
        self.told: list[tuple[TopicPartition, int, bool]] = []

        """Markers that hold."""
        self.asked: list[list[TopicPartition]] = []
        """Each call to write, with the partitions it was for."""

    def exists(self, partition: TopicPartition) -> bool:
        return partition in self.partitions

    def write(
        self, marker: Marker, partitions: Sequence[TopicPartition], done: MarkerWritten
    ) -> None:
        self.asked.append(list(partitions))
        for partition in partitions:
            data = self.partitions[partition]
            try:
                appended = data.append_marker(*marker)
            except ApiError as error:
                done(partition, error)
            else:
                written = partial(self._written, partition, marker, done)
                data.when_committed(appended.commit_offset, written)

    def _written(
        self, partition: TopicPartition, marker: Marker, done: MarkerWritten,
        error: ApiError | None,
    ) -> None:  # fmt: skip
        if error is None:
            self.told.append((partition, marker.producer_id, marker.commit))
        done(partition, error)


class Config(TransactionKeys):
    """The configuration, as tests like it: one partition, few ids."""

    def __init__(self, **values: Value) -> None:
        likings: dict[str, Value] = {
            "transaction_state_log_num_partitions": 1,
            "transactional_ids_max": 10,
        }
        super().__init__(**(likings | values))


class Asked:
    """The answer to one request: `result` once it is there."""

    def __init__(self) -> None:
        self.answers: list[Any] = []

    def __call__(self, result: Any) -> None:
        self.answers.append(result)

    @property
    def result(self) -> Any:
        assert len(self.answers) == 1, self.answers
        return self.answers[0]

    @property
    def code(self) -> ErrorCode:
        """The error, NONE where it went well."""
        return self.result.code if isinstance(self.result, ApiError) else ErrorCode.NONE

    @property
    def waits(self) -> bool:
        return not self.answers


@dataclass
class Room:
    """One coordinator and its partitions."""

    config: Config = field(default_factory=Config)
    clock: HandClock = field(default_factory=HandClock)
    partition: MemoryPartition = field(default_factory=MemoryPartition)
    participants: Participants = field(default_factory=Participants)
    epoch: int = 0
    ids: int = 1000
    joined: bool = True
    """Whether the cluster's topics are known already."""

    def __post_init__(self) -> None:
        disk: Any = InlineDisk()
        self.transactions = TransactionCoordinators(
            world=World(self.clock, CountingRandom(), disk),
            config=lambda: self.config,
            image=lambda: MetadataImage("cluster"),
            participants=self.participants,
            new_producer_id=self._new_id,
        )
        self.transactions.led.lead(0, self.partition, self.epoch)
        if self.joined:
            self.transactions.begin()
        self.clock.advance()

    def _new_id(self, give: Done[int | ApiError]) -> None:
        self.ids += 1
        give(self.ids)

    def restart(self, *, lose_unflushed: bool = False, joined: bool = True) -> "Room":
        """A broker that starts after this one was killed; a power cut loses what is not flushed."""
        log = MemoryLog()
        for batch in self.partition.log.batches:
            (_, header), *_ = iterate(batch)
            if not lose_unflushed or header.base_offset < self.partition.committed:
                log.adopt(batch)
        clock = HandClock()
        clock.now, clock.wall = self.clock.now, self.clock.wall
        for one in self.participants.partitions.values():
            one.forget_waiting()
        return Room(
            self.config,
            clock,
            MemoryPartition(log),
            self.participants,
            self.epoch + 1,
            self.ids + 1000,
            joined,
        )

    # What clients ask

    def init(
        self, name: str = ID, timeout_ms: int = 60_000, expected: ProducerEpoch | None = None
    ) -> Asked:
        asked = Asked()
        self.transactions.initialize(name, timeout_ms, expected, asked)
        self.clock.advance()
        return asked

    def producer(self, name: str = ID, timeout_ms: int = 60_000) -> ProducerEpoch:
        """A producer that has the id from now on."""
        result: ProducerEpoch = self.init(name, timeout_ms).result
        return result

    def add(
        self, who: ProducerEpoch, *partitions: TopicPartition, name: str = ID, version: int = TV1
    ) -> Asked:
        asked = Asked()
        self.transactions.add(
            name, who, partitions, version, lambda error: asked(error or ErrorCode.NONE)
        )
        self.clock.advance()
        return asked

    def end(
        self, who: ProducerEpoch, commit: bool = True, name: str = ID, version: int = TV1
    ) -> Asked:
        asked = Asked()
        self.transactions.end(name, who, commit, version, asked)
        self.clock.advance()
        return asked

    def write(self, who: ProducerEpoch, partition: TopicPartition, value: str, seq: int) -> None:
        """A batch of a client that has said it would write there. ApiError."""
        data = self.participants.partitions[partition]
        begins = Begins.NO
        if not data.producers.is_open(*who):
            refused: dict[TopicPartition, ApiError] = {}
            self.transactions.verify(ID, who, [partition], refused.update)
            if refused:
                raise refused[partition]
            begins = Begins.VERIFIED
        data.write(who, value, seq, begins)

    # What is so

    @property
    def shard(self) -> TransactionShard:
        shard = self.transactions.led.at(0)
        assert shard is not None
        return shard

    def state(self, name: str = ID) -> TransactionState:
        return self.shard.transactions[name].state

    def data(self, partition: TopicPartition) -> DataPartition:
        return self.participants.partitions[partition]


def begun(room: Room, version: int = TV1) -> ProducerEpoch:
    """A producer with a transaction open in two partitions."""
    who = room.producer()
    assert room.add(who, P0, P1, version=version).code is ErrorCode.NONE
    room.write(who, P0, "a", 0)
    room.write(who, P1, "b", 0)
    return who
